"""Where was a good answer lost? A trace, held against the words that would have answered its question.

Each stage is asked the same thing: did it let the gold words through? The first that did not is the cause.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, Protocol, get_args

from rag.assemble.dedupe import without_near_duplicates
from rag.assemble.stitch import stitch
from rag.config import RagConfig, RerankConfig
from rag.data import Candidate, Chunk, EncodedQuery, FirstStageScores, Principal, ShardCandidates
from rag.errors import InputError
from rag.evaluate.golden import GoldenQuestion, GoldenSpan, plain_text
from rag.generate.prompt import neutralise, passage_texts
from rag.guard.access import may_read
from rag.ids import ChunkId, shard_of
from rag.rerank.combine import combined_scores
from rag.rerank.identifiers import identifier_shares
from rag.search.merge import merge_top_k
from rag.trace import Scores, Trace, identity_of

Cause = Literal[
    "failed",
    "not_indexed",
    "not_permitted",
    "not_in_text",
    "cut_by_chunking",
    "shard_missing",
    "not_retrieved",
    "cut_at_fusion",
    "mis_ranked",
    "cut_from_prompt",
    "abstained",
    "ignored",
    "answered_without_evidence",
    "fine",
]
_IN_ORDER: tuple[Cause, ...] = get_args(Cause)  # of the stages: what was lost first comes first


@dataclass(frozen=True, slots=True)
class StageFinding:
    """What one stage did with the gold words: let them through, or not."""

    stage: str
    passed: bool | None  # None: it was not asked, or does not decide
    rank: int | None = None
    score: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SpanFinding:
    """Where one gold span was lost."""

    span: GoldenSpan
    cause: Cause
    sentence: str
    stages: tuple[StageFinding, ...]


@dataclass(frozen=True, slots=True)
class RootCause:
    """Where the answer was lost: of several gold spans, that of the one that was lost first."""

    cause: Cause
    sentence: str
    spans: tuple[SpanFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Standings:
    """Both legs' rankings of a query over everything that the asker may read, as deep as they were asked for."""

    dense: tuple[Candidate, ...]
    bm25: tuple[Candidate, ...]

    def first_stage(self) -> dict[ChunkId, FirstStageScores]:
        """Both scores of every chunk of the dense ranking; 0.0 BM25 where no term matches."""
        bm25 = {candidate.chunk_id: candidate.score for candidate in self.bm25}
        return {c.chunk_id: FirstStageScores(c.score, bm25.get(c.chunk_id, 0.0)) for c in self.dense}


@dataclass(frozen=True, slots=True)
class Corpus:
    """What the index says about the gold documents, and about the chunks that were reranked."""

    chunks: tuple[Chunk, ...]  # of the gold documents, whoever may read them
    reranked: Mapping[ChunkId, Chunk]
    num_shards: int
    problems: Mapping[str, str]  # uri -> why the document did not become part of the index, where that is known


class SearchableShard(Protocol):
    def search(self, query: EncodedQuery, k_dense: int, k_bm25: int) -> ShardCandidates: ...


def full_standings(shards: Sequence[SearchableShard], query: EncodedQuery, depth: int) -> Standings:
    """The exact rankings of the query over all shards, each leg at most `depth` deep."""
    found = [shard.search(query, depth, depth) for shard in shards]
    return Standings(merge_top_k([one.dense for one in found], depth), merge_top_k([one.bm25 for one in found], depth))


def recorded_config(trace: Trace, config: RagConfig) -> RagConfig:
    """The configuration with the settings that the trace recorded in place of its own."""
    for name in ("search", "rerank", "assemble"):
        section = getattr(config, name)
        recorded = {key: trace.settings.get(f"{name}.{key}") for key in type(section).model_fields}
        changes = {key: json.loads(value) for key, value in recorded.items() if value is not None}
        merged = type(section).model_validate({**section.model_dump(), **changes})
        config = config.model_copy(update={name: merged})
    return config


def golden_question(
    questions: Sequence[GoldenQuestion], principals: Mapping[str, Principal], trace: Trace
) -> GoldenQuestion:
    """The golden question that the trace answers: the same words, history and, where several share them, asker.

    Raises InputError where there is none, or more than one.
    """
    asked = plain_text(trace.question)
    same = [question for question in questions if plain_text(question.text) == asked]
    same = [question for question in same if question.history == trace.history] or same
    mine = [q for q in same if q.asker in principals and identity_of(principals[q.asker]) == trace.asker]
    found = mine if len(same) > 1 and mine else same
    if len(found) != 1:
        names = f"{len(found)} golden questions ({', '.join(q.id for q in found)})" if found else "no golden question"
        raise InputError(f"{names} asks what trace {trace.id} asks: {trace.question!r}; name the words with --gold")
    return found[0]


