"""Searching a whole corpus for questions that were made of it: both legs, fused as the service fuses them."""

from collections.abc import Mapping, Sequence

import numpy as np

from rag.config import IndexConfig, RagConfig, SearchConfig
from rag.data import Candidate, Chunk, EncodedQuery, Principal, Vectors
from rag.ids import ChunkId, VersionId
from rag.index.analysis import Analyzer
from rag.index.lexical import BM25, count_terms
from rag.protocols import Shard
from rag.search.fuse import reciprocal_rank_fusion
from rag.search.merge import combine


class ShardSearch:
    """Implements `ChunkSearch` over the shards of a version.

    A tenant is searched as somebody in all of its groups: a question has to find its chunk among everything that
    anybody may read. What comes back are ids alone, and they leave nowhere.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        version: VersionId,
        tenant_groups: Mapping[str, frozenset[str]],
        config: RagConfig,
    ) -> None:
        self._shards, self._version, self._tenant_groups = shards, version, tenant_groups
        self._config = config.search

    def find(self, questions: Sequence[str], vectors: Vectors, tenant: str, k: int) -> list[list[ChunkId]]:
        """For each question, with its vector, the best k chunks of the tenant, best first."""
        everyone = Principal("synthesize", tenant, self._tenant_groups.get(tenant, frozenset()))
        found: list[list[ChunkId]] = []
        for question, vector in zip(questions, vectors, strict=True):
            query = EncodedQuery(question, vector, everyone, self._version)
            parts = [shard.search(query, self._config.k_dense, self._config.k_bm25) for shard in self._shards]
            found.append([candidate.chunk_id for candidate in combine(parts, (), self._config, k).fused])
        return found


class CorpusSearch:
    """Implements `ChunkSearch` over chunks in memory, all of one tenant, with vectors[i] for chunks[i]."""

    def __init__(self, chunks: Sequence[Chunk], vectors: Vectors, index: IndexConfig, search: SearchConfig) -> None:
        order = sorted(range(len(chunks)), key=lambda place: chunks[place].id)  # ties go to the smaller id
        self._ids = [chunks[place].id for place in order]
        self._vectors, self._config = vectors[order], search
        self._analyzer = Analyzer(index.lexical)
        frequencies = count_terms(self._analyzer.terms(chunks[place].embedded_text) for place in order)
        self._bm25 = BM25(frequencies, frequencies.statistics(np.ones(len(chunks), np.bool_)), index.lexical)

    def find(self, questions: Sequence[str], vectors: Vectors, tenant: str, k: int) -> list[list[ChunkId]]:
        """For each question, with its vector, the best k chunks, best first; the tenant is not looked at."""
        found: list[list[ChunkId]] = []
        for question, vector in zip(questions, vectors, strict=True):
            dense = self._best(self._vectors @ vector, self._config.k_dense, "dense")
            bm25 = self._best(self._bm25.scores(self._analyzer.terms(question)), self._config.k_bm25, "bm25")
            fused = reciprocal_rank_fusion([dense, bm25], k, self._config.rank_constant)
            found.append([candidate.chunk_id for candidate in fused])
        return found

    def _best(self, scores: Vectors, k: int, source: str) -> list[Candidate]:
        rows = np.lexsort((np.arange(len(scores)), -scores))[:k]
        matching = rows if source == "dense" else rows[scores[rows] > 0.0]
        return [
            Candidate(self._ids[row], float(scores[row]), "dense" if source == "dense" else "bm25")
            for row in matching.tolist()
        ]
