"""Fusing rankings whose scores live on different scales."""

from collections import defaultdict
from collections.abc import Sequence

from rag.data import Candidate
from rag.ids import ChunkId


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Candidate]], limit: int, rank_constant: int = 60
) -> list[Candidate]:
    """Fuse several rankings of one query into one.

    A chunk scores the sum over rankings of 1 / (rank_constant + rank), rank from 1. The scores inside the
    rankings are not read: they live on different scales. Ties go to the smaller id, so every replica agrees.

    Source: Cormack, Clarke and Buettcher, SIGIR 2009.
    """
    scores: dict[ChunkId, float] = defaultdict(float)
    for ranking in rankings:
        for rank, candidate in enumerate(ranking, start=1):
            scores[candidate.chunk_id] += 1.0 / (rank_constant + rank)
    best_first = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Candidate(chunk_id, score, "rrf") for chunk_id, score in best_first[:limit]]
