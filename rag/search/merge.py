"""Merging what the shards propose: their scores are on one scale, so the best of the bests are the best of all."""

from collections.abc import Sequence

from rag.config import SearchConfig
from rag.data import Candidate, SearchResult, ShardCandidates
from rag.ids import ChunkId
from rag.search.fuse import reciprocal_rank_fusion


def merge_top_k(rankings: Sequence[Sequence[Candidate]], k: int) -> tuple[Candidate, ...]:
    """The k best candidates of rankings over disjoint parts of a corpus, best first, ties by chunk id."""
    everything = [candidate for ranking in rankings for candidate in ranking]
    return tuple(sorted(everything, key=lambda candidate: (-candidate.score, candidate.chunk_id))[:k])


def to_rerank(result: SearchResult, k_each_leg: int) -> list[ChunkId]:
    """The fused candidates, then the best of either leg that are not among them; each once.

    A chunk that only one leg finds scores at most 1 / (constant + 1), less than any chunk that both have in their first
    50: the only passage with an error code can be BM25's first and still be cut.
    """
    heads = (*result.bm25[:k_each_leg], *result.dense[:k_each_leg])
    return list(dict.fromkeys(candidate.chunk_id for candidate in (*result.fused, *heads)))


def combine(
    shard_results: Sequence[ShardCandidates], missing: Sequence[int], config: SearchConfig, limit: int
) -> SearchResult:
    """The global rankings of one query, whatever the order in which the shards answered.

    `missing` are the shards that gave no answer in time. The fused ranking has at most `limit` candidates.
    """
    dense = merge_top_k([result.dense for result in shard_results], config.k_dense)
    bm25 = merge_top_k([result.bm25 for result in shard_results], config.k_bm25)
    proposed = {candidate.chunk_id for candidate in (*dense, *bm25)}
    return SearchResult(
        dense=dense,
        bm25=bm25,
        fused=tuple(reciprocal_rank_fusion([dense, bm25], limit, config.rank_constant)),
        scores={
            chunk_id: scores
            for result in shard_results
            for chunk_id, scores in result.scores.items()
            if chunk_id in proposed
        },
        missing_shards=tuple(sorted(missing)),
        compute_ms=max((result.compute_ms for result in shard_results), default=0.0),
    )
