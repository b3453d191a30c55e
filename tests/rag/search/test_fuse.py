import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.data import Candidate
from rag.ids import ChunkId
from rag.search.fuse import reciprocal_rank_fusion


def ranking(names: str) -> list[Candidate]:
    return [Candidate(ChunkId(name), 1.0 / place, "dense") for place, name in enumerate(names, start=1)]


def test_the_worked_example_puts_two_third_places_above_a_first_and_a_tenth() -> None:
    first, second = ranking("axmcdefghi"), ranking("bymcdefgha")
    fused = {candidate.chunk_id: candidate.score for candidate in reciprocal_rank_fusion([first, second], 20)}
    assert fused[ChunkId("a")] == pytest.approx(0.03068, abs=5e-6)  # ranks 1 and 10
    assert fused[ChunkId("m")] == pytest.approx(0.03175, abs=5e-6)  # ranks 3 and 3
    assert next(iter(fused)) == "m"


def test_ties_go_to_the_smaller_id() -> None:
    fused = reciprocal_rank_fusion([ranking("zb"), ranking("bz")], 5)
    assert [candidate.chunk_id for candidate in fused] == ["b", "z"]
    assert {candidate.source for candidate in fused} == {"rrf"}


def test_scores_inside_the_rankings_are_not_read() -> None:
    loud = [Candidate(ChunkId(name), 1e9 - place, "bm25") for place, name in enumerate("abc")]
    assert reciprocal_rank_fusion([loud], 3) == reciprocal_rank_fusion([ranking("abc")], 3)


@given(st.permutations("abcdef"), st.permutations("abcdef"), st.integers(1, 8), st.integers(0, 90))
def test_the_order_of_two_rankings_does_not_matter(
    left: list[str], right: list[str], limit: int, constant: int
) -> None:
    rankings = [ranking("".join(left)), ranking("".join(right))]
    fused = reciprocal_rank_fusion(rankings, limit, constant)
    assert fused == reciprocal_rank_fusion(rankings[::-1], limit, constant)
    assert len(fused) == min(limit, 6)
