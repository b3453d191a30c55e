"""Two versions of the same chunks by different encoders, held against each other before the new one goes live."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rag.config import RagConfig
from rag.data import EncodedQuery, Principal, Question
from rag.errors import InputError
from rag.evaluate.gate import GateVerdict, gate
from rag.evaluate.metrics import mean
from rag.evaluate.run import EvaluationRun, evaluate
from rag.evaluate.sampling import sample
from rag.evaluate.tasks import Task
from rag.ids import ChunkId, VersionId
from rag.index.manifest import with_encoder_of
from rag.index.segment import open_chunks
from rag.index.shard import LocalShard
from rag.index.store import IndexStore, open_store
from rag.local import open_shards, retrieval_pipeline
from rag.parts import build_embedder
from rag.protocols import Embedder
from rag.rerank.overlap import OverlapReranker
from rag.search.merge import merge_top_k
from rag.tables import table_to_chunks

K = 10
_PROBES = 50


@dataclass(frozen=True, slots=True)
class EncoderComparison:
    """What changes for searchers, and why the new version may not go live."""

    recall_before: float | None  # of the ANN structures against exact search; None: the search is exact
    recall_after: float | None
    overlap: float  # share of the ten best of the dense leg that both find, mean over the questions
    num_questions: int
    before: EvaluationRun | None = None  # on the golden set, where one is configured
    after: EvaluationRun | None = None
    verdict: GateVerdict | None = None
    reasons: tuple[str, ...] = ()  # empty: it may go live


async def compare_encoders(
    config: RagConfig, before: VersionId, after: VersionId, tasks: Sequence[Task]
) -> EncoderComparison:
    """The version `after` against `before`, each asked by its own encoder: all tasks whose documents are held, at most
    `smoke.max_questions`; without tasks, titles and headings of stored chunks.

    Reasons against: fused candidates fell beyond their noise, an invariant broke, or recall@k of the fused candidates
    is below `smoke.min_recall`.
    """
    store = open_store(config)
    old, new = (_Side.open(config, store, version) for version in (before, after))
    held = set(store.registry_table(store.manifest(after)).column("uri").to_pylist())
    asked = sample([task for task in tasks if held.issuperset(task.gold.documents)], config.smoke.max_questions)
    questions = [task.question for task in asked] or _probes(store, after)
    overlap = mean(_overlap(old.dense(question), new.dense(question)) for question in questions) if questions else 1.0
    recalls = store.manifest(before).recall, store.manifest(after).recall
    found = EncoderComparison(*recalls, overlap, len(questions))
    if not asked:
        return found
    was, now = await old.evaluate(asked), await new.evaluate(asked)
    verdict = gate(was, now)
    return replace(found, before=was, after=now, verdict=verdict, reasons=_reasons(now, verdict, config))


@dataclass(frozen=True, slots=True)
class _Side:
    """A version with the encoder that it was made by."""

    config: RagConfig
    version: VersionId
    embedder: Embedder
    shards: Sequence[LocalShard]

    @classmethod
    def open(cls, config: RagConfig, store: IndexStore, version: VersionId) -> "_Side":
        own = with_encoder_of(config, store.manifest(version))
        return cls(own, version, build_embedder(own), open_shards(own, version))

    def dense(self, question: Question) -> list[ChunkId]:
        """The ten best of the dense leg."""
        vector = self.embedder.embed_queries([question.text])[0]
        query = EncodedQuery(question.text, vector, question.principal, self.version)
        found = merge_top_k([shard.search(query, K, 1).dense for shard in self.shards], K)
        return [candidate.chunk_id for candidate in found]

    async def evaluate(self, tasks: Sequence[Task]) -> EvaluationRun:
        # The fused ranking is what is judged; the reranker behind it only has to be there.
        rerank = self.config.rerank.model_copy(update={"k_rerank": self.config.smoke.k})
        narrow = self.config.model_copy(update={"rerank": rerank})
        pipeline = retrieval_pipeline(narrow, self.embedder, OverlapReranker(), self.version)
        return await evaluate(pipeline, tasks, narrow, "golden", version=self.version, with_prompt=False)


def _overlap(one: Sequence[ChunkId], other: Sequence[ChunkId]) -> float:
    return len({*one} & {*other}) / max(len(one), len(other), 1)


def _probes(store: IndexStore, version: VersionId) -> list[Question]:
    """Titles and headings of chunks that lie evenly over the version, asked by who may read them."""
    questions: list[Question] = []
    entries = [entry for shard in store.manifest(version).shards for entry in shard.segments]
    for entry in entries:
        table = open_chunks(store.segment(entry.info))
        rows = np.unique(np.linspace(0, len(table) - 1, max(1, _PROBES // len(entries))).astype(int))
        for chunk in table_to_chunks(table.take(rows)):
            access = chunk.metadata.access
            words = " ".join((chunk.metadata.title, *chunk.headings)).strip() or chunk.text[:80]
            questions.append(Question(words, Principal("", access.tenant, frozenset(access.groups))))
    return questions


def _reasons(run: EvaluationRun, verdict: GateVerdict, config: RagConfig) -> tuple[str, ...]:
    reasons = [
        f"{fall.metric} of the {fall.stage} candidates fell from {fall.before:.3f} to {fall.after:.3f} (p {fall.p:.3f})"
        for fall in verdict.falls
        if fall.stage == "fused"
    ]
    reasons += [f"{broken.name}: {broken.before} before, {broken.after} after" for broken in verdict.broken]
    if "fused" not in run.scores:
        raise InputError("every question of the golden set failed")
    recall = mean(run.values("fused", "recall"))
    if recall < config.smoke.min_recall:
        reasons.append(f"recall@{config.smoke.k} is {recall:.3f}, below smoke.min_recall {config.smoke.min_recall:g}")
    return tuple(reasons)