def root_cause(
    trace: Trace,
    gold: Sequence[GoldenSpan],
    corpus: Corpus,
    standings: Standings,
    config: RagConfig,
    must_include: Sequence[str] = (),
    operator: bool = False,
) -> RootCause:
    """Where the words that answer the trace's question were lost, and with no such words, whether it abstained.

    A question that an error ended lost nothing at any stage: the error is the cause.

    A span without a document may stand in any; one without text is any chunk of its document. `config` is the one that
    the trace was made under. To anyone but an operator, what the asker may not read does not exist.
    """
    if trace.error:
        return RootCause("failed", f"the question ended before its end: {trace.error}")
    if not gold:
        if trace.abstained or trace.kind == "search":
            return RootCause("fine", "nothing answers the question for its asker, and nothing was answered")
        return RootCause("answered_without_evidence", "nothing answers the question for its asker, but quire answered")
    if not operator:
        asker = _asker(trace)
        readable = tuple(chunk for chunk in corpus.chunks if may_read(chunk.metadata.access, asker))
        corpus = Corpus(readable, corpus.reranked, corpus.num_shards, {})
    looked = [_Look(trace, span, corpus, standings, config, tuple(must_include), operator).finding() for span in gold]
    lost_first = min(looked, key=lambda finding: _IN_ORDER.index(finding.cause))
    return RootCause(lost_first.cause, lost_first.sentence, tuple(looked))


