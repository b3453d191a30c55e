"""One question from its text to a cited answer: the orchestration, and nothing else.

The same code runs in one process (`rag.local`) and in the cluster's gateway: only the `Stages` differ, so both give the
same answers by construction.
"""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from rag.assemble.assemble import assemble, reach_of
from rag.config import RagConfig
from rag.data import (
    NO_SPAN,
    AbstainReason,
    Answer,
    Candidate,
    Chunk,
    Citation,
    EncodedQuery,
    Passage,
    Principal,
    Prompt,
    Query,
    Question,
    Reading,
    ReadSpan,
    SearchResult,
    ShardCandidates,
    Vector,
)
from rag.errors import DeadlineExceeded, RagError, ShardUnavailable
from rag.evaluate.entailment import build_word_entailment
from rag.generate.abstain import abstain_reason, abstention_text
from rag.generate.attribution import AnswerStream
from rag.generate.citations import cite
from rag.generate.evidence import open_calibration
from rag.generate.extractive import quote_passages
from rag.generate.lead import QuotableSentence, quotable_sentences, readings_of, with_lead
from rag.generate.prompt import PROMPT_VERSION, build_prompt
from rag.guard.access import may_read
from rag.guard.input import check_question, direct_injection
from rag.guard.output import check_answer
from rag.ids import ChunkId, TraceId, VersionId
from rag.protocols import Generator, Rewriter
from rag.provenance import runtime, shaping_settings
from rag.rerank.combine import combined_scores, rank_candidates
from rag.rerank.identifiers import identifier_shares
from rag.search.merge import combine, to_rerank
from rag.trace import Scores, SpanRecorder, Trace, TraceKind, TraceVersions, identity_of

logger = logging.getLogger(__name__)

_READ_AHEAD = 2.0  # times a shard's share of the candidates: as many chunks come with what it finds

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timed(Generic[T]):
    """A stage's result with the milliseconds that computing it took, without queue and transport."""

    value: T
    compute_ms: float


class AsyncShard(Protocol):
    """A shard that may be far away; raises ShardUnavailable when it does not answer within its deadline."""

    async def search(self, query: EncodedQuery, k_dense: int, k_bm25: int, k_read: int) -> ShardCandidates: ...

    async def fetch(
        self, query: EncodedQuery, chunk_ids: Sequence[ChunkId], neighbours: int = 0
    ) -> Timed[list[Chunk]]: ...


