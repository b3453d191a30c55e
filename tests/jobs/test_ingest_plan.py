import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy

from jobs.ingest_plan import Plan, ReadTask, make_plan, metadata_hash
from rag.config import AccessRule, DatabaseConfig, SourcesConfig
from rag.data import SourceObject
from rag.errors import InputError
from rag.ids import ChunkId, document_id
from rag.index.registry import DocumentRecord

OPEN = SourcesConfig(default_groups=("staff",))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    for name in ("a.md", "hr/b.md", "hr/c.md"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n\nSome text.\n")
    return root


def record_of(task: ReadTask) -> DocumentRecord:
    source = task.source
    return DocumentRecord(
        document_id=document_id(source.metadata.access.tenant, source.uri),
        uri=source.uri,
        root=task.root,
        content_hash="content",
        metadata_hash=task.metadata_hash,
        watermark=source.watermark,
        shard=0,
        chunk_ids=(ChunkId(f"chunk of {source.uri}"),),
    )


def indexed(root: Path, config: SourcesConfig = OPEN) -> list[DocumentRecord]:
    return [record_of(task) for task in make_plan([root], config, []).to_read]


def uris(found: Iterable[ReadTask | DocumentRecord]) -> list[str]:
    return [item.source.uri if isinstance(item, ReadTask) else item.uri for item in found]


def deleted_uris(plan: Plan, known: Iterable[DocumentRecord]) -> list[str]:
    return sorted(record.uri for record in known if record.document_id in plan.deleted)


def test_everything_is_read_at_first(corpus: Path) -> None:
    plan = make_plan([corpus], OPEN, [])
    assert uris(plan.to_read) == ["a.md", "hr/b.md", "hr/c.md"]
    assert plan.num_listed == 3


def test_nothing_is_read_when_nothing_changed(corpus: Path) -> None:
    plan = make_plan([corpus], OPEN, indexed(corpus))
    assert uris(plan.unchanged) == ["a.md", "hr/b.md", "hr/c.md"]
    assert (plan.to_read, plan.deleted) == ((), ())


def test_a_touched_file_is_read_beside_what_is_known_of_it(corpus: Path) -> None:
    known = indexed(corpus)
    os.utime(corpus / "hr/b.md", ns=(1, 1))
    plan = make_plan([corpus], OPEN, known)
    assert uris(plan.to_read) == ["hr/b.md"]
    assert plan.to_read[0].known == known[1]


def test_another_reader_alone_is_a_change(corpus: Path) -> None:
    narrower = SourcesConfig(default_groups=("staff",), rules=(AccessRule(pattern="hr/**", groups=("hr",)),))
    plan = make_plan([corpus], narrower, indexed(corpus))
    assert uris(plan.to_read) == ["hr/b.md", "hr/c.md"]


def test_believing_the_documents_own_groups_is_a_change(corpus: Path) -> None:
    plan = make_plan([corpus], OPEN.model_copy(update={"trust_document_groups": True}), indexed(corpus))
    assert len(plan.to_read) == 3


def test_a_file_that_is_gone_is_deleted_and_other_roots_stay(corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "z.md").write_text("text")
    known = [*indexed(corpus), *indexed(other)]
    (corpus / "hr/b.md").unlink()
    plan = make_plan([corpus], OPEN, known)
    assert deleted_uris(plan, known) == ["hr/b.md"]


def test_one_file_as_root_updates_it_and_deletes_nothing(corpus: Path) -> None:
    known = indexed(corpus)
    (corpus / "a.md").write_text("changed, and longer than before")
    plan = make_plan([corpus / "a.md"], OPEN, known)
    assert plan.to_read[0].known == known[0]
    assert plan.deleted == ()


def test_a_uri_of_another_root_is_an_error_not_a_swap(corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("another document of the same name")
    in_one_run = make_plan([corpus, other], OPEN, [])
    assert [(row.uri, row.error) for row in in_one_run.failed] == [("a.md", "InputError")]
    later = make_plan([other], OPEN, indexed(corpus))
    assert str(corpus) in later.failed[0].message
    assert later.to_read == ()


def test_the_same_root_twice_fails_rather_than_counting_twice(corpus: Path) -> None:
    plan = make_plan([corpus, corpus], OPEN, [])
    assert len(plan.to_read) == 3
    assert len(plan.failed) == 3


def test_skipped_and_failed_are_told_apart(corpus: Path) -> None:
    (corpus / "film.mp4").write_bytes(b"\x00")
    (corpus / "dangling.md").symlink_to(corpus / "nowhere.md")
    plan = make_plan([corpus], OPEN, [])
    assert [row.uri for row in plan.skipped] == ["film.mp4"]
    assert [row.uri for row in plan.failed] == ["dangling.md"]
    assert plan.num_listed == 5


def unreadable_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mode bits do not stop root, so the refusal comes from scandir itself."""
    scandir = os.scandir

    def refuse(folder: str | Path) -> object:
        if Path(folder) == path:
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)


def test_what_is_below_an_unreadable_folder_is_not_deleted(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = indexed(corpus)
    unreadable_folder(corpus / "hr", monkeypatch)
    plan = make_plan([corpus], OPEN, known)
    assert [row.uri for row in plan.failed] == ["hr"]
    assert plan.deleted == ()


def test_but_it_goes_when_its_readers_changed_meanwhile(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = indexed(corpus)
    unreadable_folder(corpus / "hr", monkeypatch)
    narrower = SourcesConfig(default_groups=("staff",), rules=(AccessRule(pattern="hr/b.md", groups=("hr",)),))
    assert deleted_uris(make_plan([corpus], narrower, known), known) == ["hr/b.md"]


def test_rows_of_an_export_come_and_go_one_by_one(tmp_path: Path) -> None:
    export = tmp_path / "corpus" / "tickets.jsonl"
    export.parent.mkdir()
    export.write_text('{"id": 1, "text": "one"}\n{"id": 2, "text": "two"}\n{"id": 3, "text": "three"}\n')
    known = indexed(export.parent)
    export.write_text('{"id": 1, "text": "one"}\n{"id": 3, "text": "drei"}\n{"id": 4, "text": "four"}\n')
    plan = make_plan([export.parent], OPEN, known)
    assert uris(plan.unchanged) == ["tickets.jsonl#1"]
    assert uris(plan.to_read) == ["tickets.jsonl#3", "tickets.jsonl#4"]
    assert deleted_uris(plan, known) == ["tickets.jsonl#2"]


def test_a_root_that_does_not_exist_is_the_callers_fault(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        make_plan([tmp_path / "nowhere"], OPEN, [])


def test_the_metadata_hash_sees_every_field(corpus: Path) -> None:
    source = make_plan([corpus], OPEN, []).to_read[0].source
    assert isinstance(source, SourceObject)
    metadata = source.metadata
    changed = [
        {"owner": "someone"}, {"authority": "policy"}, {"title": "T"}, {"language": "de"}, {"media_type": "x"}
    ]  # fmt: skip
    hashes = {metadata_hash(replace(metadata, **change), OPEN) for change in changed}  # type: ignore[arg-type]
    assert len({*hashes, metadata_hash(metadata, OPEN)}) == len(changed) + 1


def test_rows_of_a_database_come_and_go_like_those_of_a_folder(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'crm.db'}")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE tickets (id INTEGER, text TEXT)"))
        connection.execute(sqlalchemy.text("INSERT INTO tickets VALUES (1, 'one'), (2, 'two')"))
    database = DatabaseConfig(name="crm", url=str(engine.url), query="SELECT * FROM tickets")
    config = OPEN.model_copy(update={"databases": (database,)})
    known = indexed(Path("sql:crm"), config)
    assert [(record.uri, record.root) for record in known] == [("sql:crm#1", "sql:crm"), ("sql:crm#2", "sql:crm")]
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("DELETE FROM tickets WHERE id = 1"))
    plan = make_plan([Path("sql:crm")], config, known)
    assert (uris(plan.unchanged), deleted_uris(plan, known)) == (["sql:crm#2"], ["sql:crm#1"])