@dataclass(frozen=True, slots=True)
class _Look:
    """One gold span, followed through the stages."""

    trace: Trace
    span: GoldenSpan
    corpus: Corpus
    standings: Standings
    config: RagConfig
    must_include: tuple[str, ...]
    operator: bool

    def finding(self) -> SpanFinding:
        stages: list[StageFinding] = []
        cause, sentence = self._follow(stages)
        asked = {stage.stage for stage in stages}
        stages += [StageFinding(name, None) for name in _STAGES if name not in asked]
        return SpanFinding(self.span, cause, sentence, tuple(stages))

    def _follow(self, stages: list[StageFinding]) -> tuple[Cause, str]:
        """Asks one stage after the other until the words are lost; appends what each did."""
        asker = _asker(self.trace)
        document = [c for c in self.corpus.chunks if not self.span.document or c.metadata.uri == self.span.document]
        readable = [chunk for chunk in document if may_read(chunk.metadata.access, asker)]
        gold = [chunk for chunk in readable if _holds(chunk.text, self.span)]
        if not gold:
            return self._outside(stages, document, readable)
        ids = [chunk.id for chunk in gold]
        name, version = gold[0].metadata.uri, self.trace.versions.index
        stages.append(StageFinding("index", True, detail=f"{_count(len(gold), 'chunk')} of {name} in {version}"))
        stages.append(StageFinding("access", True))
        found = [self._leg("dense", ids, stages), self._leg("bm25", ids, stages)]
        fused = _place(self.trace.fused, ids)
        ranked = _place(self.trace.reranked, ids)
        if ranked is None and self._missing(gold):
            return "shard_missing", f"the shard that holds {name} did not answer in time"
        if not any(found):
            return "not_retrieved", f"neither leg proposed {name}: {self._would_be(ids)}"
        if ranked is None:
            leg, best, _ = min((leg for leg in found if leg), key=lambda leg: leg[1])
            detail = f"rank {best} of {leg}, but not among the {_count(len(self.trace.reranked), 'chunk')} reranked"
            stages.append(StageFinding("fused", False, detail=detail))
            return "cut_at_fusion", f"{name} was proposed and cut before the reranker: {detail}"
        how = "" if fused else f"outside the fused {len(self.trace.fused)}, as one of a leg's best"
        fused_rank, fused_score = fused or (None, None)
        stages.append(StageFinding("fused", True, fused_rank, fused_score, how))
        return self._after_reranking(stages, name, ids, *ranked)

    def _after_reranking(
        self, stages: list[StageFinding], name: str, ids: Sequence[ChunkId], rank: int, score: float
    ) -> tuple[Cause, str]:
        k_passages = self.config.rerank.k_passages
        numbers = self._shown(ids)
        terms = self._terms()
        chunk_id = self.trace.reranked[rank - 1][0]
        detail = terms.get(chunk_id, "")
        if rank > k_passages:
            last_id, last_score = self.trace.reranked[k_passages - 1]
            detail += f"{'; ' if detail else ''}rank {k_passages} scored {last_score:.3f}"
            detail += f" ({terms[last_id]})" if last_id in terms else ""
        stages.append(StageFinding("reranked", rank <= k_passages or bool(numbers), rank, score, detail))
        if self.trace.kind == "search":
            if rank <= k_passages:
                return "fine", f"{name} was found at rank {rank}"
            return "mis_ranked", f"{name} was ranked {rank}, behind the {k_passages} that a prompt would take"
        if not numbers and rank > k_passages:
            return "mis_ranked", f"{name} was reranked to {rank}, and the prompt takes {k_passages}"
        if not numbers:
            why = self._why_cut(ids, rank)
            stages.append(StageFinding("prompt", False, detail=why))
            return "cut_from_prompt", f"{name} was reranked to {rank} and did not come into the prompt: {why}"
        shown = ", ".join(f"[{number}]" for number in numbers)
        stages.append(StageFinding("prompt", True, numbers[0], detail=f"passage {shown}"))
        return self._answered(stages, name, numbers, shown)

    def _answered(self, stages: list[StageFinding], name: str, numbers: Sequence[int], shown: str) -> tuple[Cause, str]:
        if self.trace.abstained:
            stages.append(StageFinding("answer", False, detail=f"abstained: {self.trace.abstained}"))
            return "abstained", f"{name} was in the prompt as {shown}, but quire abstained ({self.trace.abstained})"
        cited = any(self.trace.passages[number - 1] in self.trace.citations for number in numbers)
        said = " ".join(self.trace.answer.split()).casefold()
        missing = [words for words in self.must_include if words.casefold() not in said]
        detail = "cited" if cited else "not cited"
        detail += f"; without {', '.join(map(repr, missing))}" if missing else ""
        good = not missing if self.must_include else cited
        stages.append(StageFinding("answer", good, detail=detail))
        if good:
            return "fine", f"{name} was in the prompt as {shown}, and the answer rests on it ({detail})"
        return "ignored", f"{name} was in the prompt as {shown}, but the answer ignores it: {detail}"

    def _outside(
        self, stages: list[StageFinding], document: Sequence[Chunk], readable: Sequence[Chunk]
    ) -> tuple[Cause, str]:
        """Why no chunk that the asker may read holds the words."""
        version = self.trace.versions.index
        name = self.span.document or "the words"
        if not self.operator and not readable:
            detail = f"{name}: nothing of it among what the asker may read in {version}"
            stages.append(StageFinding("index", False, detail=detail))
            return "not_indexed", detail
        held = [chunk for chunk in document if _holds(chunk.text, self.span)]
        if document and (held or not readable):
            owners = sorted({group for chunk in held or document for group in chunk.metadata.access.groups})
            groups = ", ".join(self.trace.groups) or "no group"
            detail = f"readers are {', '.join(owners) or 'nobody'}; the asker is in {groups}"
            stages.append(StageFinding("index", True, detail=f"{_count(len(held or document), 'chunk')} in {version}"))
            stages.append(StageFinding("access", False, detail=detail))
            name = (held or document)[0].metadata.uri
            return "not_permitted", f"{name} is there, but the asker may not read it: {detail}"
        if not document:
            why = self.corpus.problems.get(self.span.document, "no document of that name came out of the ingest")
            stages.append(StageFinding("index", False, detail=why))
            return "not_indexed", f"{name} is not in {version}: {why}"
        if any(_holds(text, self.span) for text in _whole_texts(readable)):
            detail = f"no chunk holds the words whole; {_count(len(readable), 'chunk')} in all"
            stages.append(StageFinding("index", False, detail=detail))
            return "cut_by_chunking", f"{name} holds the words, but chunking cut them apart"
        problem = self.corpus.problems.get(self.span.document, "")
        detail = f"not in the text of {_count(len(readable), 'chunk')}" + (f"; {problem}" if problem else "")
        stages.append(StageFinding("index", False, detail=detail))
        if not self.span.document:
            return "not_indexed", f"no document in {version} that was looked at holds the words"
        return "not_in_text", f"{name} is in {version}, but the words are not in its text"

    def _leg(
        self, leg: Literal["dense", "bm25"], ids: Sequence[ChunkId], stages: list[StageFinding]
    ) -> tuple[str, int, float] | None:
        """The leg with the best rank and score of the gold among its candidates; None where it is not among them."""
        candidates: Scores = getattr(self.trace, leg)
        if (found := _place(candidates, ids)) is not None:
            stages.append(StageFinding(leg, True, *found))
            return (leg, *found)
        standing = _standing(getattr(self.standings, leg), ids)
        kept = f"the leg proposed {len(candidates)}"
        if standing is None:
            stages.append(StageFinding(leg, False, detail=f"{_unranked(leg, self.standings)}; {kept}"))
        else:
            stages.append(StageFinding(leg, False, *standing, detail=f"by exact search; {kept}"))
        return None

    def _would_be(self, ids: Sequence[ChunkId]) -> str:
        """Where an exact search of everything readable puts the gold, leg by leg."""
        words = []
        for leg, ranking in (("dense", self.standings.dense), ("bm25", self.standings.bm25)):
            standing = _standing(ranking, ids)
            words.append(
                f"{leg} {_unranked(leg, self.standings)}"
                if standing is None
                else f"{leg} rank {standing[0]} of {len(ranking)} (score {standing[1]:.3f})"
            )
        return ", ".join(words)

    def _missing(self, gold: Sequence[Chunk]) -> bool:
        missing = {word for word in self.trace.partial if word.startswith("shard ")}
        return all(f"shard {shard_of(chunk.document_id, self.corpus.num_shards)}" in missing for chunk in gold)

    def _terms(self) -> dict[ChunkId, str]:
        """What each part of the ranking adds to the score of each reranked chunk, in words.

        What is left over is the reranker's part, whose logit is not in the trace, and that of the feedback. Empty where
        a first-stage score is not known.
        """
        chunks, first = self.corpus.reranked, self.standings.first_stage()
        ids = [chunk_id for chunk_id, _ in self.trace.reranked]
        if not all(chunk_id in first and chunk_id in chunks for chunk_id in ids):
            return {}
        scores = [first[chunk_id] for chunk_id in ids]
        shares = identifier_shares(self.trace.query, [chunks[chunk_id].embedded_text for chunk_id in ids])
        rerank = self.config.rerank
        dense = combined_scores(scores, None, _only(rerank, "dense_weight"))
        bm25 = combined_scores(scores, None, _only(rerank, "bm25_weight"))
        named = combined_scores(scores, None, _only(rerank, "identifier_weight"), shares)
        rows = zip(self.trace.reranked, dense, bm25, named, strict=True)
        return {
            chunk_id: f"dense {d:+.2f}, bm25 {b:+.2f}, identifiers {i:+.2f}, the rest {score - d - b - i:+.2f}"
            for (chunk_id, score), d, b, i in rows
        }

    def _shown(self, ids: Collection[ChunkId]) -> list[int]:
        """The numbers of the prompt's passages that show the gold: its words, of its document."""
        own = {chunk.id for chunk in self.corpus.chunks if chunk.metadata.uri == self.span.document}
        own = own if self.span.document else {chunk.id for chunk in self.corpus.chunks}
        texts = passage_texts(self.trace.messages)
        wanted = plain_text(neutralise(self.span.text))
        return [
            number
            for number, chunk_id in enumerate(self.trace.passages, start=1)
            if (chunk_id in own if wanted else chunk_id in ids)
            and (wanted in plain_text(texts[number]) if number in texts else chunk_id in ids)
        ]

    def _why_cut(self, ids: Collection[ChunkId], rank: int) -> str:
        """Why a chunk among the best did not come into the prompt."""
        if cut := [number for number, name in enumerate(self.trace.passages, start=1) if name in ids]:
            return f"passage [{cut[0]}] was cut before the words, to fit {self.config.assemble.budget_tokens} tokens"
        chunks = self.corpus.reranked
        best = self.trace.reranked[: self.config.rerank.k_passages * 2]
        ranked = [(chunks[chunk_id], score) for chunk_id, score in best if chunk_id in chunks]
        kept = without_near_duplicates(ranked, self.config.assemble.max_similarity)
        if self.trace.reranked[rank - 1][0] not in {chunk.id for chunk, _ in kept}:
            return "it repeats a chunk that was ranked better"
        return f"it did not fit the budget of {self.config.assemble.budget_tokens} tokens"


