"""How does a benchmark get an index without a cluster? Chunks and vectors in, open shards of a version out."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from rag.config import RagConfig
from rag.data import Access, Chunk, DocumentMetadata, EncodedQuery, Principal, Vector, Vectors
from rag.evaluate.beir import CorpusDocument
from rag.ids import DocumentId, VersionId, chunk_id, document_id, shard_of
from rag.index.registry import DocumentRecord
from rag.index.segment import SegmentInfo, write_segment
from rag.index.shard import LocalShard, open_shard
from rag.index.versions import IndexStore, commit_version

T = TypeVar("T")

TENANT = "bench"
READERS = ("everyone",)
READER = Principal(subject="bench", tenant=TENANT, groups=frozenset(READERS))


def build_shards(
    root: Path, config: RagConfig, chunks: Sequence[Chunk], vectors: Vectors, num_segments: int = 1
) -> list[LocalShard]:
    """The chunks as one version below `root`, its shards open; each shard in about `num_segments` segments."""
    config = config.model_copy(update={"store": root})
    store = IndexStore(config.index_root)
    num_shards = config.index.num_shards
    segments: dict[int, list[SegmentInfo]] = {}
    for shard in range(num_shards):
        places = [place for place, chunk in enumerate(chunks) if shard_of(chunk.document_id, num_shards) == shard]
        for turn in range(num_segments):
            if mine := places[turn::num_segments]:
                info = write_segment(store.segments_dir, [chunks[place] for place in mine], vectors[mine], config.index)
                segments.setdefault(shard, []).append(info)
    records = _records(chunks, num_shards)
    manifest = commit_version(store, segments, (), records, config, int(vectors.shape[1]))
    return [open_shard(config.index_root, manifest.version, shard, config, verify=False) for shard in range(num_shards)]


def chunk_of(document: CorpusDocument) -> Chunk:
    """A document of a test collection as one chunk, whatever its length; the encoder cuts it to its window."""
    document_of = document_id(TENANT, document.id)
    metadata = DocumentMetadata(uri=document.id, title=document.title, access=Access(TENANT, READERS))
    return Chunk(
        id=chunk_id(document_of, f"{document.title}\n{document.text}", 0),
        document_id=document_of,
        ordinal=0,
        section=0,
        text=document.text,
        start=0,
        end=len(document.text),
        headings=(),
        regions=(),
        num_tokens=0,
        metadata=metadata,
    )


def query_for(version: VersionId, text: str, vector: Vector) -> EncodedQuery:
    """A query by the one reader of all that `chunk_of` makes."""
    return EncodedQuery(text, vector, READER, version)


def sample(items: Sequence[T], limit: int | None, seed: int = 0) -> list[T]:
    """At most `limit` of the items in their order, the same ones at every call; all of them without a limit."""
    if limit is None or len(items) <= limit:
        return list(items)
    return [items[place] for place in sorted(random.Random(seed).sample(range(len(items)), limit))]


def _records(chunks: Sequence[Chunk], num_shards: int) -> list[DocumentRecord]:
    by_document: dict[DocumentId, list[Chunk]] = {}
    for chunk in chunks:
        by_document.setdefault(chunk.document_id, []).append(chunk)
    return [
        DocumentRecord(
            document_id=document,
            uri=members[0].metadata.uri,
            root="",
            content_hash="",
            metadata_hash="",
            watermark="",
            shard=shard_of(document, num_shards),
            chunk_ids=tuple(chunk.id for chunk in members),
        )
        for document, members in by_document.items()
    ]
