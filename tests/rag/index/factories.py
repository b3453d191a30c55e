"""Small chunks, vectors and versions for the tests of the index."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from rag.config import EmbedConfig, IndexConfig, RagConfig
from rag.data import Access, Chunk, DocumentMetadata, EncodedQuery, Principal, Region, Vector, Vectors
from rag.evaluate.collection_index import records_of
from rag.ids import DocumentId, VersionId, chunk_id, document_id, shard_of
from rag.index.commit import commit_version
from rag.index.manifest import Manifest
from rag.index.segment import SegmentInfo, write_segment
from rag.index.store import IndexStore

TENANT = "acme"
EVERYONE = Principal(subject="ann", tenant=TENANT, groups=frozenset({"staff"}))


def make_chunk(
    text: str,
    uri: str = "handbook/leave.md",
    ordinal: int = 0,
    section: int = 0,
    groups: Sequence[str] = ("staff",),
    tenant: str = TENANT,
    title: str = "",
    headings: tuple[str, ...] = (),
    regions: tuple[Region, ...] = (),
    updated_at: datetime | None = None,
    flags: tuple[str, ...] = (),
) -> Chunk:
    """A chunk whose ids are made as the chunker makes them; the ordinal tells repetitions of a text apart."""
    document = document_id(tenant, uri)
    return Chunk(
        id=chunk_id(document, text, ordinal),
        document_id=document,
        ordinal=ordinal,
        section=section,
        text=text,
        start=0,
        end=len(text),
        headings=headings,
        regions=regions,
        num_tokens=len(text.split()),
        metadata=DocumentMetadata(
            uri=uri, title=title, access=Access(tenant, tuple(sorted(groups))), updated_at=updated_at
        ),
        flags=flags,
    )


def make_config(root: Path, index: IndexConfig | None = None, embed: EmbedConfig | None = None) -> RagConfig:
    """A configuration whose index lives under `root`."""
    return RagConfig(
        store=root, var=root, models=root, index=index or IndexConfig(num_shards=1), embed=embed or EmbedConfig()
    )


def make_query(
    version: VersionId, text: str = "", vector: Vector | None = None, principal: Principal = EVERYONE
) -> EncodedQuery:
    """A query; its vector is (1, 0, 0, 0) where none is given."""
    vector = np.array([1, 0, 0, 0], np.float32) if vector is None else vector
    return EncodedQuery(text=text, vector=vector, principal=principal, version=version)


def unit_vectors(num_rows: int, dim: int = 4, seed: int = 0) -> Vectors:
    """Random unit rows."""
    rows = np.random.default_rng(seed).standard_normal((num_rows, dim)).astype(np.float32)
    unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def write_segments(
    store: IndexStore, chunks: Sequence[Chunk], vectors: Vectors, config: RagConfig, num_segments: int = 1
) -> dict[int, list[SegmentInfo]]:
    """The chunks as `num_segments` segments a shard, dealt out in turn; fewer where there are fewer chunks."""
    segments: dict[int, list[SegmentInfo]] = {}
    for shard in range(config.index.num_shards):
        places = [
            place for place, chunk in enumerate(chunks) if shard_of(chunk.document_id, config.index.num_shards) == shard
        ]
        for turn in range(num_segments):
            mine = places[turn::num_segments]
            if mine:
                members = [chunks[place] for place in mine]
                info = write_segment(store.segments_dir, members, vectors[mine], config.index)
                segments.setdefault(shard, []).append(info)
    return segments


def commit(
    store: IndexStore,
    chunks: Sequence[Chunk],
    vectors: Vectors,
    config: RagConfig,
    num_segments: int = 1,
    parent: VersionId | None = None,
    removed: Sequence[DocumentId] = (),
    kept: Sequence[Chunk] = (),
    timings: Mapping[str, float] | None = None,
) -> Manifest:
    """The version that adds the chunks; `kept` are the live chunks of the parent that stay."""
    return commit_version(
        store,
        write_segments(store, chunks, vectors, config, num_segments),
        removed,
        records_of([*kept, *chunks], config.index.num_shards),
        config,
        vectors.shape[1],
        parent,
        timings,
    )
