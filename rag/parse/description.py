"""What a file says about itself, weighed against what its source says."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from typing import get_args

from rag.config import SourcesConfig
from rag.data import Authority, DocumentMetadata
from rag.errors import ParseError
from rag.ids import digest
from rag.parse.content import ParsedContent, printable
from rag.read.access import declared_access

MAX_TITLE_CHARACTERS = 200  # a title stands above every chunk of its document
_ROW_URI = re.compile(r"(.+?\.(?:jsonl|csv|tsv|parquet)|sql:[^#]+)#(.+)")
_DATE_FIELDS = ("updated_at", "last_updated", "date")
_PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:Z|([+-])(\d\d)'?(\d\d)?)?")


def describe(
    metadata: DocumentMetadata, content: ParsedContent, media_type: str, config: SourcesConfig
) -> DocumentMetadata:
    """The source's metadata with title, date, owner, authority and language as the document states them.

    Groups and tenant are taken from the document only if the sources are trusted to give them; then a description that
    can't be read is a ParseError, because it may hold a restriction.
    """
    fields = content.fields
    if config.trust_document_groups:
        if content.fields_problem:
            raise ParseError(metadata.uri, f"{content.fields_problem}; who may read the document is not known")
        try:
            metadata = declared_access(metadata, fields)
        except ValueError as error:
            raise ParseError(metadata.uri, str(error)) from error
    authority = next((name for name in get_args(Authority) if name == _word(fields.get("authority"))), None)
    language = _word(fields.get("language") or fields.get("lang"))[:2]
    owner = fields.get("owner")
    return replace(
        metadata,
        title=_title(metadata.uri, content),
        updated_at=next(
            (found for name in _DATE_FIELDS if (found := parse_date(fields.get(name)))), metadata.updated_at
        ),
        owner=printable(owner).strip() if isinstance(owner, str) and owner.strip() else metadata.owner,
        authority=authority or metadata.authority,
        language=language if re.fullmatch("[a-z]{2}", language) else metadata.language,
        media_type=media_type,
    )


def metadata_hash(metadata: DocumentMetadata) -> str:
    """A hash of all that is known of a document beside its content: a change here alone re-embeds nothing.

    The title is the exception: it stands in every chunk's embedded text, so a new title changes the chunks as well.
    """
    updated_at = metadata.updated_at.isoformat() if metadata.updated_at else ""
    access = metadata.access
    named = (metadata.uri, metadata.title, metadata.owner, updated_at, metadata.authority, metadata.language)
    return digest(*named, metadata.media_type, access.tenant, *access.groups)


def parse_date(value: object) -> datetime | None:
    """The moment in UTC; a date without a zone is read as UTC, and None stands for what is no date.

    Reads dates as YAML gives them, ISO 8601, RFC 5322 (HTTP headers) and PDF's D:YYYYMMDDHHmmSS+HH'mm'.
    """
    try:
        moment = _read_date(value)
        if moment is None:
            return None
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _read_date(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip()
    if match := _PDF_DATE.match(text):
        year, month, day, hour, minute, second = (int(match[i] or default) for i, default in _PDF_DEFAULTS)
        zone = f"{match[7]}{match[8]}:{match[9] or '00'}" if match[7] else "+00:00"
        return datetime.fromisoformat(f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)


_PDF_DEFAULTS = ((1, 1), (2, 1), (3, 1), (4, 0), (5, 0), (6, 0))


def _word(value: object) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def _title(uri: str, content: ParsedContent) -> str:
    first = next((block.text for block in content.blocks if block.kind == "title" or block.level == 1), "")
    title = " ".join((printable(content.title).strip() or first or _name(uri)).split())
    if len(title) <= MAX_TITLE_CHARACTERS:
        return title
    return title[: MAX_TITLE_CHARACTERS - 1].rsplit(" ", 1)[0] + "…"


def _name(uri: str) -> str:
    """The file's name without its suffix; its folder's for `index` and `README`; the row's id behind an export's."""
    if row := _ROW_URI.fullmatch(uri):
        return f"{PurePosixPath(row[1].removeprefix('sql:')).with_suffix('').name} {row[2]}"
    path = PurePosixPath(uri)
    return path.parent.name if path.stem.lower() in ("index", "readme") and path.parent.name else path.stem
