"""A trace and its versions give the same passages and prompt byte for byte; what differs is found and named (law 8)."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.config import load_config
from rag.data import EncodedQuery, Message, Prompt, Question, ShardCandidates, Turn, Vector
from rag.errors import DeadlineExceeded, ModelError, ShardUnavailable
from rag.evaluate.replay import Difference, conditions_of, first_difference, obstacles, replay
from rag.generate.prompt import PROMPT_VERSION
from rag.ids import VersionId
from rag.local import InProcessShard, LocalStages, NoGenerator
from rag.parts import build_embedder, build_reranker
from rag.pipeline import Pipeline, Timed
from rag.trace import SpanRecorder, Trace, new_trace_id
from tests.rag.evaluate.libraries import Library, Says, cheap_config, with_settings
from tests.rag.index.factories import EVERYONE, make_chunk

WORDS = ["leave", "days", "zone", "badge", "visitor", "office", "travel", "manager", "policy", "month", "paid"]
LOCAL = Path(__file__).resolve().parents[3] / "serve_configs" / "local" / "rag.yaml"
HISTORY = (Turn("user", "How many days of paid leave do I have?"), Turn("assistant", "25 days."))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    chunks = [
        make_chunk(
            " ".join([*WORDS[place % 9 :], *WORDS[: place % 7], f"rule {place}."]),
            f"handbook/{place // 4}.md",
            ordinal=place % 4,
            groups=["staff"] if place % 3 else ["people"],
        )
        for place in range(40)
    ]
    return Library(cheap_config(tmp_path_factory.mktemp("library")), chunks)


def stored(trace: Trace) -> Trace:
    """As it comes back from the database."""
    return Trace.from_json(trace.to_json())


@pytest.mark.parametrize("history", [(), HISTORY])
async def test_an_answer_is_repeated_without_its_generator(library: Library, history: tuple[Turn, ...]) -> None:
    trace = stored(await library.ask(Question("What about parking in the office?", EVERYONE, history)))
    assert len(trace.passages) > 1
    found = await replay(trace, library.pipeline(), conditions_of(library.config))
    assert (found.verdict, found.difference, found.reasons) == ("identical", None, ())
    again = await replay(trace, library.pipeline(), conditions_of(library.config))
    assert again == found


async def test_a_search_is_repeated_too(library: Library) -> None:
    trace = stored(await library.search(Question("paid leave for a visitor", EVERYONE)))
    found = await replay(trace, library.pipeline(), conditions_of(library.config))
    assert (found.kind, found.verdict) == ("search", "identical")


@settings(deadline=None, max_examples=20)
@given(
    text=st.lists(st.sampled_from([*WORDS, "“zone”", "it", "rule 7"]), min_size=1, max_size=8).map(" ".join),
    groups=st.sets(st.sampled_from(["staff", "people", "board"])),
)
def test_whoever_asks_whatever_the_trace_replays(library: Library, text: str, groups: set[str]) -> None:
    question = Question(text, replace(EVERYONE, groups=frozenset(groups)))
    trace = stored(asyncio.run(library.ask(question)))
    found = asyncio.run(replay(trace, library.pipeline(), conditions_of(library.config)))
    assert found.verdict == "identical"


async def test_the_words_of_a_language_model_are_taken_from_the_trace(library: Library) -> None:
    question = Question("And in the office?", EVERYONE, HISTORY)
    stages = library.stages(library.config, Says("How many days of paid leave do I have in the office?"))
    pipeline, recorder = Pipeline(library.config, stages), SpanRecorder()
    retrieval = await pipeline.retrieve(question, recorder)
    trace = stored(pipeline.search_trace(new_trace_id(), question, retrieval, recorder))
    assert "follow_up_model" in trace.rewrites
    found = await replay(trace, library.pipeline(), conditions_of(library.config))
    assert found.verdict == "identical"
    assert found.notes == ("the query is the trace's own: a language model wrote it",)


async def test_shards_that_answer_in_another_order_change_nothing(library: Library) -> None:
    class Slow(InProcessShard):
        async def search(self, query: EncodedQuery, k_dense: int, k_bm25: int, k_read: int) -> ShardCandidates:
            await asyncio.sleep(0.02)
            return await super().search(query, k_dense, k_bm25, k_read)

    trace = await library.ask(Question("paid leave for a visitor", EVERYONE))
    asked: list[Sequence[str]] = []
    for slow in range(2):
        stages = library.stages(library.config)
        stages.shards = [
            (Slow if place == slow else InProcessShard)(shard._shard) for place, shard in enumerate(stages.shards)
        ]
        rerank = stages.rerank

        async def listening(query: str, passages: Sequence[str], rerank: Any = rerank) -> Timed[list[float]]:
            asked.append(passages)
            timed: Timed[list[float]] = await rerank(query, passages)
            return timed

        stages.rerank = listening  # type: ignore[method-assign]
        found = await replay(trace, Pipeline(library.config, stages), conditions_of(library.config))
        assert found.verdict == "identical"
    assert asked[0] == asked[1]


async def test_a_score_that_differs_in_its_last_bit_is_a_difference(library: Library) -> None:
    trace = await library.ask(Question("paid leave for a visitor", EVERYONE))
    name, score = trace.reranked[2]
    nudged = (*trace.reranked[:2], (name, math.nextafter(score, 9.0)), *trace.reranked[3:])
    found = await replay(replace(trace, reranked=nudged), library.pipeline(), conditions_of(library.config))
    assert found.verdict == "different"
    assert found.difference == Difference(
        "reranked", 3, f"{name} with score {math.nextafter(score, 9.0)!r}", f"{name} with score {score!r}"
    )


async def test_a_difference_names_what_may_have_caused_it(library: Library) -> None:
    trace = await library.ask(Question("paid leave for a visitor", EVERYONE))
    moved = replace(trace, query="paid leave", runtime={**trace.runtime, "embed.threads": "512"})
    found = await replay(moved, library.pipeline(), conditions_of(library.config))
    assert found.difference is not None
    assert found.difference.stage == "query"
    assert any("embed.threads" in note and "512 in the trace" in note for note in found.notes)


async def test_the_first_stage_that_differs_is_named(library: Library) -> None:
    trace = await library.ask(Question("paid leave for a visitor", EVERYONE))
    assert first_difference(trace, trace) is None
    last = trace.messages[-1]
    longer = replace(trace, messages=(*trace.messages[:-1], Message(last.role, last.content + " ")))
    changes: dict[str, Trace] = {
        "question": replace(longer, question="x"),
        "query": replace(longer, query="x"),
        "rewrites": replace(longer, rewrites=("glossary",)),
        "dense": replace(longer, dense=trace.dense[:-1], bm25=()),
        "bm25": replace(longer, bm25=trace.bm25[::-1], fused=()),
        "fused": replace(longer, fused=(), reranked=()),
        "reranked": replace(longer, reranked=()),
        "passages": replace(longer, passages=trace.passages[::-1]),
        "messages": longer,
    }
    for stage, other in changes.items():
        difference = first_difference(trace, other)
        assert difference is not None
        assert difference.stage == stage
    difference = first_difference(trace, changes["dense"])
    assert difference is not None
    assert (difference.rank, difference.got) == (len(trace.dense), "nothing")
    difference = first_difference(trace, longer)
    assert difference is not None
    assert (difference.rank, str(len(last.content)) in difference.expected) == (len(trace.messages), True)


async def test_a_partial_trace_is_not_replayable_rather_than_different(library: Library) -> None:
    class Deaf(InProcessShard):
        async def search(self, query: EncodedQuery, k_dense: int, k_bm25: int, k_read: int) -> ShardCandidates:
            raise ShardUnavailable(1, 10.0)

    stages = library.stages(library.config)
    stages.shards[1] = Deaf(stages.shards[1]._shard)
    pipeline, recorder, question = Pipeline(library.config, stages), SpanRecorder(), Question("paid leave", EVERYONE)
    retrieval = await pipeline.retrieve(question, recorder)
    trace = pipeline.search_trace(new_trace_id(), question, retrieval, recorder)
    found = await replay(trace, library.pipeline(), conditions_of(library.config))
    assert (found.verdict, found.reasons) == ("not_replayable", ("it is partial, without shard 1",))
    late = pipeline.failed_trace(new_trace_id(), question, DeadlineExceeded("rerank", 1.0), recorder, "search")
    failed = await replay(late, library.pipeline(), conditions_of(library.config))
    assert failed.reasons == ("it ended with DeadlineExceeded: rerank did not end within 1.00 s",)


async def test_other_settings_are_named_one_by_one(library: Library) -> None:
    answer = await library.ask(Question("paid leave", EVERYONE))
    search = await library.search(Question("paid leave", EVERYONE))
    changed = with_settings(library.config, search={"k_dense": 7}, assemble={"budget_tokens": 99})
    here = conditions_of(changed)
    assert obstacles(answer, here) == [
        "search.k_dense is 7 here, 50 in the trace",
        "assemble.budget_tokens is 99 here, 1000 in the trace",
    ]
    assert obstacles(search, here) == ["search.k_dense is 7 here, 50 in the trace"]  # a search has no prompt
    assert obstacles(answer, replace(here, settings=answer.settings, prompt="0")) == [
        f"the prompt's version is 0 here, {PROMPT_VERSION} in the trace"
    ]
    assert obstacles(replace(answer, settings={}), here) == [
        "it names no settings: it was stored before they were recorded"
    ]
    with_fewer = with_settings(library.config, index={"num_shards": 3})
    assert ["fingerprint" in reason for reason in obstacles(answer, conditions_of(with_fewer))] == [True]


async def test_a_replay_over_another_version_is_a_mistake_of_the_caller(library: Library) -> None:
    trace = await library.search(Question("paid leave", EVERYONE))
    elsewhere = replace(trace, versions=replace(trace.versions, index=VersionId("v-0000000000000000")))
    with pytest.raises(ValueError, match="pinned v-0000000000000000"):
        await replay(elsewhere, library.pipeline(), conditions_of(library.config))


def test_without_a_generator_no_answer_is_written() -> None:
    with pytest.raises(ModelError, match="ends with the prompt"):
        NoGenerator().generate(Prompt((), ()))


@pytest.mark.models
async def test_with_the_real_models_a_trace_replays_whatever_shared_its_batches(tmp_path: Path) -> None:
    project = load_config(LOCAL)
    config = with_settings(
        project.model_copy(update={"store": tmp_path, "var": tmp_path}), generate={"generator": "extractive"}
    )
    texts = ["Every employee has 25 days of paid leave a year.", "Parking in zone B costs 12 CHF a day."]
    chunks = [make_chunk(" ".join(texts[n % 2 :] * (n % 3 + 1)), f"{n}.md") for n in range(8)]
    library = Library(config, chunks)

    class Shared(LocalStages):
        """Stages in which every query is encoded and scored beside others, as in a cluster under load."""

        async def encode(self, text: str) -> Timed[Vector]:
            return Timed(
                self._embedder.embed_queries(["zone B?", text, "a longer question about something else"])[1], 0.0
            )

        async def rerank(self, query: str, passages: Sequence[str]) -> Timed[list[float]]:
            others = ("Who pays for parking?", [*passages[:3], "A passage of another question."])
            return Timed(self._reranker.score_many([others, (query, passages)])[1], 0.0)

    parts = (build_embedder(config), build_reranker(config))
    pipeline, recorder = Pipeline(config, Shared(config, library.version, library.shards(), *parts)), SpanRecorder()
    question = Question("How many days of leave does an employee have?", EVERYONE)
    retrieval = await pipeline.retrieve(question, recorder)
    trace = stored(pipeline.search_trace(new_trace_id(), question, retrieval, recorder))
    alone = Pipeline(config, LocalStages(config, library.version, library.shards(), *parts))
    found = await replay(trace, alone, conditions_of(config))
    assert (found.verdict, found.difference) == ("identical", None)
