"""The tables in which rooms meet on disk and in Ray Data: arrow schemas, and lossless ways in and out of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from rag.data import Access, Box, Chunk, DocumentMetadata, ErrorRow, Region
from rag.ids import ChunkId, DocumentId

_strings = pa.list_(pa.string())
_region = pa.struct(
    [("page", pa.int32()), ("x0", pa.float64()), ("y0", pa.float64()), ("x1", pa.float64()), ("y1", pa.float64())]
)

CHUNK_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("document_id", pa.string()),
        ("ordinal", pa.int32()),
        ("section", pa.int32()),
        ("text", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("headings", _strings),
        ("regions", pa.list_(_region)),
        ("num_tokens", pa.int32()),
        ("flags", _strings),
        ("context", pa.string()),
        ("parent_start", pa.int64()),  # null where a chunk has no parent
        ("parent_end", pa.int64()),
        ("uri", pa.string()),
        ("title", pa.string()),
        ("tenant", pa.string()),
        ("groups", _strings),
        ("owner", pa.string()),
        ("updated_at", pa.timestamp("us", tz="UTC")),
        ("authority", pa.string()),
        ("language", pa.string()),
        ("media_type", pa.string()),
    ]
)

ERROR_SCHEMA = pa.schema(
    [("uri", pa.string()), ("stage", pa.string()), ("error", pa.string()), ("message", pa.string())]
)

DOCUMENT_SCHEMA = pa.schema(
    [
        ("document_id", pa.string()),
        ("uri", pa.string()),
        ("root", pa.string()),
        ("content_hash", pa.string()),
        ("metadata_hash", pa.string()),
        ("watermark", pa.string()),
        ("shard", pa.int32()),
        ("chunk_ids", _strings),
        ("signature", pa.binary()),
        ("duplicate_of", pa.string()),
    ]
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def chunks_to_table(chunks: Sequence[Chunk]) -> pa.Table:
    """One row a chunk, in order. Raises ValueError for an `updated_at` without a time zone."""
    return pa.Table.from_pylist([_chunk_row(chunk) for chunk in chunks], schema=CHUNK_SCHEMA)


def table_to_chunks(table: pa.Table) -> list[Chunk]:
    """The chunks of a table that `chunks_to_table` made, in row order; dates come back in UTC."""
    # The cast keeps microseconds as integers: arrow's own datetimes depend on which time zone package is installed.
    column = table.schema.get_field_index("updated_at")
    table = table.set_column(column, "updated_at", table.column(column).cast(pa.int64()))
    return [_row_chunk(row) for row in table.to_pylist()]


def errors_to_table(errors: Sequence[ErrorRow]) -> pa.Table:
    """One row an error, in order."""
    rows = [{"uri": row.uri, "stage": row.stage, "error": row.error, "message": row.message} for row in errors]
    return pa.Table.from_pylist(rows, schema=ERROR_SCHEMA)


def table_to_errors(table: pa.Table) -> list[ErrorRow]:
    """The errors of a table that `errors_to_table` made, in row order."""
    return [ErrorRow(**row) for row in table.to_pylist()]


def _chunk_row(chunk: Chunk) -> dict[str, Any]:  # Any: a row holds whatever its columns hold
    metadata = chunk.metadata
    return {
        "id": chunk.id,
        "document_id": chunk.document_id,
        "ordinal": chunk.ordinal,
        "section": chunk.section,
        "text": chunk.text,
        "start": chunk.start,
        "end": chunk.end,
        "headings": chunk.headings,
        "regions": [
            {"page": region.page, "x0": region.box.x0, "y0": region.box.y0, "x1": region.box.x1, "y1": region.box.y1}
            for region in chunk.regions
        ],
        "num_tokens": chunk.num_tokens,
        "flags": chunk.flags,
        "context": chunk.context,
        "parent_start": chunk.parent[0] if chunk.parent else None,
        "parent_end": chunk.parent[1] if chunk.parent else None,
        "uri": metadata.uri,
        "title": metadata.title,
        "tenant": metadata.access.tenant,
        "groups": metadata.access.groups,
        "owner": metadata.owner,
        "updated_at": _microseconds(chunk),
        "authority": metadata.authority,
        "language": metadata.language,
        "media_type": metadata.media_type,
    }


def _microseconds(chunk: Chunk) -> int | None:
    moment = chunk.metadata.updated_at
    if moment is None:
        return None
    if moment.utcoffset() is None:
        raise ValueError(f"{chunk.metadata.uri}: updated_at {moment.isoformat()} has no time zone")
    return (moment - _EPOCH) // _MICROSECOND


def _row_chunk(row: dict[str, Any]) -> Chunk:  # Any: see _chunk_row
    updated_at = row["updated_at"]
    metadata = DocumentMetadata(
        uri=row["uri"],
        title=row["title"],
        access=Access(tenant=row["tenant"], groups=tuple(row["groups"])),
        owner=row["owner"],
        updated_at=None if updated_at is None else _EPOCH + updated_at * _MICROSECOND,
        authority=row["authority"],
        language=row["language"],
        media_type=row["media_type"],
    )
    return Chunk(
        id=ChunkId(row["id"]),
        document_id=DocumentId(row["document_id"]),
        ordinal=row["ordinal"],
        section=row["section"],
        text=row["text"],
        start=row["start"],
        end=row["end"],
        headings=tuple(row["headings"]),
        regions=tuple(
            Region(region["page"], Box(region["x0"], region["y0"], region["x1"], region["y1"]))
            for region in row["regions"]
        ),
        num_tokens=row["num_tokens"],
        metadata=metadata,
        flags=tuple(row["flags"]),
        context=row["context"],
        parent=None if row["parent_start"] is None else (row["parent_start"], row["parent_end"]),
    )
