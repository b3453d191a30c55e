"""What a version holds is read whole, without its dead rows."""

from pathlib import Path

import numpy as np
import pytest

from rag.config import IndexConfig
from rag.errors import NotFound
from rag.ids import VersionId
from rag.index.contents import read_chunks, vectors_by_chunk_id
from rag.index.store import IndexStore
from tests.rag.index.factories import commit, make_chunk, make_config, unit_vectors

CHUNKS = [
    make_chunk("one", "b.md", ordinal=1),
    make_chunk("two", "b.md"),
    make_chunk("three", "a.md", groups=["board"]),
]


def test_live_chunks_come_by_document_and_ordinal_whoever_may_read_them(tmp_path: Path) -> None:
    config, store = make_config(tmp_path), IndexStore(make_config(tmp_path).index_root)
    version = commit(store, CHUNKS, unit_vectors(3), config, num_segments=2).version
    everything = read_chunks(store, version)
    assert sorted(everything, key=lambda chunk: chunk.id) == sorted(CHUNKS, key=lambda chunk: chunk.id)
    assert read_chunks(store, version, uris=["b.md", "nothing.md"]) == [CHUNKS[1], CHUNKS[0]]
    assert read_chunks(store, version, chunk_ids=[CHUNKS[2].id]) == [CHUNKS[2]]
    assert read_chunks(store, version, uris=["b.md"], chunk_ids=[CHUNKS[2].id]) == []


def test_dead_rows_are_left_out_and_stay_in_the_version_before(tmp_path: Path) -> None:
    config, store = make_config(tmp_path), IndexStore(make_config(tmp_path).index_root)
    before = commit(store, CHUNKS, unit_vectors(3), config)
    fresh = make_chunk("new", "b.md")
    after = commit(
        store, [fresh], unit_vectors(1), config, parent=before.version, removed=[fresh.document_id], kept=CHUNKS[2:]
    )
    assert read_chunks(store, after.version, uris=["b.md"]) == [fresh]
    assert len(read_chunks(store, before.version)) == 3


def test_unchanged_chunks_keep_their_vectors(tmp_path: Path) -> None:
    config, store = make_config(tmp_path, IndexConfig(num_shards=2)), IndexStore(make_config(tmp_path).index_root)
    version, vectors = commit(store, CHUNKS, unit_vectors(3), config, num_segments=2).version, unit_vectors(3)
    wanted = [chunk.id for chunk in (*CHUNKS, make_chunk("of no version"))]
    found = {k: v for shard in (0, 1) for k, v in vectors_by_chunk_id(store, version, shard, wanted).items()}
    assert found.keys() == {chunk.id for chunk in CHUNKS}
    for chunk, vector in zip(CHUNKS, vectors, strict=True):
        assert np.array_equal(found[chunk.id], vector)
    with pytest.raises(NotFound, match="no shard 2"):
        vectors_by_chunk_id(store, version, 2, wanted)


def test_a_version_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_chunks(IndexStore(tmp_path), VersionId("v-0000000000000000"))
