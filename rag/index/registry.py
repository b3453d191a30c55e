"""The registry: which documents a version holds, and what they looked like when they were read."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from rag.ids import ChunkId, DocumentId
from rag.tables import DOCUMENT_SCHEMA


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """One indexed document: enough to see at the next run whether it has changed, and what to replace if so."""

    document_id: DocumentId
    uri: str
    root: str  # the source that lists it
    content_hash: str
    metadata_hash: str  # title, readers, dates: a change alone embeds nothing again
    watermark: str
    shard: int
    chunk_ids: tuple[ChunkId, ...]  # in order of the document; empty where another document stands in for it
    signature: bytes = b""  # a `rag.clean.duplicates.Signature`; empty where duplicates are not looked for
    duplicate_of: str = ""  # id of the document that stands in for it, which says the same to the same readers


def records_to_table(records: Iterable[DocumentRecord]) -> pa.Table:
    """The records as a table of DOCUMENT_SCHEMA, by document id."""
    ordered = sorted(records, key=lambda record: record.document_id)
    columns = [pa.array([getattr(one, field.name) for one in ordered], field.type) for field in DOCUMENT_SCHEMA]
    return pa.Table.from_arrays(columns, schema=DOCUMENT_SCHEMA)


def table_to_bytes(table: pa.Table) -> bytes:
    """The table as a parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def table_from_bytes(content: bytes) -> pa.Table:
    """The table of a file that `table_to_bytes` made."""
    return pq.read_table(pa.BufferReader(content), schema=DOCUMENT_SCHEMA)


def records_from_bytes(content: bytes) -> list[DocumentRecord]:
    """The records of a file that `table_to_bytes` made, by document id."""
    rows = table_from_bytes(content).to_pylist()
    return [DocumentRecord(**{**row, "chunk_ids": tuple(row["chunk_ids"])}) for row in rows]
