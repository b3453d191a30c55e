"""A stored question asked once more under what its trace recorded: is everything up to the prompt the same, bit by bit?

The answer is not repeated: a language model's words depend on what else shares its batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

from rag.config import RagConfig
from rag.data import Message, Principal, Query, Question
from rag.generate.prompt import PROMPT_VERSION
from rag.ids import TraceId, VersionId
from rag.pipeline import Pipeline
from rag.provenance import differing, runtime, shaping_settings
from rag.rewrite.follow_up import BY_MODEL
from rag.trace import SpanRecorder, Trace

Verdict = Literal["identical", "different", "not_replayable"]

_PROMPT_ALONE = ("assemble.", "generate.", "rerank.k_passages")  # settings that a search never comes to
_SHOWN_BEFORE, _SHOWN_AFTER = 20, 60  # characters around the first difference of two texts


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that has to be as the trace recorded it, as it is here."""

    settings: Mapping[str, str]
    fingerprint: str
    prompt: str
    runtime: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which a replay is not what the trace recorded."""

    stage: str
    rank: int | None  # from 1; None where the stage is one text
    expected: str
    got: str

    def __str__(self) -> str:
        place = self.stage if self.rank is None else f"{self.stage}, rank {self.rank}"
        return f"{place}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True, slots=True)
class Replay:
    """What became of one trace."""

    trace_id: TraceId
    kind: str
    version: VersionId
    verdict: Verdict
    difference: Difference | None = None
    reasons: tuple[str, ...] = ()  # why it can't be replayed
    notes: tuple[str, ...] = ()  # what was not repeated, and what may have caused a difference


def conditions_of(config: RagConfig) -> Conditions:
    """What a replay under this configuration would run with."""
    return Conditions(shaping_settings(config), config.index_fingerprint(), PROMPT_VERSION, runtime(config))


def obstacles(trace: Trace, here: Conditions) -> list[str]:
    """Why the trace can't be repeated here, each thing that differs by name; empty where it can.

    A partial one never can, nor one that an error ended: which shard is late is not a matter of versions.
    """
    if trace.error:
        return [f"it ended with {trace.error}"]
    if trace.partial:
        return [f"it is partial, without {', '.join(trace.partial)}"]
    if not trace.settings:
        return ["it names no settings: it was stored before they were recorded"]
    reasons = differing(_that_matter(trace, trace.settings), here.settings)
    recorded = {"the fingerprint of the index settings": trace.versions.config}
    present = {"the fingerprint of the index settings": here.fingerprint, "the prompt's version": here.prompt}
    if trace.kind == "answer":
        recorded["the prompt's version"] = trace.versions.prompt
    return reasons + differing(recorded, present)


async def replay(trace: Trace, pipeline: Pipeline, here: Conditions) -> Replay:
    """The trace's question asked once more of a pipeline over the trace's own index version.

    The pipeline's generator is not used: a query that a language model wrote is taken from the trace.
    """
    if reasons := obstacles(trace, here):
        return not_replayable(trace, reasons)
    written = BY_MODEL in trace.rewrites
    again = await _repeat(trace, pipeline, Query(trace.query, trace.question, trace.rewrites) if written else None)
    if again.versions.index != trace.versions.index:
        raise ValueError(f"trace {trace.id} pinned {trace.versions.index}, the pipeline is over {again.versions.index}")
    difference = first_difference(trace, again)
    notes = ["the query is the trace's own: a language model wrote it"] if written else []
    if difference is not None:
        notes += differing(trace.runtime, here.runtime)
    verdict: Verdict = "identical" if difference is None else "different"
    return Replay(trace.id, trace.kind, trace.versions.index, verdict, difference, notes=tuple(notes))


def not_replayable(trace: Trace, reasons: Sequence[str]) -> Replay:
    """The trace with the reasons why it can't be repeated."""
    return Replay(trace.id, trace.kind, trace.versions.index, "not_replayable", reasons=tuple(reasons))


def first_difference(expected: Trace, got: Trace) -> Difference | None:
    """The first place, in the order of the stages, at which two traces of one question differ; scores to the last bit.

    Only what comes before the answer is compared.
    """
    texts = (("question", expected.question, got.question), ("query", expected.query, got.query))
    for stage, one, other in texts:
        if one != other:
            return Difference(stage, None, *_around_difference(one, other))
    return (
        _in_order("rewrites", expected.rewrites, got.rewrites)
        or _in_order("dense", expected.dense, got.dense)
        or _in_order("bm25", expected.bm25, got.bm25)
        or _in_order("fused", expected.fused, got.fused)
        or _in_order("reranked", expected.reranked, got.reranked)
        or _in_order("passages", expected.passages, got.passages)
        or _in_messages(expected.messages, got.messages)
    )


async def _repeat(trace: Trace, pipeline: Pipeline, query: Query | None) -> Trace:
    asker = Principal("", trace.tenant, frozenset(trace.groups))  # the subject decides nothing before the trace
    question, recorder = Question(trace.question, asker, trace.history), SpanRecorder()
    retrieval = await pipeline.retrieve(question, recorder, query)
    again = pipeline.search_trace(trace.id, question, retrieval, recorder)
    if trace.kind == "search":
        return again
    _, prompt = await pipeline.decide(
        question, retrieval, await pipeline.prompt(question, retrieval, recorder), recorder
    )
    passages = tuple(passage.chunk.id for passage in prompt.passages)
    return replace(again, kind="answer", passages=passages, messages=prompt.messages)


def _that_matter(trace: Trace, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that come to bear on a trace of its kind."""
    left_out = _PROMPT_ALONE if trace.kind == "search" else ()
    return {name: value for name, value in settings.items() if not name.startswith(left_out)}


def _in_order(stage: str, expected: Sequence[object], got: Sequence[object]) -> Difference | None:
    for rank, (one, other) in enumerate(zip_longest(expected, got), start=1):
        if one != other:
            return Difference(stage, rank, _shown(one), _shown(other))
    return None


def _in_messages(expected: Sequence[Message], got: Sequence[Message]) -> Difference | None:
    for number, (one, other) in enumerate(zip(expected, got, strict=False), start=1):
        if one.role != other.role:
            return Difference("messages", number, f"role {one.role}", f"role {other.role}")
        if one.content != other.content:
            return Difference("messages", number, *_around_difference(one.content, other.content))
    if len(expected) != len(got):
        number = min(len(expected), len(got)) + 1
        return Difference("messages", number, f"{len(expected)} messages", f"{len(got)} messages")
    return None


def _around_difference(one: str, other: str) -> tuple[str, str]:
    """Both texts around the first character in which they differ."""
    pairs = zip(one, other, strict=False)
    at = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    shown = slice(max(0, at - _SHOWN_BEFORE), at + _SHOWN_AFTER)
    return f"{one[shown]!r} at character {at}", f"{other[shown]!r}"


def _shown(entry: object) -> str:
    """A candidate with all digits of its score; an id or a name as it is."""
    match entry:
        case None:
            return "nothing"
        case (name, score):
            return f"{name} with score {score!r}"
        case _:
            return str(entry)
