"""Following versions in one process: a question keeps what it began with; what can't be loaded is not switched to."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rag.config import EmbedConfig, GenerateConfig, IndexConfig, RagConfig, RerankConfig
from rag.data import Question
from rag.errors import IndexDamaged, IndexMismatch, NotFound
from rag.evaluate.collection_index import commit_chunks
from rag.ids import VersionId
from rag.index.manifest import check_compatible
from rag.index.store import IndexStore, open_store
from rag.live import LocalVersions, VersionFollower
from rag.parts import build_embedder
from rag.pipeline import DoneEvent, RetrievalEvent
from rag.trace import new_trace_id
from tests.rag.index.factories import EVERYONE, make_chunk
from tests.tiny_models import tiny_encoder


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return RagConfig(
        store=tmp_path,
        var=tmp_path,
        models=tmp_path,
        embed=EmbedConfig(embedder="hashing"),
        index=IndexConfig(num_shards=2),
        rerank=RerankConfig(reranker="overlap"),
        generate=GenerateConfig(generator="extractive", min_evidence=-1.0),
    )


def edition(config: RagConfig, number: int, parent: VersionId | None = None) -> VersionId:
    chunks = [make_chunk(f"Rule {n} of edition {number} says so.", uri=f"page-{n}.md") for n in range(8)]
    vectors = build_embedder(config).embed_passages([chunk.embedded_text for chunk in chunks])
    return commit_chunks(config, chunks, vectors, parent=parent)


@pytest.fixture
def two(config: RagConfig) -> tuple[VersionId, VersionId]:
    """Two versions, the first one live."""
    first = edition(config, 1)
    open_store(config).publish(first)
    return first, edition(config, 2, first)


def follower(config: RagConfig) -> VersionFollower:
    parts = LocalVersions(config)
    return VersionFollower(config, parts.prepare, parts.pipeline_of)


async def ask(live: VersionFollower, during: Callable[[], None] = lambda: None) -> tuple[VersionId, list[str]]:
    """The answer's version and passages; `during` happens once they are chosen."""
    texts: list[str] = []
    async for event in live.serving().pipeline.answer(Question("What does rule 3 say?", EVERYONE), new_trace_id()):
        if isinstance(event, RetrievalEvent):
            texts = [passage.text for passage in event.passages]
            await asyncio.to_thread(during)
        elif isinstance(event, DoneEvent):
            return event.answer.version, texts
    raise AssertionError("no answer")


async def test_questions_follow_the_live_version(config: RagConfig, two: tuple[VersionId, VersionId]) -> None:
    live = follower(config)
    assert (await ask(live))[0] == two[0]
    open_store(config).publish(two[1])
    await live.catch_up()
    version, texts = await ask(live)
    assert version == live.serving().version == two[1]
    assert texts
    assert all("edition 2" in text for text in texts)
    open_store(config).rollback()
    await live.catch_up()
    assert (await ask(live))[0] == two[0]


async def test_a_question_keeps_its_version_while_another_goes_live(
    config: RagConfig, two: tuple[VersionId, VersionId]
) -> None:
    live = follower(config)
    open_store(config).publish(two[1])
    switched = threading.Event()
    loop = asyncio.get_running_loop()

    def switch() -> None:
        asyncio.run_coroutine_threadsafe(live.catch_up(), loop).result(30)
        switched.set()

    version, texts = await ask(live, switch)
    assert switched.is_set()
    assert version == two[0]
    assert all("edition 1" in text for text in texts)
    assert live.serving().version == two[1]


async def test_answers_stay_whole_while_versions_change_under_them(
    config: RagConfig, two: tuple[VersionId, VersionId]
) -> None:
    live, store = follower(config), open_store(config)
    seen: set[VersionId] = set()
    for turn in range(6):
        store.publish(two[turn % 2])
        switching = asyncio.create_task(live.catch_up())
        answers = await asyncio.gather(*(ask(live) for _ in range(4)))
        await switching
        for version, texts in answers:
            assert all(f"edition {two.index(version) + 1}" in text for text in texts)
            seen.add(version)
    assert seen == set(two)


async def test_a_version_that_can_not_be_loaded_is_not_switched_to(
    config: RagConfig, two: tuple[VersionId, VersionId]
) -> None:
    live, store = follower(config), open_store(config)
    info = store.manifest(two[1]).shards[0].segments[0].info
    (store.segments_dir / info.id / "vectors.npy").write_bytes(b"broken")
    store.publish(two[1])
    with pytest.raises(IndexDamaged):
        await live.catch_up()
    assert (await ask(live))[0] == two[0]
    following = asyncio.create_task(live.follow(0.01))
    await asyncio.sleep(0.1)
    assert not following.done()  # it says so, and goes on
    store.rollback()
    following.cancel()


async def test_a_version_by_another_encoder_is_asked_with_that_encoder(
    config: RagConfig, two: tuple[VersionId, VersionId], tmp_path: Path
) -> None:
    model = str(tiny_encoder(tmp_path / "tiny"))
    other = config.model_copy(update={"embed": EmbedConfig(embedder="sentence", model=model)})
    third = edition(other, 3, two[0])
    live, store = follower(config), open_store(config)
    manifest = store.manifest(third)
    assert (manifest.encoder.dim, manifest.encoder.name) == (32, model)
    with pytest.raises(IndexMismatch, match="the encoder"):
        check_compatible(manifest, config)
    store.publish(third)
    await live.catch_up()
    version, texts = await ask(live)
    assert version == third
    assert all("edition 3" in text for text in texts)
    store.rollback()
    await live.catch_up()
    assert (await ask(live))[0] == two[0]


def test_without_a_live_version_there_is_nothing_to_follow(config: RagConfig) -> None:
    with pytest.raises(NotFound, match="no index version is live"):
        follower(config)
    assert IndexStore(config.index_root).versions() == []
