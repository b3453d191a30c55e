from pathlib import Path

import pytest

from rag.config import RagConfig
from rag.errors import IndexDamaged, NotFound, RagError
from rag.evaluate.collection_index import records_of
from rag.ids import VersionId
from rag.index.commit import commit_version
from rag.index.manifest import Manifest
from rag.index.store import IndexStore
from tests.rag.index.factories import commit, unit_vectors
from tests.rag.index.two_versions import OLD, A, second_version


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


def test_a_registry_comes_back_and_damage_to_it_is_found(store: IndexStore, first: Manifest) -> None:
    assert store.registry(first.version) == sorted(records_of(OLD, 2), key=lambda record: record.document_id)
    (path,) = store.documents_dir.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(IndexDamaged, match=path.name):
        store.registry(first.version)


def test_a_run_does_not_undo_what_was_made_live_while_it_built(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    second = second_version(store, config, first)
    for manifest in (first, second):
        store.publish(manifest.version)
    with store.writing():
        third = commit_version(store, {}, [A], [], config, 4, second.version, fresh=True)
        IndexStore(config.index_root).rollback()
        with pytest.raises(RagError, match=rf"{first.version} went live .*`quire publish {third.version}`"):
            store.publish(third.version)
    assert store.current() == first.version
    store.publish(third.version)  # somebody who has looked at both
    assert store.current() == third.version


def test_a_run_may_publish_twice(store: IndexStore, config: RagConfig, first: Manifest) -> None:
    with store.writing():
        store.publish(first.version)
        store.publish(second_version(store, config, first).version)
    assert len(store.history()) == 2
