"""The registry: which documents a version holds, and what they looked like when they were read."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

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
    chunk_ids: tuple[ChunkId, ...]  # in order of the document; empty for a document without text


def records_to_bytes(records: Iterable[DocumentRecord]) -> bytes:
    """The records as a parquet file, by document id."""
    rows = [asdict(record) for record in sorted(records, key=lambda record: record.document_id)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def records_from_bytes(content: bytes) -> list[DocumentRecord]:
    """The records of a file that `records_to_bytes` made, by document id."""
    rows = pq.read_table(pa.BufferReader(content)).to_pylist()
    return [DocumentRecord(**{**row, "chunk_ids": tuple(row["chunk_ids"])}) for row in rows]
