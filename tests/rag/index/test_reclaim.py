"""Old versions go, and nothing goes that is live, leased, young, or the way back."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rag.config import IndexConfig, RagConfig
from rag.errors import NotFound, RagError
from rag.ids import SegmentId, VersionId, document_id
from rag.index.consistency import check_version
from rag.index.manifest import Manifest
from rag.index.reclaim import LEASE_S, leased_versions, reclaim, renew_lease
from rag.index.segment import write_segment
from rag.index.shard import open_shard
from rag.index.store import IndexStore
from tests.rag.index.factories import TENANT, commit, make_chunk, make_config, make_query, unit_vectors


def settings(keep: int, grace_s: float = 0.0) -> IndexConfig:
    return IndexConfig(num_shards=1, keep_versions=keep, reclaim_grace_s=grace_s)


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return make_config(tmp_path, settings(2))


@pytest.fixture
def line(store: IndexStore, config: RagConfig) -> list[Manifest]:
    """Five versions, each the child of the one before it, in which one document is written anew every time."""
    versions: list[Manifest] = []
    for number in range(5):
        parent = versions[-1].version if versions else None
        chunk = make_chunk(f"edition {number}", uri="a.md")
        removed = [document_id(TENANT, "a.md")] if versions else []
        versions.append(commit(store, [chunk], unit_vectors(1), config, parent=parent, removed=removed))
        store.publish(versions[-1].version)
    return versions


def names(line: list[Manifest], *places: int) -> set[VersionId]:
    return {line[place].version for place in places}


def segments(store: IndexStore) -> set[SegmentId]:
    return set(store.segment_names())


def test_the_newest_stay_with_all_they_need(store: IndexStore, config: RagConfig, line: list[Manifest]) -> None:
    found = reclaim(store, config.index)
    assert set(found.versions) == names(line, 0, 1, 2)
    assert (len(found.segments), len(found.registries)) == (3, 3)
    assert found.size_bytes > 0
    assert set(store.versions()) == names(line, 3, 4)
    for manifest in (line[3], line[4]):
        check_version(store, manifest)
        shard = open_shard(config.index_root, manifest.version, 0, config)
        assert shard.search(make_query(manifest.version, "edition"), 1, 1).dense
    assert store.rollback() == line[3].version
    with pytest.raises(NotFound, match=r"reclaimed; index\.keep_versions"):
        store.rollback()
    assert not reclaim(store, config.index)


def test_a_dry_run_deletes_nothing(store: IndexStore, config: RagConfig, line: list[Manifest]) -> None:
    assert len(reclaim(store, config.index, dry_run=True).versions) == 3
    assert len(store.versions()) == 5


def test_the_live_version_and_its_parent_stay_whatever_their_age(
    store: IndexStore, config: RagConfig, line: list[Manifest]
) -> None:
    store.publish(line[1].version)
    reclaim(store, settings(1))
    assert set(store.versions()) == names(line, 0, 1, 4)


def test_a_leased_version_stays_until_the_lease_ends_or_runs_out(
    store: IndexStore, config: RagConfig, line: list[Manifest]
) -> None:
    renew_lease(store, "shard-0-x", [line[0].version])
    renew_lease(store, "shard-1-y", [line[1].version])
    reclaim(store, config.index)
    assert set(store.versions()) == names(line, 0, 1, 3, 4)
    store.delete_live("leases/shard-0-x.json")
    reclaim(store, config.index)
    assert set(store.versions()) == names(line, 1, 3, 4)
    later = datetime.now(UTC) + timedelta(seconds=LEASE_S + 1)
    assert leased_versions(store, later) == set()
    assert store.live_names("leases") == []


def test_what_is_young_stays(store: IndexStore, line: list[Manifest]) -> None:
    assert not reclaim(store, settings(1, grace_s=3600))
    assert len(store.versions()) == 5


def test_an_orphan_is_kept_while_it_is_young_or_a_re_embedding_runs(
    store: IndexStore, config: RagConfig, line: list[Manifest]
) -> None:
    orphan = write_segment(store.segments_dir, [make_chunk("nobody's")], unit_vectors(1), config.index)
    assert orphan.id not in reclaim(store, settings(2, grace_s=3600)).segments
    with store.reembedding():
        found = reclaim(store, config.index)
        assert found.segments == ()
    assert orphan.id in segments(store)
    assert orphan.id in reclaim(store, config.index).segments
    assert orphan.id not in segments(store)


def test_who_has_a_version_open_goes_on_with_it(store: IndexStore, config: RagConfig, line: list[Manifest]) -> None:
    shard = open_shard(config.index_root, line[0].version, 0, config)
    reclaim(store, config.index)
    query = make_query(line[0].version, "edition")
    (found,) = shard.search(query, 5, 5).dense
    assert [chunk.text for chunk in shard.fetch(query, [found.chunk_id])] == ["edition 0"]


class Halting(IndexStore):
    """A store whose reclaim has made up its mind, and waits before it deletes the first version."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.decided, self.go_on = threading.Event(), threading.Event()

    def delete_version(self, version: VersionId) -> None:
        self.decided.set()
        self.go_on.wait(1)  # not for ever: who publishes may have to wait for this
        super().delete_version(version)


@pytest.fixture
def reclaiming(store: IndexStore, config: RagConfig, line: list[Manifest]) -> Iterator[Halting]:
    """A reclaim that halts when it has decided what goes."""
    halting = Halting(config.index_root)
    thread = threading.Thread(target=reclaim, args=(halting, config.index))
    thread.start()
    assert halting.decided.wait(10)
    yield halting
    halting.go_on.set()
    thread.join()


def test_what_is_published_while_others_are_deleted_is_there_or_refused(
    store: IndexStore, line: list[Manifest], reclaiming: Halting
) -> None:
    with pytest.raises(NotFound):
        store.publish(line[0].version)
    assert store.manifest(store.current()) == line[4]
    assert [entry["version"] for entry in store.history()] == [manifest.version for manifest in line]


def test_no_re_embedding_begins_while_segments_are_deleted(store: IndexStore, reclaiming: Halting) -> None:
    """It may take up again a segment that nobody names yet."""
    with pytest.raises(RagError, match="under way"), store.reembedding():
        pass
    reclaiming.go_on.set()
