"""Sources -> the objects in them, each with who may read it; nothing is opened that need not be."""

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from rag.config import ExportConfig, RowTemplate, SourcesConfig
from rag.data import Access, DocumentMetadata, ErrorRow, SourceObject
from rag.errors import ConfigError, InputError
from rag.ids import digest
from rag.parse.media_type import ROW_MEDIA_TYPE, guess_media_type, why_not_read
from rag.read.access import declared_access
from rag.read.rows import (
    DATABASE_SCHEME,
    TABLE_SUFFIXES,
    Row,
    csv_rows,
    database_name,
    database_rows,
    parquet_rows,
    row_json,
    shape_row,
)

EXPORT_SUFFIX = ".jsonl"
UNSUPPORTED = "Unsupported"  # the `error` of an object that is skipped on purpose, not failed


def list_sources(root: Path, config: SourcesConfig) -> Iterator[SourceObject | ErrorRow]:
    """Every object under the root, a folder, one file or a database (`sql:NAME`), in the order of its uri; rows in the
    order of their file or query.

    Names that begin with a dot (.git, .obsidian, .DS_Store) are left out without a word: by custom they hold no
    documents. Anything else that can't become a document is an ErrorRow; its `error` is "Unsupported" where the object
    is skipped on purpose (an image, a socket, a second way to a folder that is already read).
    Symbolic links are followed, each real folder once, so a cycle ends. Raises InputError where there is no root.
    """
    if (name := database_name(root)) is not None:
        yield from _list_database(name, config)
        return
    if not root.exists():
        raise InputError(f"{root}: no such file or folder to read sources from")
    if root.is_file():
        yield from _list_file(root.name, root, config)
        return
    for uri, found in sorted(_walk(root), key=lambda pair: pair[0]):
        if isinstance(found, ErrorRow):
            yield found
        else:
            yield from _list_file(uri, found, config)