class Stages(Protocol):
    """What the orchestration calls. Every method ends within its deadline, or raises DeadlineExceeded."""

    @property
    def shards(self) -> Sequence[AsyncShard]: ...

    @property
    def rewriter(self) -> Rewriter: ...

    @property
    def generator(self) -> Generator: ...

    async def encode(self, text: str) -> Timed[Vector]: ...

    async def rerank(self, query: str, passages: Sequence[str]) -> Timed[list[float]]: ...

    async def read(self, query: str, passages: Sequence[Reading]) -> Timed[list[list[ReadSpan]]]: ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]: ...

    def current_version(self) -> VersionId: ...


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A chunk in its final place, with the scores that put it there."""

    chunk: Chunk
    score: float
    dense: float
    bm25: float


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Everything the first half of the pipeline found out about one question."""

    query: Query
    encoded: EncodedQuery
    result: SearchResult
    reranked: tuple[Candidate, ...]
    ranked: tuple[RankedChunk, ...]  # best first, at most k_rerank
    shard_of: dict[ChunkId, int]
    partial: tuple[str, ...]
    logits: dict[ChunkId, float] | None = None  # the reranker's own scores, None where it was late


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A prompt after its passages were read: what could be quoted, and the best span of each sentence."""

    prompt: Prompt
    sentences: Sequence[QuotableSentence]
    spans: Sequence[ReadSpan] | None = None  # None: nobody read

    @property
    def answer_score(self) -> float | None:
        """That of the likeliest answer; None where nobody read."""
        return None if self.spans is None else max((span.score for span in self.spans), default=NO_SPAN)


@dataclass(frozen=True, slots=True)
class RetrievalEvent:
    """The passages are chosen; the answer follows."""

    trace_id: TraceId
    version: VersionId
    passages: tuple[Passage, ...]
    partial: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class CitationEvent:
    """The first use of a citation, sent before the text that carries its number."""

    citation: Citation


@dataclass(frozen=True, slots=True)
class DoneEvent:
    """The whole answer, after its checks, and the trace of how it came about."""

    answer: Answer
    trace: Trace


Event = RetrievalEvent | TokenEvent | CitationEvent | DoneEvent


class Pipeline:
    """Answers questions with the given stages."""

    def __init__(self, config: RagConfig, stages: Stages) -> None:
        self._config = config
        self._stages = stages
        self._calibration = open_calibration(config)
        self._support = build_word_entailment()
        self._settings, self._runtime = shaping_settings(config), runtime(config)
        self._fingerprint = config.index_fingerprint()

    async def retrieve(self, question: Question, recorder: SpanRecorder, query: Query | None = None) -> Retrieval:
        """Rewrite, encode, search every shard, fuse, read and rerank. Late shards are named in `partial`.

        A `query` that is given replaces the rewriting: a replay has it from the trace.
        """
        with recorder.span("guard"):
            question = replace(question, text=check_question(question.text, self._config.limits))
        version = self._stages.current_version()  # pinned here, used to the end
        with recorder.span("rewrite"):
            query = query or await self._rewrite(question)
        with recorder.span("embed") as span:
            vector = await self._stages.encode(query.text)
            span.compute_ms = vector.compute_ms
        encoded = EncodedQuery(query.text, vector.value, question.principal, version)
        found, result = await self._search(encoded, recorder)
        shard_of = {chunk_id: part.shard for part in found for chunk_id in part.scores}
        with recorder.span("fetch") as span:
            wanted = to_rerank(result, self._config.search.k_each_leg)
            chunks, span.compute_ms, late = await self._read(encoded, wanted, found, shard_of)
            span.counts["chunks"] = len(chunks)
        reranked, logits, rerank_missing = await self._rerank(query, result, chunks, recorder)
        missing = sorted({*result.missing_shards, *late})
        return Retrieval(
            query,
            encoded,
            result,
            reranked,
            _ranked(reranked, chunks, result),
            shard_of,
            (*(f"shard {shard}" for shard in missing), *rerank_missing),
            logits,
        )

    async def _rewrite(self, question: Question) -> Query:
        rewriter = self._stages.rewriter
        try:
            async with asyncio.timeout(self._config.limits.rewrite_s):
                return await rewriter.rewrite(question)
        except TimeoutError:
            return rewriter.rewrite_without_model(question)

    async def _search(
        self, encoded: EncodedQuery, recorder: SpanRecorder
    ) -> tuple[list[ShardCandidates], SearchResult]:
        """All shards at once; one that does not answer is left out and named."""
        config, shards = self._config.search, self._stages.shards
        k_rerank = self._config.rerank.k_rerank
        k_read = min(k_rerank, math.ceil(_READ_AHEAD * k_rerank / len(shards)))
        with recorder.span("search") as span:
            answers = await asyncio.gather(
                *(shard.search(encoded, config.k_dense, config.k_bm25, k_read) for shard in shards),
                return_exceptions=True,
            )
            started = time.perf_counter()
            found, missing = _split_answers(answers)
            result = combine(found, missing, config, k_rerank)
            span.compute_ms = result.compute_ms + ms_since(started)
            span.counts.update(dense=len(result.dense), bm25=len(result.bm25), fused=len(result.fused))
            span.counts.update(Counter(f"shards searched by {part.strategy}" for part in found))
        return found, result

    async def _read(
        self,
        encoded: EncodedQuery,
        chunk_ids: Sequence[ChunkId],
        found: Sequence[ShardCandidates],
        shard_of: dict[ChunkId, int],
    ) -> tuple[list[Chunk], float, list[int]]:
        """The chunks in the order of the ids: those that came with the candidates, the others fetched. As `_fetch`."""
        came = {chunk.id: chunk for part in found for chunk in part.chunks}
        others = [chunk_id for chunk_id in chunk_ids if chunk_id not in came]
        fetched, compute_ms, late = await self._fetch(encoded, others, shard_of) if others else ([], 0.0, [])
        by_id = {chunk.id: chunk for chunk in (*_readable(came.values(), encoded.principal), *fetched)}
        return [by_id[chunk_id] for chunk_id in chunk_ids if chunk_id in by_id], compute_ms, late

    async def _fetch(
        self, encoded: EncodedQuery, chunk_ids: Sequence[ChunkId], shard_of: dict[ChunkId, int], neighbours: int = 0
    ) -> tuple[list[Chunk], float, list[int]]:
        """The chunks, the compute of the slowest shard, and the shards that did not answer."""
        by_shard: dict[int, list[ChunkId]] = {}
        for chunk_id in chunk_ids:
            by_shard.setdefault(shard_of[chunk_id], []).append(chunk_id)
        wanted = sorted(by_shard.items())
        answers = await asyncio.gather(
            *(self._stages.shards[shard].fetch(encoded, ids, neighbours) for shard, ids in wanted),
            return_exceptions=True,
        )
        found, missing = _split_answers(answers, [shard for shard, _ in wanted])
        chunks = _readable([chunk for timed in found for chunk in timed.value], encoded.principal)
        return chunks, max((timed.compute_ms for timed in found), default=0.0), list(missing)

    async def _rerank(
        self, query: Query, result: SearchResult, chunks: Sequence[Chunk], recorder: SpanRecorder
    ) -> tuple[tuple[Candidate, ...], dict[ChunkId, float] | None, tuple[str, ...]]:
        """The chunks in final order, the reranker's own scores, and what is missing, in words.

        When the reranker is late, the first stage ranks alone, and there are no scores of its own.
        """
        logits: list[float] | None = None
        missing: tuple[str, ...] = ()
        texts = [chunk.embedded_text for chunk in chunks]
        with recorder.span("rerank") as span:
            span.counts["pairs"] = len(chunks)
            compute_ms = 0.0
            try:
                timed = await self._stages.rerank(query.text, texts)
                logits, compute_ms = timed.value, timed.compute_ms
            except DeadlineExceeded:
                missing = ("rerank",)
            started = time.perf_counter()
            first = [result.scores[chunk.id] for chunk in chunks]
            named = identifier_shares(query.text, texts)
            scores = combined_scores(first, logits, self._config.rerank, named)
            ids = [chunk.id for chunk in chunks]
            ranked = rank_candidates(ids, scores)
            span.compute_ms = compute_ms + ms_since(started)
        return tuple(ranked), None if logits is None else dict(zip(ids, logits, strict=True)), missing

    async def prompt(self, question: Question, retrieval: Retrieval, recorder: SpanRecorder) -> Prompt:
        """The passages that fit the budget, with their neighbours, inside the messages for the generator."""
        config = self._config.assemble
        best = retrieval.ranked[: self._config.rerank.k_passages * 2]  # duplicates make room for the next ones
        with recorder.span("assemble") as span:
            neighbourhood, fetch_ms, late = await self._fetch(
                retrieval.encoded,
                [ranked.chunk.id for ranked in best],
                retrieval.shard_of,
                max((reach_of(ranked.chunk, config) for ranked in best), default=0),
            )
            started = time.perf_counter()
            assembly = assemble(
                [(ranked.chunk, ranked.score) for ranked in best],
                neighbourhood,
                self._stages.count_tokens,
                config,
                self._config.rerank.k_passages,
            )
            span.compute_ms = fetch_ms + ms_since(started)
            span.counts["passages"] = len(assembly.passages)
        turns = self._config.rewrite.max_history_turns
        recent = replace(question, history=question.history[-turns:] if turns else ())
        with recorder.span("prompt"):
            prompt = build_prompt(retrieval.query, recent, assembly.passages, assembly.num_dropped)
        return replace(prompt, partial=tuple(f"shard {shard}" for shard in sorted(late)))

    async def read(self, prompt: Prompt, query: Query, recorder: SpanRecorder) -> ReadPrompt:
        """What could be quoted of the prompt's passages, and what the reader finds there; nothing where none is
        configured, or where it is late, and then `partial` says "read"."""
        found = quotable_sentences(prompt.passages)
        if not self._config.generate.reader or not found:
            return ReadPrompt(prompt, found, [] if self._config.generate.reader else None)
        with recorder.span("read") as span:
            readings = readings_of(found)
            span.counts["passages"] = len(readings)
            try:
                timed = await self._stages.read(query.text, readings)
            except DeadlineExceeded:
                return ReadPrompt(replace(prompt, partial=(*prompt.partial, "read")), found)
            span.compute_ms = timed.compute_ms
            return ReadPrompt(prompt, found, [span for of_passage in timed.value for span in of_passage])

    async def with_lead(self, read: ReadPrompt, query: Query, recorder: SpanRecorder) -> Prompt:
        """The prompt with its answer begun by the sentences that answer best, where the model is to go on behind them;
        `partial` says "lead" where the reranker was late."""
        config, prompt = self._config, read.prompt
        if not config.generate.lead_quotes or config.generate.generator != "language_model":
            return prompt
        with recorder.span("lead") as span:
            span.counts["pairs"] = len(read.sentences)
            try:
                timed = await self._stages.rerank(query.text, [sentence.shown for sentence in read.sentences])
            except DeadlineExceeded:
                return replace(prompt, partial=(*prompt.partial, "lead"))
            span.compute_ms = timed.compute_ms
            weight, most = config.rerank.identifier_weight, config.generate.lead_quotes
            return with_lead(prompt, query.text, read.sentences, timed.value, weight, most, read.spans)

    async def answer(
        self, question: Question, trace_id: TraceId, recorder: SpanRecorder | None = None
    ) -> AsyncGenerator[Event]:
        """The answer as it comes about. Closing the iterator stops the generator and frees its slot."""
        recorder = recorder or SpanRecorder()
        retrieval = await self.retrieve(question, recorder)
        prompt = await self.prompt(question, retrieval, recorder)
        passages = prompt.passages
        partial = tuple(dict.fromkeys((*retrieval.partial, *prompt.partial)))
        yield RetrievalEvent(trace_id, retrieval.encoded.version, passages, partial)

        reason, prompt = await self.decide(question, retrieval, prompt, recorder)
        retrieval = replace(retrieval, partial=tuple(dict.fromkeys((*partial, *prompt.partial))))
        said = written = self._answer_stream(passages, retrieval.query.text, self._config.generate.min_support)
        if not reason:
            async with aclosing(self._generate(prompt, written, recorder)) as events:
                async for event in events:
                    yield event
            if written.refused:
                reason = "refused_by_model"
            elif not written.text:
                if self._config.generate.nothing_supported == "quote":
                    said = self._answer_stream(passages, retrieval.query.text, min_support=0.0)  # the passages' words
                    for part in (*said.feed("".join(quote_passages(prompt))), *said.close()):
                        yield _event(part)
                reason = "" if said.text else "unsupported"
        if reason and not written.text:
            yield TokenEvent(abstention_text(reason))
        with recorder.span("check"):
            answer = check_answer(self._answer(retrieval, prompt, written, said, reason), passages, question.principal)
        yield DoneEvent(answer, self._trace(trace_id, question, retrieval, prompt, answer, recorder))

    async def decide(
        self, question: Question, retrieval: Retrieval, prompt: Prompt, recorder: SpanRecorder
    ) -> tuple[AbstainReason, Prompt]:
        """Why the model is not asked, "" where it is; then the prompt has its lead."""
        if direct_injection(question.text):
            return "disallowed", prompt
        read = await self.read(prompt, retrieval.query, recorder)
        reason = self.reason_to_abstain(retrieval, read)
        return reason, read.prompt if reason else await self.with_lead(read, retrieval.query, recorder)

    def reason_to_abstain(self, retrieval: Retrieval, read: ReadPrompt) -> AbstainReason:
        """Why the passages, chosen for the question, are not put to the model; "" where they are."""
        return abstain_reason(
            retrieval.query.text,
            read.prompt.passages,
            retrieval.result.scores,
            self._config.generate,
            self._calibration,
            retrieval.logits,
            read.answer_score,
        )

    def _answer_stream(self, passages: Sequence[Passage], question: str, min_support: float) -> AnswerStream:
        config = self._config.generate
        return AnswerStream(
            passages,
            config.min_attribution,
            config.unsupported == "keep",
            config.min_quote_similarity,
            question,
            self._support,
            min_support,
        )

    def _answer(
        self, retrieval: Retrieval, prompt: Prompt, written: AnswerStream, said: AnswerStream, reason: AbstainReason
    ) -> Answer:
        """What was said, by the model (`written`) or in its place, or why nothing was: then the closest sources.

        A model may refuse behind quotes: they keep their citations.
        """
        spoken = not reason or written.refused
        return Answer(
            text=said.text if spoken else abstention_text(reason),
            citations=said.citations if spoken else (),
            abstained=reason,
            closest=tuple(cite(p) for p in prompt.passages) if reason and reason != "disallowed" else (),
            partial=retrieval.partial,
            version=retrieval.encoded.version,
            grounding="none" if reason else "generated" if said is written else "quoted",
            num_citations_removed=written.num_removed,
            num_sentences_dropped=written.num_unsupported,
            num_prompt_tokens=sum(self._stages.count_tokens([message.content for message in prompt.messages])),
            num_output_tokens=sum(self._stages.count_tokens([written.text] if written.text else [])),
            sentences=said.sentences if spoken else (),
        )

    async def _generate(
        self, prompt: Prompt, stream: AnswerStream, recorder: SpanRecorder
    ) -> AsyncGenerator[TokenEvent | CitationEvent]:
        """Text with its citations, checked sentence by sentence while the model writes."""
        limits = self._config.limits
        for part in stream.feed(f"{prompt.lead} " if prompt.lead else ""):
            yield _event(part)
        pieces = self._stages.generator.generate(prompt)
        with recorder.span("first_token"):
            first = await _next_within(pieces, limits.first_token_s, "first_token")
        try:
            with recorder.span("generate") as span:
                piece, written = first, ""
                deadline = asyncio.get_running_loop().time() + limits.answer_s
                while piece is not None and not (stream.looping or stream.lost):
                    written += piece
                    for part in stream.feed(piece):
                        yield _event(part)
                    left_s = deadline - asyncio.get_running_loop().time()
                    piece = await _next_within(pieces, left_s, "generate")
                span.counts["tokens"] = sum(self._stages.count_tokens([written])) if written else 0
            for part in stream.close():
                yield _event(part)
        finally:
            await _close(pieces)

    def search_trace(
        self, trace_id: TraceId, question: Question, retrieval: Retrieval, recorder: SpanRecorder
    ) -> Trace:
        """What a search leaves behind: everything up to the reranked candidates."""
        result = retrieval.result
        return replace(
            self._asked(trace_id, question, retrieval.encoded.version, recorder),
            query=retrieval.query.text,
            rewrites=retrieval.query.rewrites,
            dense=_scores(result.dense),
            bm25=_scores(result.bm25),
            fused=_scores(result.fused),
            reranked=_scores(retrieval.reranked),
            partial=retrieval.partial,
            kind="search",
        )

    def failed_trace(
        self, trace_id: TraceId, question: Question, error: RagError, recorder: SpanRecorder, kind: TraceKind
    ) -> Trace:
        """What a question leaves behind that an error ended: what was asked, how far it came, and why no further."""
        asked = self._asked(trace_id, question, self._stages.current_version(), recorder)
        return replace(asked, kind=kind, error=f"{type(error).__name__}: {error}")

    def _asked(self, trace_id: TraceId, question: Question, version: VersionId, recorder: SpanRecorder) -> Trace:
        """The part of a trace that is known of every question."""
        config, principal = self._config, question.principal
        return Trace(
            id=trace_id,
            created_at=datetime.now(UTC),
            asker=identity_of(principal),
            tenant=principal.tenant,
            groups=tuple(sorted(principal.groups)),
            question=question.text,
            query=question.text,
            versions=TraceVersions(
                index=version,
                encoder=config.embed.model,
                reranker=config.rerank.model,
                generator=config.generate.model,
                prompt=PROMPT_VERSION,
                config=self._fingerprint,
            ),
            history=question.history,
            spans=recorder.spans,
            settings=self._settings,
            runtime=self._runtime,
        )

    def _trace(
        self,
        trace_id: TraceId,
        question: Question,
        retrieval: Retrieval,
        prompt: Prompt,
        answer: Answer,
        recorder: SpanRecorder,
    ) -> Trace:
        return replace(
            self.search_trace(trace_id, question, retrieval, recorder),
            kind="answer",
            passages=tuple(passage.chunk.id for passage in prompt.passages),
            messages=prompt.messages,
            answer=answer.text,
            citations=tuple(citation.chunk_id for citation in answer.citations),
            abstained=answer.abstained,
            partial=answer.partial,
            num_prompt_tokens=answer.num_prompt_tokens,
            num_output_tokens=answer.num_output_tokens,
        )


def _scores(candidates: Sequence[Candidate]) -> Scores:
    return tuple((candidate.chunk_id, candidate.score) for candidate in candidates)


def _ranked(reranked: Sequence[Candidate], chunks: Sequence[Chunk], result: SearchResult) -> tuple[RankedChunk, ...]:
    by_id = {chunk.id: chunk for chunk in chunks}
    return tuple(
        RankedChunk(
            by_id[candidate.chunk_id],
            candidate.score,
            result.scores[candidate.chunk_id].dense,
            result.scores[candidate.chunk_id].bm25,
        )
        for candidate in reranked
    )


def _readable(chunks: Collection[Chunk], principal: Principal) -> list[Chunk]:
    """The shards have filtered already; but what is streamed can't be taken back, so it is checked here as well."""
    readable = [chunk for chunk in chunks if may_read(chunk.metadata.access, principal)]
    if len(readable) < len(chunks):
        logger.error("%d chunks that the asker may not read came out of a shard", len(chunks) - len(readable))
    return readable


