"""Compaction changes where rows lie, and no answer."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.config import IndexConfig, RagConfig
from rag.data import Candidate
from rag.evaluate.collection_index import records_of
from rag.ids import VersionId, document_id
from rag.index.commit import commit_version
from rag.index.compact import compact, plan_compaction
from rag.index.consistency import check_version
from rag.index.contents import read_chunks
from rag.index.manifest import Manifest
from rag.index.segment import VECTORS
from rag.index.shard import open_shard
from rag.index.store import IndexStore
from rag.search.merge import merge_top_k
from tests.rag.index.factories import TENANT, commit, make_chunk, make_config, make_query, unit_vectors

WORDS = ("leave", "visa", "parking", "budget", "audit")
CHUNKS = [
    make_chunk(f"{WORDS[n % 5]} {WORDS[(n * 3) % 5]} page {n}", uri=f"doc-{n // 3}.md", ordinal=n % 3)
    for n in range(30)
]


def built(
    root: Path, num_segments: int, removed: set[int], dtype: Literal["float16", "float32"] = "float32"
) -> tuple[RagConfig, Manifest]:
    """A version of several segments a shard, in which some documents are dead."""
    config = make_config(root, IndexConfig(num_shards=2, vector_dtype=dtype))
    store = IndexStore(config.index_root)
    first = commit(store, CHUNKS, unit_vectors(len(CHUNKS)), config, num_segments)
    if not removed:
        return config, first
    gone = {document_id(TENANT, f"doc-{n}.md") for n in removed}
    live = [chunk for chunk in CHUNKS if chunk.document_id not in gone]
    return config, commit_version(store, {}, gone, records_of(live, 2), config, 4, first.version)


def rankings(config: RagConfig, version: VersionId) -> list[tuple[Candidate, ...]]:
    """Both global rankings of several queries, scores and all."""
    shards = [open_shard(config.index_root, version, shard, config) for shard in range(config.index.num_shards)]
    found = []
    for place, vector in enumerate(unit_vectors(6, seed=7)):
        query = make_query(version, f"{WORDS[place % 5]} page", vector=vector)
        parts = [shard.search(query, 12, 12) for shard in shards]
        found += [merge_top_k([part.dense for part in parts], 12), merge_top_k([part.bm25 for part in parts], 12)]
    return found


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    num_segments=st.integers(1, 4),
    removed=st.sets(st.integers(0, 9), max_size=6),
    max_chunks=st.sampled_from([4, 9, 1000]),
    dtype=st.sampled_from(["float16", "float32"]),
)
def test_rankings_are_bit_equal_before_and_after(
    tmp_path_factory: pytest.TempPathFactory,
    num_segments: int,
    removed: set[int],
    max_chunks: int,
    dtype: Literal["float16", "float32"],
) -> None:
    config, before = built(tmp_path_factory.mktemp("store"), num_segments, removed, dtype)
    store = IndexStore(config.index_root)
    after = compact(store, before, plan_compaction(before, max_chunks, everything=True), config)
    assert after.counts.tombstones == 0
    assert read_chunks(store, after.version) == read_chunks(store, before.version)
    assert rankings(config, after.version) == rankings(config, before.version)
    assert store.statistics(after) == store.statistics(before)
    check_version(store, after)
    assert after.version == before.version or (after.parent, after.made_by) == (before.version, "compact")


def test_what_gains_nothing_is_left_alone(tmp_path: Path) -> None:
    _, one_segment = built(tmp_path / "one", 1, set())
    assert plan_compaction(one_segment, 1000) == {}
    assert plan_compaction(one_segment, 1000, everything=True) == {}
    _, full = built(tmp_path / "full", 3, set())
    assert plan_compaction(full, 8) == {}  # each holds more than half of what a segment may


def test_groups_stay_below_the_most_chunks_of_a_segment(tmp_path: Path) -> None:
    _, manifest = built(tmp_path, 4, {1, 2})
    for max_chunks in (8, 12, 100):
        for groups in plan_compaction(manifest, max_chunks, everything=True).values():
            sizes = [sum(entry.num_live for entry in group) for group in groups]
            assert all(size <= max_chunks or len(group) == 1 for size, group in zip(sizes, groups, strict=True))


def test_few_dead_rows_wait_for_more(tmp_path: Path) -> None:
    config, manifest = built(tmp_path, 1, {1})
    (shard,) = (shard for shard in manifest.shards if any(entry.num_tombstones for entry in shard.segments))
    (entry,) = shard.segments
    few = entry.num_tombstones <= 0.1 * entry.info.num_chunks
    small = shard.num_chunks * 2 - 2  # as many chunks a segment that this one is not small
    assert bool(plan_compaction(manifest, small)) != few
    assert list(plan_compaction(manifest, small, everything=True)) == [shard.shard]
    assert compact(IndexStore(config.index_root), manifest, {}, config) == manifest


def test_vectors_keep_their_bits(tmp_path: Path) -> None:
    config, before = built(tmp_path, 3, {0}, "float16")
    store = IndexStore(config.index_root)
    after = compact(store, before, plan_compaction(before, 100), config)

    def rows(manifest: Manifest) -> set[bytes]:
        return {row.tobytes() for entry in manifest.segments for row in np.load(store.segment(entry.info) / VECTORS)}

    assert rows(after) < rows(before)  # those of the dead document are gone
