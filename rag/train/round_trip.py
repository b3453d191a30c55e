"""Searching a whole corpus for questions that were made of it: both legs, fused as the service fuses them."""

from collections.abc import Mapping, Sequence

import numpy as np

from rag.config import IndexConfig, RagConfig, SearchConfig
from rag.data import Candidate, Chunk, EncodedQuery, Principal, Vectors
from rag.ids import ChunkId, VersionId
from rag.index.analysis import Analyzer
from rag.index.lexical import build_bm25
from rag.index.selection import best_rows
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
        self._bm25 = build_bm25((self._analyzer.terms(chunks[place].embedded_text) for place in order), index.lexical)

    def find(self, questions: Sequence[str], vectors: Vectors, tenant: str, k: int) -> list[list[ChunkId]]:
        """For each question, with its vector, the best k chunks, best first; the tenant is not looked at."""
        found: list[list[ChunkId]] = []
        for question, vector in zip(questions, vectors, strict=True):
            scores = self._bm25.scores(self._analyzer.terms(question))
            matching = np.flatnonzero(scores > 0.0)
            legs = [
                best_rows(np.arange(len(self._ids)), self._vectors @ vector, self._config.k_dense),
                best_rows(matching, scores[matching], self._config.k_bm25),
            ]
            # Fusion reads ranks alone, whatever a candidate says of its score and source.
            rankings = [[Candidate(self._ids[row], 0.0, "rrf") for row in rows.tolist()] for rows, _ in legs]
            fused = reciprocal_rank_fusion(rankings, k, self._config.rank_constant)
            found.append([candidate.chunk_id for candidate in fused])
        return found