_STAGES = ("index", "access", "dense", "bm25", "fused", "reranked", "prompt", "answer")


def _asker(trace: Trace) -> Principal:
    return Principal("", trace.tenant, frozenset(trace.groups))


def _holds(text: str, span: GoldenSpan) -> bool:
    return plain_text(span.text) in plain_text(text)


def _whole_texts(chunks: Sequence[Chunk]) -> list[str]:
    """The text of each document, put together again from its chunks."""
    ordered = sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.start))
    return [stitch(list(members)) for _, members in groupby(ordered, key=lambda chunk: chunk.document_id)]


def _place(scores: Scores, ids: Collection[ChunkId]) -> tuple[int, float] | None:
    """Rank and score of the best of the chunks."""
    return next(((rank, score) for rank, (name, score) in enumerate(scores, start=1) if name in ids), None)


def _standing(ranking: Sequence[Candidate], ids: Collection[ChunkId]) -> tuple[int, float] | None:
    return _place(tuple((candidate.chunk_id, candidate.score) for candidate in ranking), ids)


def _unranked(leg: str, standings: Standings) -> str:
    if leg == "bm25" and len(standings.bm25) < len(standings.dense):
        return "holds no word of the query"
    return f"not among the first {len(getattr(standings, leg))}"


def _only(config: RerankConfig, weight: str) -> RerankConfig:
    """The configuration with this weight and no other."""
    weights = ("dense_weight", "bm25_weight", "model_weight", "feedback_weight", "identifier_weight")
    return config.model_copy(update={name: 0.0 for name in weights if name != weight})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
