import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.config import IndexConfig, RagConfig
from rag.data import Chunk
from rag.errors import IndexDamaged, IndexMismatch, InputError
from rag.evaluate.collection_index import records_of
from rag.ids import DocumentId, document_id
from rag.index.analysis import Analyzer
from rag.index.commit import commit_version
from rag.index.consistency import check_version
from rag.index.lexical import count_terms
from rag.index.manifest import Manifest
from rag.index.store import IndexStore
from tests.rag.index.factories import (
    TENANT,
    commit,
    make_chunk,
    make_config,
    unit_vectors,
    write_segments,
)
from tests.rag.index.two_versions import KEPT, NEW_A, OLD, A, second_version


def test_the_same_input_gives_the_same_version(tmp_path: Path, first: Manifest, store: IndexStore) -> None:
    config = make_config(tmp_path / "elsewhere", IndexConfig(num_shards=2))
    again = commit(IndexStore(config.index_root), OLD, unit_vectors(9), config, timings={"embed": 1.0})
    assert again.version == first.version
    assert again.content == first.content


def test_a_run_that_changes_nothing_gives_the_parent_itself(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    records = store.registry(first.version)
    assert commit_version(store, {}, [], records, config, 4, first.version) == first
    assert store.versions() == [first.version]


def test_rows_of_changed_documents_are_dead_and_counted(tmp_path: Path) -> None:
    config = make_config(tmp_path, IndexConfig(num_shards=1))
    store = IndexStore(config.index_root)
    second = second_version(store, config, commit(store, OLD, unit_vectors(9), config))
    entries = second.shards[0].segments
    assert sorted(len(store.tombstones(second, entry)) for entry in entries) == [0, 3]
    assert second.counts.model_dump() == {"documents": 3, "chunks": 7, "tombstones": 3}
    statistics = store.statistics(second)
    assert statistics.num_chunks == 7
    frequencies = dict(zip(statistics.terms.to_pylist(), statistics.document_frequencies.to_pylist(), strict=True))
    assert frequencies["page"] == 6
    assert frequencies["rewritten"] == 1


def test_a_segment_without_a_live_row_is_dropped(store: IndexStore, config: RagConfig, first: Manifest) -> None:
    documents = sorted({chunk.document_id for chunk in OLD})
    empty = commit_version(store, {}, documents, [], config, 4, first.version)
    assert [shard.segments for shard in empty.shards] == [(), ()]
    assert empty.counts.chunks == store.statistics(empty).num_chunks == 0
    assert store.registry(empty.version) == []


def test_tombstones_add_up_over_versions(store: IndexStore, config: RagConfig, first: Manifest) -> None:
    live, version = list(OLD), first.version
    for uri in ("b", "c"):
        gone = document_id(TENANT, uri)
        live = [chunk for chunk in live if chunk.document_id != gone]
        version = commit_version(store, {}, [gone], records_of(live, 2), config, 4, version).version
    assert store.manifest(version).counts.chunks == 3
    assert [record.uri for record in store.registry(version)] == ["a"]


def test_a_chunk_that_the_registry_does_not_list_is_refused(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    with pytest.raises(InputError, match=r"is live 1 times in shard [01], and the registry lists it 0 times"):
        commit_version(store, {}, [], records_of(KEPT, 2), config, 4, first.version)
    with pytest.raises(InputError, match="is live 0 times"):
        commit_version(store, {}, [A], records_of(OLD, 2), config, 4, first.version)
    with pytest.raises(InputError, match="is live 2 times"):
        commit(store, OLD, unit_vectors(9, seed=8), config, parent=first.version)
    assert store.versions() == [first.version]


def test_a_parent_of_other_settings_or_dimensions_is_refused(
    store: IndexStore, config: RagConfig, first: Manifest, tmp_path: Path
) -> None:
    records = store.registry(first.version)
    other = make_config(tmp_path, IndexConfig(num_shards=3))
    with pytest.raises(IndexMismatch, match="number of shards"):
        commit_version(store, {}, [], records, other, 4, first.version)
    with pytest.raises(IndexMismatch, match="4 dimensions, the encoder makes 8"):
        commit_version(store, {}, [], records, config, 8, first.version)
    narrow = write_segments(store, NEW_A, unit_vectors(1, dim=3), config)
    with pytest.raises(IndexMismatch, match="holds vectors of 3 dimensions, the version 4"):
        commit_version(store, narrow, [A], records, config, 4, first.version)


def test_a_missing_segment_is_found_before_a_version_is_written(store: IndexStore, config: RagConfig) -> None:
    first = commit(store, OLD, unit_vectors(9), config)
    segments = {shard.shard: [entry.info for entry in shard.segments] for shard in first.shards}
    shutil.rmtree(store.versions_dir)
    shutil.rmtree(store.segments_dir / segments[0][0].id if segments[0] else store.segments_dir / segments[1][0].id)
    with pytest.raises(IndexDamaged):
        commit_version(store, segments, [], records_of(OLD, 2), config, 4)
    assert store.versions() == []


def test_an_unknown_shard_is_refused(store: IndexStore, config: RagConfig, first: Manifest) -> None:
    info = first.segments[0].info
    with pytest.raises(InputError, match=r"shards \[5\]"):
        commit_version(store, {5: [info]}, [DocumentId("x")], [], config, 4)


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_counts_that_were_carried_over_equal_a_recount(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    config = make_config(tmp_path_factory.mktemp("store"), IndexConfig(num_shards=2))
    store = IndexStore(config.index_root)
    live: dict[str, list[Chunk]] = {}
    manifest: Manifest | None = None
    for turn in range(3):
        written = data.draw(st.dictionaries(st.sampled_from("abcde"), st.integers(1, 3), min_size=1))
        gone = data.draw(st.sets(st.sampled_from(sorted({*live} - {*written}) or [""])))
        new = {
            uri: [make_chunk(f"word{turn} shared{n} page", uri=uri, ordinal=n) for n in range(count)]
            for uri, count in written.items()
        }
        removed = [document_id(TENANT, uri) for uri in (gone | {*written}) & {*live}]
        kept = [chunk for uri, chunks in live.items() if uri not in gone | {*written} for chunk in chunks]
        chunks = [chunk for chunks in new.values() for chunk in chunks]
        parent = manifest.version if manifest else None
        manifest = commit(
            store, chunks, unit_vectors(len(chunks), seed=turn), config, parent=parent, removed=removed, kept=kept
        )
        live = {uri: chunks for uri, chunks in live.items() if uri not in gone} | new
    assert manifest is not None
    analyzer = Analyzer(config.index.lexical)
    texts = [chunk.embedded_text for chunks in live.values() for chunk in chunks]
    recounted = count_terms(analyzer.terms(text) for text in texts)
    assert store.statistics(manifest) == recounted.statistics(np.ones(len(texts), np.bool_))
    check_version(store, manifest)