def glob_to_regex(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression for `fullmatch`: * and ? stay inside a folder, ** crosses folders.

    `a/**` matches everything below `a`; a leading or inner `**/` also matches no folder at all.
    """
    return _compiled(pattern)


@lru_cache(maxsize=4_096)
def _compiled(pattern: str) -> re.Pattern[str]:
    pieces = re.findall(r"(?:(?<=/)|^)\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", pattern, re.DOTALL)
    try:
        return re.compile("".join(_piece_regex(piece) for piece in pieces), re.DOTALL)
    except re.error as error:
        raise ConfigError(f"sources.rules: pattern {pattern!r} is not a glob: {error}") from error


def _piece_regex(piece: str) -> str:
    match piece:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case _ if len(piece) > 1:  # a class, [abc] or [!abc]
            negated = piece[1] == "!" and len(piece) > 3
            body = re.sub(r"([\\^\[\]&~|])", r"\\\1", piece[2:-1] if negated else piece[1:-1])
            return f"(?!/)[{'^' if negated else ''}{body}]"
        case _:
            return re.escape(piece)


def source_metadata(uri: str, config: SourcesConfig, export_uri: str | None = None) -> DocumentMetadata:
    """What the first matching rule says of the uri; the default tenant and groups where none matches.

    A row of an export is also matched by a rule for the export's file, so that `hr/export.jsonl` covers its rows.
    """
    names = (uri,) if export_uri is None else (uri, export_uri)
    media_type = guess_media_type(uri) if export_uri is None else ROW_MEDIA_TYPE
    for rule in config.rules:
        if any(_compiled(rule.pattern).fullmatch(name) for name in names):
            access = Access(rule.tenant or config.default_tenant, tuple(sorted(set(rule.groups))))
            return DocumentMetadata(uri, "", access, rule.owner, None, rule.authority, media_type=media_type)
    access = Access(config.default_tenant, tuple(sorted(set(config.default_groups))))
    return DocumentMetadata(uri, "", access, media_type=media_type)


# ---------------------------------------------------------------- folders


def _walk(root: Path) -> Iterator[tuple[str, Path | ErrorRow]]:
    """Every visible file below the root; real folders before linked ones, so that a real path gives the uri."""
    seen: dict[tuple[int, int], str] = {}
    folders: list[tuple[str, Path]] = [("", root)]
    linked: list[tuple[str, Path]] = []
    while folders or linked:
        prefix, folder = folders.pop() if folders else linked.pop(0)
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield prefix, _failed(prefix, error)
            continue
        first = seen.setdefault((status.st_dev, status.st_ino), prefix)
        if first != prefix:
            message = f"link to a folder that is already read as {first or '.'}"
            yield prefix, ErrorRow(prefix, "list", UNSUPPORTED, message)
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            uri = f"{prefix}/{entry.name}" if prefix else entry.name
            if entry.is_dir():
                (linked if entry.is_symlink() else folders).append((uri, Path(entry.path)))
            else:
                yield uri, Path(entry.path)


def _failed(uri: str, error: OSError) -> ErrorRow:
    return ErrorRow(_printable(uri), "list", type(error).__name__, error.strerror or str(error))


def _printable(uri: str) -> str:
    """The uri, with bytes that are no text written as \\udcxx: Arrow and JSON take no lone surrogates."""
    return uri.encode("utf-8", "backslashreplace").decode("utf-8")


def _list_file(uri: str, path: Path, config: SourcesConfig) -> Iterator[SourceObject | ErrorRow]:
    if _printable(uri) != uri:
        yield ErrorRow(_printable(uri), "list", "InputError", "the file's name is not valid UTF-8; rename it")
        return
    try:
        status = path.stat()
    except OSError as error:
        yield _failed(uri, error)
        return
    if not stat.S_ISREG(status.st_mode):
        yield ErrorRow(uri, "list", UNSUPPORTED, "not a regular file")
    elif path.suffix.lower() == EXPORT_SUFFIX:
        yield from _list_rows(uri, path, config)
    elif path.suffix.lower() in TABLE_SUFFIXES and (export := export_of(uri, config)) is not None:
        rows = parquet_rows(path) if path.suffix.lower() == ".parquet" else csv_rows(path)
        yield from _list_table(uri, str(path), rows, export, config)
    elif not guess_media_type(uri):
        yield ErrorRow(uri, "list", UNSUPPORTED, why_not_read(uri))
    else:
        watermark = f"{status.st_mtime_ns}-{status.st_size}"
        yield SourceObject(uri, str(path), watermark, status.st_size, source_metadata(uri, config))


# ---------------------------------------------------------------- rows: of a table, of a database


def export_of(uri: str, config: SourcesConfig) -> ExportConfig | None:
    """The first configured export that the file is; None where it is none."""
    return next((export for export in config.exports if _compiled(export.pattern).fullmatch(uri)), None)


def _list_database(name: str, config: SourcesConfig) -> Iterator[SourceObject | ErrorRow]:
    database = next((database for database in config.databases if database.name == name), None)
    if database is None:
        known = ", ".join(database.name for database in config.databases) or "none"
        raise InputError(f"{DATABASE_SCHEME}{name}: no such database in sources.databases; there are: {known}")
    uri = f"{DATABASE_SCHEME}{name}"
    yield from _list_table(uri, uri, database_rows(database), database, config)


def _list_table(
    uri: str, path: str, rows: Iterator[Row], template: RowTemplate, config: SourcesConfig
) -> Iterator[SourceObject | ErrorRow]:
    numbers: dict[str, int] = {}
    try:
        for number, row in enumerate(rows, start=1):
            found = _source_of_row(uri, path, row, template, config)
            if isinstance(found, SourceObject) and numbers.setdefault(found.uri, number) != number:
                found = f"the id is already used in row {numbers[found.uri]}: {found.uri.split('#', 1)[1]}"
            if isinstance(found, str):
                yield ErrorRow(f"{uri}#row-{number}", "list", "InputError", f"row {number}: {found}")
            else:
                yield found
    except ValueError as error:  # what was read before it stays
        yield ErrorRow(uri, "list", "InputError", str(error))
    except OSError as error:
        yield _failed(uri, error)


# ---------------------------------------------------------------- exports: one JSON object a line


def _list_rows(uri: str, path: Path, config: SourcesConfig) -> Iterator[SourceObject | ErrorRow]:
    first_line: dict[str, int] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_lines(file, config.max_document_bytes), start=1):
                if line is not None and not line.strip():
                    continue
                row = _parse_row(uri, path, line, config)
                if isinstance(row, SourceObject) and first_line.setdefault(row.uri, number) != number:
                    row = f"the id is already used on line {first_line[row.uri]}: {row.uri.split('#', 1)[1]}"
                if isinstance(row, str):
                    yield ErrorRow(f"{uri}#line-{number}", "list", "InputError", f"line {number}: {row}")
                else:
                    yield row
    except OSError as error:
        yield _failed(uri, error)


def _lines(file: BinaryIO, max_bytes: int) -> Iterator[bytes | None]:
    """The file's lines; None for one that is longer than the limit, which is never held in memory."""
    while line := file.readline(max_bytes + 2):
        if len(line.rstrip(b"\r\n")) <= max_bytes:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(1 << 20)
        yield None


def _parse_row(uri: str, path: Path, line: bytes | None, config: SourcesConfig) -> SourceObject | str:
    """The row as a source object, or what is wrong with it."""
    if line is None:
        return f"longer than the limit of {config.max_document_bytes:,} bytes"
    try:
        text = line.decode("utf-8-sig").strip()
        row = json.loads(text)
    except UnicodeDecodeError as error:
        return f"not UTF-8: invalid byte at offset {error.start} of the line"
    except (json.JSONDecodeError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(row, dict):
        return f"expected a JSON object, found {type(row).__name__}"
    template = export_of(uri, config)
    return _source_of_row(uri, str(path), row, template, config, text if template is None else None)


def _source_of_row(
    uri: str, path: str, row: Row, template: RowTemplate | None, config: SourcesConfig, text: str | None = None
) -> SourceObject | str:
    """The row as a source object, or what is wrong with it; `text` is the row as JSON where it is known."""
    try:
        shaped = shape_row(row, template)
    except ValueError as error:
        return str(error)
    row_id = shaped.fields.get("id")
    if isinstance(row_id, bool) or not isinstance(row_id, str | int) or not str(row_id).strip():
        return "the row has no id (a string or a whole number)"
    row_uri = f"{uri}#{row_id}"
    if _printable(row_uri) != row_uri:
        return "the row's id is not valid Unicode"
    metadata = source_metadata(row_uri, config, export_uri=uri)
    if shaped.groups is not None:
        metadata = replace(metadata, access=Access(metadata.access.tenant, shaped.groups))
    elif config.trust_document_groups:
        try:
            metadata = declared_access(metadata, shaped.fields)
        except ValueError as error:
            return str(error)
    text = text or row_json(shaped.fields)
    if len(text.encode()) > config.max_document_bytes:
        return f"longer than the limit of {config.max_document_bytes:,} bytes"
    return SourceObject(row_uri, path, digest(text), len(text.encode()), metadata, text)