def _split_answers(
    answers: Sequence[T | BaseException], shards: Sequence[int] | None = None
) -> tuple[list[T], list[int]]:
    """What came back, and the shards that did not answer; any other failure is raised."""
    found: list[T] = []
    missing: list[int] = []
    for position, answer in enumerate(answers):
        if isinstance(answer, ShardUnavailable):
            missing.append(position if shards is None else shards[position])
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found.append(answer)
    return found, missing


def ms_since(started: float) -> float:
    """Milliseconds since a moment of `time.perf_counter`."""
    return (time.perf_counter() - started) * 1e3


def _event(part: str | Citation) -> TokenEvent | CitationEvent:
    return TokenEvent(part) if isinstance(part, str) else CitationEvent(part)


async def _next_within(pieces: AsyncIterator[str], seconds: float, stage: str) -> str | None:
    """The next piece, None at the end; closes the generator and raises DeadlineExceeded when it is late."""
    try:
        async with asyncio.timeout(seconds):
            return await anext(pieces, None)
    except TimeoutError as error:
        await _close(pieces)
        raise DeadlineExceeded(stage, seconds) from error


async def _close(pieces: AsyncIterator[str]) -> None:
    close: Callable[[], Awaitable[None]] | None = getattr(pieces, "aclose", None)
    if close is not None:
        await close()
