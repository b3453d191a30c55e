"""What the pipeline did with one question, stage by stage, in the shape that is measured."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from rag.data import Prompt, Question, Span
from rag.errors import RagError
from rag.generate.prompt import passage_texts
from rag.ids import ChunkId, VersionId, digest
from rag.pipeline import Pipeline
from rag.trace import Scores, SpanRecorder, Trace, new_trace_id

Stage = Literal["chunks", "dense", "bm25", "fused", "reranked", "prompt"]  # chunks: what any search could find at all
STAGES: tuple[Stage, ...] = get_args(Stage)


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage as the prompt's messages show it."""

    chunk_id: ChunkId
    text: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What one question led to. A stage that was not seen is in neither `rankings` nor `shown`."""

    version: VersionId  # that answered
    rankings: Mapping[Stage, Scores] = field(default_factory=dict)  # best first
    shown: tuple[ShownPassage, ...] | None = None  # None: the prompt was not asked for
    num_assembled: int = 0  # passages that the assembly passed on to the prompt
    partial: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    digest: str = ""  # of every candidate with its score, and of the prompt's words
    failure: str = ""  # why there is nothing else

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that were seen, in order."""
        seen = {*self.rankings, *(("prompt",) if self.shown is not None else ())}
        return tuple(stage for stage in STAGES if stage in seen)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """All that has to be the same for a second run to see the same: what a trace calls versions, settings, runtime."""

    versions: Mapping[str, str]
    settings: Mapping[str, str]
    runtime: Mapping[str, str]


async def observe(
    pipeline: Pipeline, question: Question, *, with_prompt: bool = True
) -> tuple[Observation, Circumstances | None]:
    """One question through the pipeline, up to the prompt or to the reranked candidates; no generator is used.

    A question that fails is an observation of its failure, without circumstances.
    """
    recorder = SpanRecorder()
    try:
        retrieval = await pipeline.retrieve(question, recorder)
        prompt = await pipeline.prompt(question, retrieval, recorder) if with_prompt else None
    except RagError as error:
        return Observation(VersionId(""), failure=f"{type(error).__name__}: {error}"), None
    trace = pipeline.search_trace(new_trace_id(), question, retrieval, recorder)
    return observation_of(trace, prompt), circumstances_of(trace)


def observation_of(trace: Trace, prompt: Prompt | None = None) -> Observation:
    """What a trace recorded, and the prompt where there is one."""
    rankings: dict[Stage, Scores] = {
        "dense": trace.dense,
        "bm25": trace.bm25,
        "fused": trace.fused,
        "reranked": trace.reranked,
    }
    partial = tuple(dict.fromkeys((*trace.partial, *(prompt.partial if prompt else ()))))
    words = [message.content for message in prompt.messages] if prompt else []
    assembled = [span.counts.get("passages", 0) for span in trace.spans if span.name == "assemble"]
    return Observation(
        version=trace.versions.index,
        rankings=rankings,
        shown=None if prompt is None else _shown(prompt),
        num_assembled=sum(assembled),
        partial=partial,
        spans=trace.spans,
        digest=digest(json.dumps([list(rankings.values()), words]), size_bytes=8),
    )


def circumstances_of(trace: Trace) -> Circumstances:
    """What the trace's outcome depends on."""
    versions = trace.versions
    return Circumstances(
        {
            "index": versions.index,
            "fingerprint": versions.config,
            "encoder": versions.encoder,
            "reranker": versions.reranker,
            "prompt": versions.prompt,
        },
        trace.settings,
        trace.runtime,
    )


def _shown(prompt: Prompt) -> tuple[ShownPassage, ...]:
    """What the messages show under the number of a passage; a number that names no passage shows nothing of it."""
    by_number = {passage.number: passage.chunk.id for passage in prompt.passages}
    return tuple(
        ShownPassage(by_number.get(number, ChunkId("")), text)
        for number, text in sorted(passage_texts(prompt.messages).items())
    )
