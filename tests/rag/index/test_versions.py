import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.config import IndexConfig, RagConfig
from rag.data import Chunk
from rag.errors import IndexDamaged, IndexMismatch, InputError, NotFound
from rag.ids import DocumentId, VersionId, document_id
from rag.index.analysis import Analyzer
from rag.index.lexical import count_terms
from rag.index.manifest import Manifest
from rag.index.versions import IndexStore, check_version, commit_version, vectors_by_chunk_id
from tests.rag.index.factories import (
    TENANT,
    commit,
    make_chunk,
    make_config,
    make_records,
    unit_vectors,
    write_segments,
)

OLD = [make_chunk(f"page {n} of {uri}", uri=uri, ordinal=n) for uri in ("a", "b", "c") for n in range(3)]
A = document_id(TENANT, "a")
NEW_A = [make_chunk("rewritten", uri="a")]
KEPT = [chunk for chunk in OLD if chunk.document_id != A]


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return make_config(tmp_path, IndexConfig(num_shards=2))


@pytest.fixture
def store(config: RagConfig) -> IndexStore:
    return IndexStore(config.index_root)


@pytest.fixture
def first(store: IndexStore, config: RagConfig) -> Manifest:
    return commit(store, OLD, unit_vectors(9), config)


def second_version(store: IndexStore, config: RagConfig, first: Manifest) -> Manifest:
    return commit(store, NEW_A, unit_vectors(1, seed=1), config, parent=first.version, removed=[A], kept=KEPT)


def test_before_anything_is_published_the_error_says_what_to_do(store: IndexStore) -> None:
    assert store.current_or_none() is None
    assert store.versions() == []
    with pytest.raises(NotFound, match=r"main/CURRENT: no index version is live; .*`quire ingest`"):
        store.current()


def test_a_committed_version_is_live_only_when_it_is_published(store: IndexStore, first: Manifest) -> None:
    assert store.current_or_none() is None
    store.publish(first.version)
    assert store.current() == first.version
    assert store.root.joinpath("CURRENT").read_text() == f"{first.version}\n"
    assert store.manifest(first.version) == first


def test_rollback_brings_the_parent_back(store: IndexStore, config: RagConfig, first: Manifest) -> None:
    second = second_version(store, config, first)
    store.publish(second.version)
    assert store.versions() == [second.version, first.version]
    assert store.rollback() == first.version == store.current()
    with pytest.raises(NotFound, match="nothing to roll back to"):
        store.rollback()
    assert store.current() == first.version


def test_a_version_without_a_manifest_can_not_be_published(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    store.publish(first.version)
    second = second_version(store, config, first)
    (store.version_dir(second.version) / "manifest.json").unlink()  # as a run leaves it that ends before its last step
    with pytest.raises(NotFound, match=second.version):
        store.publish(second.version)
    assert store.current() == first.version
    assert store.versions() == [first.version]
    assert second_version(store, config, first).version == second.version
    store.publish(second.version)


def test_a_crash_while_publishing_leaves_the_live_version(
    store: IndexStore, config: RagConfig, first: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish(first.version)
    second = second_version(store, config, first)

    def crash(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            store.publish(second.version)
    assert store.current() == first.version
    assert [path.name for path in store.root.glob(".tmp-*")] == []


def test_the_smoke_tests_figures_change_neither_the_id_nor_the_content(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    store.record_smoke(first.version, {"recall@10": 0.9})
    recorded = store.manifest(first.version)
    assert (recorded.smoke, recorded.content) == ({"recall@10": 0.9}, first.content)
    assert second_version(store, config, first).parent == first.version
    assert commit(store, OLD, unit_vectors(9), config).smoke == {"recall@10": 0.9}  # the same version once more


@pytest.mark.parametrize("name", ["../../etc", "v-0123", "", "v-0123456789abcdef/../x"])
def test_what_is_not_the_name_of_a_version_is_not_looked_up(store: IndexStore, name: str) -> None:
    with pytest.raises(NotFound, match="is not the name of an index version"):
        store.manifest(VersionId(name))


def test_a_damaged_pointer_or_manifest_is_named(store: IndexStore, first: Manifest) -> None:
    store.publish(first.version)
    path = store.version_dir(first.version) / "manifest.json"
    path.write_text(path.read_text().replace('"documents": 3', '"documents": 4'))
    with pytest.raises(IndexDamaged, match="does not have the version id"):
        store.manifest(first.version)
    path.write_text("{")
    with pytest.raises(IndexDamaged, match=r"manifest\.json"):
        store.manifest(first.version)
    (store.root / "CURRENT").write_text("")
    with pytest.raises(IndexDamaged, match="CURRENT"):
        store.current()


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
        version = commit_version(store, {}, [gone], make_records(live, 2), config, 4, version).version
    assert store.manifest(version).counts.chunks == 3
    assert [record.uri for record in store.registry(version)] == ["a"]


def test_a_chunk_that_the_registry_does_not_list_is_refused(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    with pytest.raises(InputError, match=r"is live 1 times in shard [01], and the registry lists it 0 times"):
        commit_version(store, {}, [], make_records(KEPT, 2), config, 4, first.version)
    with pytest.raises(InputError, match="is live 0 times"):
        commit_version(store, {}, [A], make_records(OLD, 2), config, 4, first.version)
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


def test_unchanged_chunks_keep_their_vectors(store: IndexStore, config: RagConfig, first: Manifest) -> None:
    vectors = unit_vectors(9)
    wanted = [chunk.id for chunk in OLD] + [NEW_A[0].id]
    found = {k: v for shard in (0, 1) for k, v in vectors_by_chunk_id(store, first.version, shard, wanted).items()}
    assert found.keys() == {chunk.id for chunk in OLD}
    for chunk, vector in zip(OLD, vectors, strict=True):
        assert np.array_equal(found[chunk.id], vector)
    with pytest.raises(NotFound, match="no shard 2"):
        vectors_by_chunk_id(store, first.version, 2, wanted)


def test_a_registry_comes_back_and_damage_to_it_is_found(store: IndexStore, first: Manifest) -> None:
    assert store.registry(first.version) == sorted(make_records(OLD, 2), key=lambda record: record.document_id)
    (path,) = store.documents_dir.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(IndexDamaged, match=path.name):
        store.registry(first.version)


def test_a_missing_segment_is_found_before_a_version_is_written(store: IndexStore, config: RagConfig) -> None:
    first = commit(store, OLD, unit_vectors(9), config)
    segments = {shard.shard: [entry.info for entry in shard.segments] for shard in first.shards}
    shutil.rmtree(store.versions_dir)
    shutil.rmtree(store.segments_dir / segments[0][0].id if segments[0] else store.segments_dir / segments[1][0].id)
    with pytest.raises(IndexDamaged):
        commit_version(store, segments, [], make_records(OLD, 2), config, 4)
    assert store.versions() == []


def test_an_unknown_shard_is_refused(store: IndexStore, config: RagConfig, first: Manifest) -> None:
    info = next(entry.info for shard in first.shards for entry in shard.segments)
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
