"""What a stored trace still shows after something in it was revoked."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag.config import IndexConfig, RagConfig
from rag.data import Message
from rag.guard.revoked import WITHHELD, without_revoked
from rag.ids import TraceId, VersionId
from rag.index.manifest import Manifest
from rag.index.revoke import revoke, unrevoke
from rag.index.store import IndexStore
from rag.trace import Trace, TraceVersions
from tests.rag.index.factories import TENANT, commit, make_chunk, make_config, unit_vectors

SECRET, PUBLIC = make_chunk("secret", uri="a.md"), make_chunk("public", uri="b.md", groups=("board", "staff"))


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return make_config(tmp_path, IndexConfig(num_shards=1))


@pytest.fixture
def store(config: RagConfig) -> IndexStore:
    return IndexStore(config.index_root)


@pytest.fixture
def version(store: IndexStore, config: RagConfig) -> Manifest:
    manifest = commit(store, [SECRET, PUBLIC], unit_vectors(2), config)
    store.publish(manifest.version)
    return manifest


def trace_of(version: VersionId, *passages: str) -> Trace:
    both = ((SECRET.id, 0.9), (PUBLIC.id, 0.5))
    return Trace(
        id=TraceId("t"),
        created_at=datetime.now(UTC),
        asker="x",
        tenant=TENANT,
        groups=("staff",),
        question="?",
        query="?",
        versions=TraceVersions(version, "e", "r", "g", "p", "c"),
        dense=both,
        fused=both,
        passages=tuple(c.id for c in (SECRET, PUBLIC) if c.text in passages),
        citations=tuple(c.id for c in (PUBLIC,) if c.text in passages),
        messages=(Message("user", " ".join(passages)),),
        answer=" ".join(passages),
    )


def test_nothing_revoked_nothing_changed(store: IndexStore, version: Manifest) -> None:
    trace = trace_of(version.version, "secret", "public")
    assert without_revoked(trace, store) == trace


def test_a_revoked_passage_takes_prompt_and_answer_with_it(store: IndexStore, version: Manifest) -> None:
    trace = trace_of(version.version, "secret", "public")
    revoke(store, "a.md")
    shown = without_revoked(trace, store)
    assert (shown.messages, shown.answer, shown.partial) == ((), "", (WITHHELD,))
    assert (shown.passages, shown.citations) == ((PUBLIC.id,), (PUBLIC.id,))
    assert shown.dense == shown.fused == ((PUBLIC.id, 0.5),)
    assert "secret" not in shown.to_json()
    assert SECRET.id not in shown.to_json()
    unrevoke(store, "a.md")
    assert without_revoked(trace, store) == trace


def test_a_revoked_candidate_alone_is_left_out(store: IndexStore, version: Manifest) -> None:
    trace = trace_of(version.version, "public")
    revoke(store, "a.md")
    assert without_revoked(trace, store) == replace(trace, dense=((PUBLIC.id, 0.5),), fused=((PUBLIC.id, 0.5),))


def test_a_revoked_group_counts_for_who_asked(store: IndexStore, version: Manifest) -> None:
    trace = trace_of(version.version, "public")
    revoke(store, "staff")
    assert without_revoked(trace, store).answer == ""
    assert without_revoked(replace(trace, groups=("board",)), store).answer == "public"


def test_of_a_version_that_is_gone_nothing_is_shown_while_anything_is_revoked(
    store: IndexStore, version: Manifest
) -> None:
    trace = trace_of(VersionId("v-0123456789abcdef"), "public")
    assert without_revoked(trace, store) == trace
    revoke(store, "a.md")
    assert without_revoked(trace, store).answer == ""
