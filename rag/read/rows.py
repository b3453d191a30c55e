"""Rows of tables as documents: exports as JSONL, CSV or Parquet, and a database's answer to a query."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy

from rag.config import DatabaseConfig, RowTemplate
from rag.errors import InputError

Row: TypeAlias = Mapping[str, object]

DATABASE_SCHEME = "sql:"
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
_BATCH_ROWS = 1_000
_COLUMN = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class ShapedRow:
    """A row as the one JSON object that is parsed, and its readers where a template names them."""

    fields: Row
    groups: tuple[str, ...] | None = None


def database_name(root: Path) -> str | None:
    """The name of the configured database that a root of the form `sql:NAME` means; None for a path."""
    text = str(root)
    return text.removeprefix(DATABASE_SCHEME) if text.startswith(DATABASE_SCHEME) else None


def shape_row(row: Row, template: RowTemplate | None) -> ShapedRow:
    """The row with `id`, `title` and `text` as the template says; other columns stay. Raises ValueError for a column
    that the row does not have."""
    if template is None:
        return ShapedRow(row)
    shaped = dict(row)
    for name in ("id", "title", "text"):
        if pattern := getattr(template, name):
            shaped[name] = _filled(pattern, row)
    groups = None
    if template.groups:
        named = {name for pattern in template.groups for name in _group_names(pattern, row)}
        groups = tuple(sorted(named))
        shaped.pop("groups", None)
    return ShapedRow(shaped, groups)


def row_json(fields: Row) -> str:
    """The row as JSON; dates as ISO 8601, whatever else JSON does not know as its text."""
    return json.dumps(fields, ensure_ascii=False, default=_json_value)


def csv_rows(path: Path) -> Iterator[Row]:
    """The rows of a CSV or TSV file with a header row, read one by one; an empty cell is None.

    Raises ValueError for rows longer than the header, broken quotations, and bytes that are not UTF-8.
    """
    from rag.parse.delimited import detect_delimiter

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = "\t" if path.suffix.lower() == ".tsv" else detect_delimiter(file.read(1 << 16))
            file.seek(0)
            for number, row in enumerate(csv.DictReader(file, delimiter=delimiter, strict=True), start=1):
                if None in row:
                    raise ValueError(f"row {number} has more cells than the header")
                yield {str(name): value or None for name, value in row.items()}
    except csv.Error as error:
        raise ValueError(f"not readable as a table: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: invalid byte at offset {error.start} of a block") from error


def parquet_rows(path: Path) -> Iterator[Row]:
    """The rows of a Parquet file, in batches. Raises ValueError for a damaged one."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise ValueError(f"not readable as Parquet: {error}") from error


def database_rows(database: DatabaseConfig) -> Iterator[Row]:
    """The rows of the query's answer, streamed; nothing is committed. Raises InputError with the database's name where
    it can't be asked; the message holds no password."""
    try:
        engine = sqlalchemy.create_engine(database.url)
        try:
            with engine.connect() as connection:
                answer = connection.execution_options(stream_results=True).execute(sqlalchemy.text(database.query))
                for row in answer.yield_per(_BATCH_ROWS).mappings():
                    yield dict(row)
        finally:
            engine.dispose()
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        first_line = str(error).partition("\n")[0]
        raise InputError(f"sources.databases: {database.name}: {type(error).__name__}: {first_line}") from error


def _filled(pattern: str, row: Row) -> str:
    return _COLUMN.sub(lambda match: _text(_column(row, match[1])), pattern).strip()


def _group_names(pattern: str, row: Row) -> list[str]:
    """The groups of one pattern: several where it is one column that holds a list; none where the column is empty."""
    whole = _COLUMN.fullmatch(pattern)
    value = _column(row, whole[1]) if whole else None
    if isinstance(value, list | tuple):
        return [_text(item) for item in value if _text(item)]
    if any(not _text(_column(row, name)) for name in _COLUMN.findall(pattern)):
        return []
    return [_filled(pattern, row)]


def _column(row: Row, name: str) -> object:
    if name not in row:
        raise ValueError(f"no column {name}: there are {', '.join(map(str, row))}")
    return row[name]


def _text(value: object) -> str:
    return "" if value is None else value.strip() if isinstance(value, str) else str(_json_value(value))


def _json_value(value: object) -> object:
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat is not None else str(value)
