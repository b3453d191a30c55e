"""Rows of exports and of databases as documents."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy
from pydantic import ValidationError

from rag.config import AccessRule, DatabaseConfig, ExportConfig, ParseConfig, SourcesConfig
from rag.data import Access, ErrorRow, SourceObject
from rag.errors import InputError
from rag.parse.parser import DocumentParser
from rag.read.objects import read_object
from rag.read.sources import list_sources

TICKETS: list[dict[str, Any]] = [
    {"ticket": 7, "team": "ops", "subject": "Door", "answer": "Press *reset*.", "due": date(2024, 2, 29)},
    {"ticket": 8, "team": "", "subject": "Lamp", "answer": "Replace it.", "due": None},
]
SHAPE: dict[str, Any] = {"id": "{ticket}", "title": "{team}: {subject}", "text": "{answer}", "groups": ("team-{team}",)}


def listed(root: Path, config: SourcesConfig) -> tuple[list[SourceObject], list[ErrorRow]]:
    found = list(list_sources(root, config))
    return [one for one in found if isinstance(one, SourceObject)], [one for one in found if isinstance(one, ErrorRow)]


def write_csv(path: Path) -> None:
    lines = ["ticket;team;subject;answer", "7;ops;Door;Press *reset*.", '8;;Lamp;"Replace it."']
    path.write_text("\n".join(lines), encoding="utf-8")


def write_parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(TICKETS), path)


def write_jsonl(path: Path) -> None:
    path.write_text("\n".join(json.dumps(row, default=str) for row in TICKETS), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "write"),
    [("tickets.csv", write_csv), ("tickets.parquet", write_parquet), ("tickets.jsonl", write_jsonl)],
)
def test_a_row_of_an_export_is_a_document_of_the_readers_that_its_template_names(
    tmp_path: Path, name: str, write: Callable[[Path], None]
) -> None:
    write(tmp_path / name)
    config = SourcesConfig(exports=(ExportConfig(pattern="tickets.*", **SHAPE),), default_groups=("everyone",))
    (door, lamp), errors = listed(tmp_path, config)
    assert (door.uri, lamp.uri, errors) == (f"{name}#7", f"{name}#8", [])
    assert door.metadata.access == Access("default", ("team-ops",))
    assert lamp.metadata.access == Access("default", ())  # a template without its column opens nothing
    document = DocumentParser(ParseConfig(), config).parse(read_object(door, config))
    assert document.metadata.title == "ops: Door"
    assert [block.text for block in document.blocks] == ["ops: Door", "Press reset."]


def test_other_tables_stay_documents_and_parquet_says_what_it_needs(tmp_path: Path) -> None:
    write_csv(tmp_path / "tickets.csv")
    write_parquet(tmp_path / "tickets.parquet")
    sources, errors = listed(tmp_path, SourcesConfig())
    assert [source.uri for source in sources] == ["tickets.csv"]
    assert [(row.uri, "sources.exports" in row.message) for row in errors] == [("tickets.parquet", True)]


def test_bad_rows_are_named_and_the_others_stay(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,x\n,y\n1,z\n2,w,too many\n", encoding="utf-8")
    sources, errors = listed(tmp_path, SourcesConfig(exports=(ExportConfig(pattern="*.csv"),)))
    assert [source.uri for source in sources] == ["a.csv#1"]
    assert [(row.uri, row.message) for row in errors] == [
        ("a.csv#row-2", "row 2: the row has no id (a string or a whole number)"),
        ("a.csv#row-3", "row 3: the id is already used in row 1: 1"),
        ("a.csv", "row 4 has more cells than the header"),
    ]
    misspelt = SourcesConfig(exports=(ExportConfig(pattern="*.csv", title="{titel}"),))
    _, (first, *_) = listed(tmp_path, misspelt)
    assert first.message == "row 1: no column titel: there are id, text"


def database(tmp_path: Path) -> DatabaseConfig:
    url = f"sqlite:///{tmp_path / 'crm.db'}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text("CREATE TABLE tickets (ticket INTEGER, team TEXT, subject TEXT, answer TEXT)")
        )
        for row in TICKETS:
            values = {name: row[name] for name in ("ticket", "team", "subject", "answer")}
            connection.execute(
                sqlalchemy.text("INSERT INTO tickets VALUES (:ticket, :team, :subject, :answer)"), values
            )
    engine.dispose()
    return DatabaseConfig(name="crm", url=url, query="SELECT * FROM tickets ORDER BY ticket", **SHAPE)


def test_a_row_of_a_database_is_a_document(tmp_path: Path) -> None:
    rules = (AccessRule(pattern="sql:crm", groups=("support",), owner="Support"),)
    config = SourcesConfig(databases=(database(tmp_path).model_copy(update={"groups": ()}),), rules=rules)
    (door, lamp), errors = listed(Path("sql:crm"), config)
    assert (door.uri, lamp.uri, errors) == ("sql:crm#7", "sql:crm#8", [])
    assert door.metadata.access.groups == ("support",)
    document = DocumentParser(ParseConfig(), config).parse(read_object(door, config))
    assert (document.metadata.title, document.metadata.owner) == ("ops: Door", "Support")
    again, _ = listed(Path("sql:crm"), config)
    assert [source.watermark for source in again] == [door.watermark, lamp.watermark]


def test_an_unknown_database_or_a_query_that_fails_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"sql:hr: no such database in sources\.databases; there are: crm"):
        listed(Path("sql:hr"), SourcesConfig(databases=(database(tmp_path),)))
    wrong = DatabaseConfig(name="crm", url=f"sqlite:///{tmp_path / 'crm.db'}", query="SELECT * FROM absent")
    with pytest.raises(InputError, match=r"sources\.databases: crm: OperationalError: .*no such table"):
        listed(Path("sql:crm"), SourcesConfig(databases=(wrong,)))


def test_names_of_databases_fit_into_uris() -> None:
    with pytest.raises(ValidationError):
        DatabaseConfig(name="My DB", url="sqlite://", query="SELECT 1")
