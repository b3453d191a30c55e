"""Revocations: at once, in every version that needs them, and gone when the index says the same by itself."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.config import IndexConfig, RagConfig
from rag.data import Access, Chunk, Principal
from rag.errors import IndexDamaged, InputError, NotFound, RagError
from rag.evaluate.collection_index import records_of
from rag.guard.access import may_read
from rag.ids import document_id
from rag.index.analysis import Analyzer
from rag.index.commit import commit_version
from rag.index.compact import compact, plan_compaction
from rag.index.contents import read_chunks
from rag.index.manifest import Manifest
from rag.index.revocations import Revocation, RevocationFeed, RevocationList, Revocations
from rag.index.revoke import absorb_revocations, forget_absorbed, revoke, unrevoke
from rag.index.shard import LocalShard, open_shard
from rag.index.store import IndexStore
from tests.rag.index.factories import (
    EVERYONE,
    TENANT,
    commit,
    make_chunk,
    make_config,
    make_query,
    unit_vectors,
    write_segments,
)

A = [make_chunk(f"secret {n}", uri="a.md", ordinal=n, groups=("staff",)) for n in range(2)]
B = [make_chunk("public", uri="b.md", groups=("staff", "board"))]
BOARD = Principal("bea", TENANT, frozenset({"board"}))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return make_config(tmp_path, IndexConfig(num_shards=1))


@pytest.fixture
def first(store: IndexStore, config: RagConfig) -> Manifest:
    manifest = commit(store, [*A, *B], unit_vectors(3), config)
    store.publish(manifest.version)
    return manifest


def seen(shard: LocalShard, principal: Principal = EVERYONE) -> set[str]:
    """What the principal finds by either leg; what it can fetch by id has to be the same."""
    query = make_query(shard.manifest.version, "secret public", principal=principal)
    found = shard.search(query, 10, 10)
    texts = {chunk.text for chunk in shard.fetch(query, [chunk.id for chunk in (*A, *B)], neighbours=1)}
    assert {candidate.chunk_id for candidate in (*found.dense, *found.bm25)} == {
        chunk.id for chunk in (*A, *B) if chunk.text in texts
    }
    return texts


def opened(config: RagConfig, manifest: Manifest, clock: Clock) -> LocalShard:
    """A shard that looks for revocations by this clock."""
    shard = open_shard(config.index_root, manifest.version, 0, config)
    shard.follow(IndexStore(config.index_root).revocation_feed(clock))
    return shard


def test_an_open_shard_hides_a_revoked_document_within_a_second(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    clock = Clock()
    shard = opened(config, first, clock)
    assert seen(shard) == {"secret 0", "secret 1", "public"}
    revoke(store, "a.md")
    clock.now = 1.0
    assert seen(shard) == {"public"}
    unrevoke(store, "a.md")
    clock.now = 2.0
    assert seen(shard) == {"secret 0", "secret 1", "public"}


def test_a_revoked_group_opens_nothing_and_other_groups_still_do(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    revoke(store, "staff")
    shard = opened(config, first, Clock())
    assert seen(shard) == set()
    assert seen(shard, BOARD) == {"public"}
    assert seen(shard, replace(BOARD, groups=frozenset({"board", "staff"}))) == {"public"}


def test_a_group_of_another_tenant_is_another_group(store: IndexStore, config: RagConfig, first: Manifest) -> None:
    with pytest.raises(NotFound, match="staff"):
        revoke(store, "staff", tenant="elsewhere")
    revoke(store, "staff", tenant=TENANT)
    assert seen(opened(config, first, Clock())) == set()


def test_a_name_is_looked_up_among_documents_and_groups(store: IndexStore, config: RagConfig) -> None:
    both = make_chunk("text", uri="staff", groups=("staff",))
    store.publish(commit(store, [both], unit_vectors(1), config).version)
    with pytest.raises(InputError, match="a document and a group"):
        revoke(store, "staff")
    assert revoke(store, "staff", "document").name == both.document_id
    assert revoke(store, "staff", "group").name == "staff"
    with pytest.raises(InputError, match="more than once"):
        unrevoke(store, "staff")
    unrevoke(store, "staff", "group")
    assert [entry.kind for entry in store.revocations().revocations] == ["document"]
    with pytest.raises(NotFound, match="knows no document and no group 'nobody'"):
        revoke(store, "nobody")
    with pytest.raises(NotFound, match="is not revoked"):
        unrevoke(store, "nobody")


def test_revoking_twice_is_one_revocation(store: IndexStore, first: Manifest) -> None:
    revoke(store, "a.md")
    revoke(store, document_id(TENANT, "a.md"))
    assert len(store.revocations().revocations) == 1


def follow_up(
    store: IndexStore, config: RagConfig, first: Manifest, added: Sequence[Chunk], kept: Sequence[Chunk]
) -> Manifest:
    """The version after an ingest in which a.md became the added chunks."""
    removed = [document_id(TENANT, "a.md")]
    if not added:
        return commit_version(
            store, {}, removed, [r for r in store.registry(first.version) if r.uri != "a.md"], config, 4, first.version
        )
    return commit(store, added, unit_vectors(len(added)), config, parent=first.version, removed=removed, kept=kept)


def test_the_version_without_the_document_absorbs_it_and_a_rollback_opens_nothing(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    revoke(store, "a.md")
    second = follow_up(store, config, first, [], B)
    store.publish(second.version)
    assert [entry.label for entry in absorb_revocations(store, second)] == ["a.md"]
    assert absorb_revocations(store, second) == []
    assert seen(opened(config, second, Clock())) == {"public"}
    store.rollback()
    assert seen(opened(config, first, Clock())) == {"public"}
    forget_absorbed(store, first.created_at)
    assert len(store.revocations().revocations) == 1
    forget_absorbed(store, second.created_at)
    assert store.revocations() == RevocationList()


def test_other_readers_absorb_it_and_other_text_does_not(store: IndexStore, config: RagConfig, first: Manifest) -> None:
    revoke(store, "a.md")
    edited = follow_up(store, config, first, [make_chunk("secret, edited", uri="a.md")], B)
    assert absorb_revocations(store, edited) == []
    assert seen_texts(config, edited) == {"public"}
    closed = follow_up(store, config, first, [make_chunk("secret 0", uri="a.md", groups=("board",))], B)
    assert len(absorb_revocations(store, closed)) == 1
    assert seen_texts(config, closed) == {"public"}
    assert seen_texts(config, closed, BOARD) == {"public", "secret 0"}
    assert seen_texts(config, edited) == {"public"}


def seen_texts(config: RagConfig, manifest: Manifest, principal: Principal = EVERYONE) -> set[str]:
    shard = open_shard(config.index_root, manifest.version, 0, config)
    found = shard.search(make_query(manifest.version, "secret public", principal=principal), 10, 10)
    ids = [candidate.chunk_id for candidate in (*found.dense, *found.bm25)]
    return {chunk.text for chunk in shard.fetch(make_query(manifest.version, principal=principal), ids)}


def test_a_version_made_before_the_revocation_can_not_absorb_it(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    second = follow_up(store, config, first, [], B)
    revoke(store, "a.md")  # while an ingest that began earlier is about to publish
    assert absorb_revocations(store, second) == []


def test_a_group_is_absorbed_when_it_opens_nothing(store: IndexStore, config: RagConfig, first: Manifest) -> None:
    revoke(store, "board")
    second = follow_up(store, config, first, [make_chunk("secret 9", uri="a.md")], B)
    assert absorb_revocations(store, second) == []
    chunks = [make_chunk("public", uri="b.md", groups=("staff",))]
    third = commit(store, chunks, unit_vectors(1), config, parent=first.version, removed=[B[0].document_id], kept=A)
    assert [entry.name for entry in absorb_revocations(store, third)] == ["board"]


@pytest.mark.parametrize("content", [b"{", b'{"revocations": [{"kind": "planet"}]}'])
def test_a_damaged_list_is_named_and_what_is_known_stays_in_force(
    store: IndexStore, config: RagConfig, first: Manifest, content: bytes
) -> None:
    revoke(store, "a.md")
    clock = Clock()
    shard = opened(config, first, clock)
    (store.root / "revocations.json").write_bytes(content)
    clock.now = 5.0
    assert seen(shard) == {"public"}
    with pytest.raises(IndexDamaged, match=r"revocations\.json"):
        open_shard(config.index_root, first.version, 0, config)


def test_the_feed_reads_once_an_interval() -> None:
    clock, reads = Clock(), 0

    def read() -> RevocationList:
        nonlocal reads
        reads += 1
        if reads == 2:
            raise RagError("unreachable")
        return RevocationList()

    feed = RevocationFeed(read, 1.0, clock)
    for now in (0.0, 0.5, 0.9):
        clock.now = now
        feed.current()
    assert reads == 1
    clock.now = 1.0
    feed.current()  # the failure
    assert reads == 2
    clock.now = 1.9
    feed.current()
    assert reads == 2
    clock.now = 2.0
    feed.current()
    assert reads == 3


names = st.sets(st.sampled_from("abc"))
moments = st.integers(0, 5).map(lambda day: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day))


@given(readers=names, groups=names, revoked=names, hidden=st.booleans(), tenant=st.sampled_from(["x", "y"]))
def test_what_is_revoked_only_ever_takes_away(
    readers: set[str], groups: set[str], revoked: set[str], hidden: bool, tenant: str
) -> None:
    document = document_id("x", "page")
    revocations = Revocations(
        frozenset({document} if hidden else ()), frozenset((None if name == "a" else "x", name) for name in revoked)
    )
    access, asker = Access("x", tuple(sorted(readers))), Principal("", tenant, frozenset(groups))
    left = replace(asker, groups=asker.groups - revoked)
    assert revocations.allows(document, access, asker) == (not hidden and may_read(access, left))


@given(absorbed=st.none() | moments, created=moments)
def test_a_version_needs_it_until_one_absorbed_it(absorbed: datetime | None, created: datetime) -> None:
    entry = Revocation(kind="group", name="g", label="g", revoked_at=created, absorbed_at=absorbed)
    found = RevocationList(revocations=(entry,)).for_version(created)
    assert bool(found) == (absorbed is None or created < absorbed)


def test_without_a_live_version_there_is_nothing_to_revoke(store: IndexStore) -> None:
    with pytest.raises(NotFound, match="no index version is live"):
        revoke(store, "a.md")
    assert store.revocations() == RevocationList()


# ---------------------------------------------------------------- other versions, runs that are under way

NEWS = make_chunk("news", uri="news.md", groups=("staff", "board"))


def with_news(store: IndexStore, config: RagConfig, parent: Manifest) -> Manifest:
    """The version after an ingest of another folder than the one with a.md."""
    return commit(
        store, [NEWS], unit_vectors(1), config, parent=parent.version, kept=read_chunks(store, parent.version)
    )


def compacted(store: IndexStore, config: RagConfig, parent: Manifest) -> Manifest:
    return compact(store, parent, plan_compaction(parent, 1_000), config)


def embedded_anew(store: IndexStore, config: RagConfig, parent: Manifest) -> Manifest:
    chunks = read_chunks(store, parent.version)
    made = write_segments(store, chunks, unit_vectors(len(chunks), seed=9), config)
    records = store.registry(parent.version)
    return commit_version(store, made, (), records, config, 4, parent=parent.version, fresh=True)


@pytest.mark.parametrize("build", [with_news, compacted, embedded_anew])
def test_what_is_built_after_a_rollback_opens_nothing(
    store: IndexStore, config: RagConfig, build: Callable[[IndexStore, RagConfig, Manifest], Manifest]
) -> None:
    first = commit(store, [*A, *B], unit_vectors(3), config, num_segments=2)
    store.publish(first.version)
    revoke(store, "a.md")
    second = follow_up(store, config, first, [], B)
    store.publish(second.version)
    assert len(absorb_revocations(store, second)) == 1
    store.rollback()
    third = build(store, config, first)
    store.publish(third.version)
    absorb_revocations(store, third)
    assert "a.md" in {record.uri for record in store.registry(third.version)}
    assert seen_texts(config, third) <= {"public", "news"}


def test_a_run_that_read_before_the_revocation_does_not_end_it(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    with store.writing():  # it has read by now that the board may see the page
        revoke(store, "a.md")
        second = follow_up(store, config, first, [make_chunk("secret 0", uri="a.md", groups=("board",))], B)
        store.publish(second.version)
        assert absorb_revocations(store, second) == []
    with store.writing():
        third = with_news(store, config, second)
        store.publish(third.version)
        assert absorb_revocations(store, third) == []
    assert seen_texts(config, third, BOARD) == {"public", "news"}
    with store.writing():
        fourth = follow_up(store, config, third, [make_chunk("secret 0", uri="a.md", groups=("legal",))], [*B, NEWS])
        assert len(absorb_revocations(store, fourth)) == 1


def test_a_revocation_between_commit_and_publication_stays_in_force(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    with store.writing():
        second = follow_up(store, config, first, [make_chunk("secret 0", uri="a.md", groups=("board",))], B)
        revoke(store, "a.md")
        store.publish(second.version)
        absorb_revocations(store, second)
    with store.writing():
        third = with_news(store, config, second)
        absorb_revocations(store, third)
    assert seen_texts(config, third, BOARD) == {"public", "news"}


def test_the_readers_of_an_older_version_are_no_answer_to_a_revocation(
    store: IndexStore, config: RagConfig, first: Manifest
) -> None:
    second = follow_up(store, config, first, [make_chunk("secret 0", uri="a.md", groups=("board",))], B)
    store.publish(second.version)
    revoke(store, "a.md")
    store.rollback()
    third = with_news(store, config, first)  # carries a.md over as it was: the staff may read it
    assert absorb_revocations(store, third) == []
    assert seen_texts(config, third) == {"public", "news"}


def test_a_document_that_another_stands_in_for_stays_revoked_when_it_comes_back(
    store: IndexStore, config: RagConfig
) -> None:
    (copy,) = records_of([make_chunk("public", uri="copy.md")], 1)
    kept = records_of(B, 1)
    segments = write_segments(store, B, unit_vectors(1), config)
    stood_in_for = replace(copy, chunk_ids=(), duplicate_of=B[0].document_id)
    first = commit_version(store, segments, (), [*kept, stood_in_for], config, 4)
    store.publish(first.version)
    revoke(store, "copy.md")
    second = commit_version(
        store,
        write_segments(store, A, unit_vectors(2), config),
        (),
        [*kept, stood_in_for, *records_of(A, 1)],
        config,
        4,
        first.version,
    )
    assert absorb_revocations(store, second) == []
    back = make_chunk("public", uri="copy.md", groups=("staff", "board"))
    third = commit(store, [back], unit_vectors(1), config, parent=second.version, removed=[B[0].document_id], kept=A)
    assert absorb_revocations(store, third) == []
    assert seen_texts(config, third) == {"secret 0", "secret 1"}


class StalledFeed(RevocationFeed):
    """A feed whose answer reaches the named thread late."""

    def __init__(self, read: Callable[[], RevocationList], clock: Clock) -> None:
        super().__init__(read, clock=clock)
        self.stalled, self.go_on = threading.Event(), threading.Event()

    def current(self) -> RevocationList:
        found = super().current()
        if threading.current_thread().name == "slow":
            self.stalled.set()
            assert self.go_on.wait(10)
        return found


def test_a_slow_thread_does_not_bring_back_what_was_revoked(
    store: IndexStore, config: RagConfig, first: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    shard = open_shard(config.index_root, first.version, 0, config)
    feed = StalledFeed(store.revocations, clock)
    shard.follow(feed)
    query = make_query(first.version, "secret public")
    slow = threading.Thread(target=shard.search, args=(query, 10, 10), name="slow")
    slow.start()
    assert feed.stalled.wait(10)
    revoke(store, "a.md")
    clock.now = 1.0
    terms = Analyzer.terms

    def let_the_slow_one_go_on_first(self: Analyzer, text: str) -> list[str]:
        if threading.current_thread().name != "slow":
            feed.go_on.set()
            slow.join()
        return terms(self, text)

    monkeypatch.setattr(Analyzer, "terms", let_the_slow_one_go_on_first)
    assert set(shard.search(query, 10, 10).scores) == {B[0].id}


def test_a_group_that_opened_nothing_in_an_older_version_stays_revoked(store: IndexStore, config: RagConfig) -> None:
    first = commit(store, A, unit_vectors(2), config)
    second = commit(store, B, unit_vectors(1), config, parent=first.version, kept=A)
    for manifest in (first, second):
        store.publish(manifest.version)
    revoke(store, "board")
    store.rollback()
    third = commit(store, [make_chunk("other", uri="o.md")], unit_vectors(1), config, parent=first.version, kept=A)
    assert absorb_revocations(store, third) == []
    kept = read_chunks(store, third.version)
    fourth = commit(store, B, unit_vectors(1), config, parent=third.version, kept=kept)
    assert absorb_revocations(store, fourth) == []
    assert seen_texts(config, fourth, BOARD) == set()
