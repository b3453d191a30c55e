import pytest

from rag.config import SearchConfig
from rag.data import Candidate, FirstStageScores, SearchResult, ShardCandidates
from rag.ids import ChunkId
from rag.search.fuse import reciprocal_rank_fusion
from rag.search.merge import combine, merge_top_k, to_rerank


def candidates(**scores: float) -> tuple[Candidate, ...]:
    return tuple(Candidate(ChunkId(name), score, "dense") for name, score in scores.items())


def shard(number: int, dense: tuple[Candidate, ...], bm25: tuple[Candidate, ...], compute_ms: float) -> ShardCandidates:
    ids = {candidate.chunk_id for candidate in dense + bm25}
    scores = {chunk_id: FirstStageScores(dense=number, bm25=1.0) for chunk_id in ids}
    return ShardCandidates(number, dense, bm25, scores, compute_ms)


def test_the_best_of_all_rankings_come_first_and_ties_go_to_the_smaller_id() -> None:
    merged = merge_top_k([candidates(d=0.9, b=0.5), candidates(a=0.5, c=0.4), ()], 3)
    assert [candidate.chunk_id for candidate in merged] == ["d", "a", "b"]


def test_fewer_candidates_than_k_are_all_kept() -> None:
    assert merge_top_k([candidates(a=1.0)], 5) == candidates(a=1.0)
    assert merge_top_k([], 5) == ()


def test_ranks_are_global_before_they_are_fused() -> None:
    config = SearchConfig(k_dense=2, k_bm25=2)
    first = shard(0, candidates(a=0.9, b=0.8, z=0.1), candidates(b=7.0), 3.0)
    second = shard(1, candidates(c=0.85), candidates(c=9.0), 5.0)
    result = combine([first, second], [3, 2], config, limit=10)
    assert [candidate.chunk_id for candidate in result.dense] == ["a", "c"]
    assert [candidate.chunk_id for candidate in result.bm25] == ["c", "b"]
    assert [candidate.chunk_id for candidate in result.fused] == ["c", "a", "b"]
    assert result.fused[0].score == pytest.approx(1 / 62 + 1 / 61)
    assert set(result.scores) == {"a", "b", "c"}
    assert (result.missing_shards, result.compute_ms) == ((2, 3), 5.0)


def test_the_order_in_which_shards_answer_changes_nothing() -> None:
    config = SearchConfig()
    first, second = shard(0, candidates(a=0.5), candidates(b=1.0), 1.0), shard(1, candidates(c=0.5), (), 2.0)
    assert combine([first, second], [], config, 2) == combine([second, first], [], config, 2)


def test_without_any_shard_the_result_is_empty() -> None:
    result = combine([], [0, 1], SearchConfig(), 5)
    assert (result.dense, result.bm25, result.fused, result.missing_shards) == ((), (), (), (0, 1))


def test_the_best_of_one_leg_is_reranked_even_where_fusion_cuts_it() -> None:
    dense = tuple(Candidate(ChunkId(f"d{n}"), 1.0 - n / 100, "dense") for n in range(5))
    bm25 = (Candidate(ChunkId("only-bm25"), 9.0, "bm25"), *(Candidate(c.chunk_id, 1.0, "bm25") for c in dense))
    fused = tuple(reciprocal_rank_fusion([dense, bm25], 3))
    result = SearchResult(dense, bm25, fused, {}, (), 0.0)
    assert "only-bm25" not in {candidate.chunk_id for candidate in fused}
    assert to_rerank(result, 1) == [*(candidate.chunk_id for candidate in fused), "only-bm25"]
    assert to_rerank(result, 0) == [candidate.chunk_id for candidate in fused]
