"""The metrics against worked examples, and against laws that hold for every ranking."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.evaluate.metrics import (
    ann_recall_at_k,
    context_precision,
    hit_rate_at_k,
    mean,
    mrr_at_k,
    ndcg_at_k,
    recall_at_k,
)

GRADES = {"a": 0, "b": 2, "c": 1}

names = st.sampled_from("abcdefgh")
rankings = st.lists(names, unique=True, max_size=8)
judgements = st.dictionaries(names, st.integers(0, 3), min_size=1).filter(lambda grades: any(grades.values()))
depths = st.integers(1, 10)


def test_ndcg_of_grades_0_2_1_at_ranks_1_to_3_is_0_659() -> None:
    assert ndcg_at_k(["a", "b", "c"], GRADES, 3) == pytest.approx(0.659, abs=5e-4)


def test_ndcg_is_1_for_the_best_order_and_0_when_nothing_relevant_is_found() -> None:
    assert ndcg_at_k(["b", "c", "a"], GRADES, 3) == 1.0
    assert ndcg_at_k(["a", "x"], GRADES, 3) == 0.0


def test_ndcg_counts_what_was_not_found_in_the_best_order() -> None:
    # one of two relevant at rank 1: 1 / (1 + 1 / log2(3))
    assert ndcg_at_k(["a"], {"a": 1, "b": 1}, 10) == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_the_ideal_order_is_cut_at_k_too() -> None:
    assert ndcg_at_k(["a"], {"a": 1, "b": 1}, 1) == 1.0


def test_recall_is_the_share_of_the_relevant_that_was_found() -> None:
    assert recall_at_k(["x", "b", "y", "c"], GRADES, 3) == 0.5
    assert recall_at_k(["x", "b", "y", "c"], GRADES, 4) == 1.0


def test_mrr_is_one_over_the_first_relevant_rank() -> None:
    assert mrr_at_k(["a", "x", "c", "b"], GRADES, 10) == pytest.approx(1 / 3)
    assert mrr_at_k(["a", "x", "c"], GRADES, 2) == 0.0


def test_a_judged_document_of_grade_0_is_no_hit() -> None:
    assert hit_rate_at_k(["a"], GRADES, 1) == 0.0
    assert hit_rate_at_k(["a", "c"], GRADES, 2) == 1.0


def test_context_precision_averages_precision_at_the_ranks_of_the_relevant() -> None:
    # relevant at ranks 1 and 3: (1/1 + 2/3) / 2
    assert context_precision(["b", "a", "c"], GRADES) == pytest.approx((1 + 2 / 3) / 2)
    assert context_precision(["b", "c", "a"], GRADES) == 1.0
    assert context_precision(["a"], GRADES) == 0.0


def test_ann_recall_is_the_share_of_the_exact_nearest_that_were_found_in_any_order() -> None:
    exact = ["a", "b", "c", "d"]
    assert ann_recall_at_k(["d", "c", "b", "a"], exact, 4) == 1.0
    assert ann_recall_at_k(["a", "x", "b", "c"], exact, 4) == 0.75
    assert ann_recall_at_k(["c", "a"], exact, 2) == 0.5  # "c" is the third nearest: no neighbour of the first two


def test_ann_recall_asks_for_no_more_than_there_is_to_find() -> None:
    assert ann_recall_at_k(["a"], ["a"], 10) == 1.0
    with pytest.raises(ValueError, match="got none"):
        ann_recall_at_k(["a"], [], 10)


@pytest.mark.parametrize("metric", [recall_at_k, ndcg_at_k])
def test_a_query_without_anything_relevant_is_an_error(metric: object) -> None:
    assert callable(metric)
    with pytest.raises(ValueError, match="no judgement above 0"):
        metric(["a"], {"a": 0}, 10)


def test_the_mean_of_nothing_is_0() -> None:
    assert mean([]) == 0.0
    assert mean([1.0, 0.0, 0.5]) == 0.5


@given(rankings, judgements, depths)
def test_every_metric_lies_between_0_and_1(ranking: list[str], grades: dict[str, int], k: int) -> None:
    for metric in (hit_rate_at_k, recall_at_k, mrr_at_k, ndcg_at_k):
        assert 0.0 <= metric(ranking, grades, k) <= 1.0 + 1e-12
    assert 0.0 <= context_precision(ranking, grades) <= 1.0


@given(rankings, judgements, depths)
def test_a_longer_look_never_lowers_hits_recall_or_mrr(ranking: list[str], grades: dict[str, int], k: int) -> None:
    for metric in (hit_rate_at_k, recall_at_k, mrr_at_k):
        assert metric(ranking, grades, k + 1) >= metric(ranking, grades, k)


@given(rankings, judgements, depths)
def test_there_is_a_hit_exactly_where_the_reciprocal_rank_is_not_0(
    ranking: list[str], grades: dict[str, int], k: int
) -> None:
    assert (hit_rate_at_k(ranking, grades, k) > 0) == (mrr_at_k(ranking, grades, k) > 0)


@given(judgements, depths)
def test_no_order_beats_that_of_the_grades(grades: dict[str, int], k: int) -> None:
    best_first = sorted(grades, key=lambda name: -grades[name])
    assert ndcg_at_k(best_first, grades, k) == pytest.approx(1.0)
