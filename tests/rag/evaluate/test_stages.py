"""A stage's numbers: the standard metrics where they apply, and what scores say beyond ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.config import RagConfig
from rag.evaluate.metrics import context_precision, hit_rate_at_k, mrr_at_k, ndcg_at_k, recall_at_k
from rag.evaluate.stages import metric_names, need_recall, outscored, ranking_scores, separation, stage_depths
from tests.rag.evaluate.libraries import cheap_config

NONE, A, B, AB = frozenset[int](), frozenset({0}), frozenset({1}), frozenset({0, 1})
NAMES = ("hit@1", "hit@5", "recall@5", "recall", "mrr@10", "ndcg@10", "context_precision")

# Which needs there are, and a ranking in which each candidate meets one of them or none, each need once.
grades = st.lists(st.integers(1, 3), min_size=1, max_size=5)


@st.composite
def judged(draw: st.DrawFn) -> tuple[list[int], list[int | None]]:
    worth = draw(grades)
    found = draw(st.lists(st.sampled_from(range(len(worth))), unique=True))
    ranking: list[int | None] = [*found, *[None] * draw(st.integers(0, 8))]
    return worth, draw(st.permutations(ranking))


@given(judged())
def test_with_one_need_a_candidate_they_are_the_standard_metrics(case: tuple[list[int], list[int | None]]) -> None:
    worth, order = case
    found = [NONE if need is None else frozenset({need}) for need in order]
    ranking = [f"other {place}" if need is None else str(need) for place, need in enumerate(order)]
    by_name = {str(need): grade for need, grade in enumerate(worth)}
    assert ranking_scores(found, worth, NAMES) == {
        "hit@1": hit_rate_at_k(ranking, by_name, 1),
        "hit@5": hit_rate_at_k(ranking, by_name, 5),
        "recall@5": recall_at_k(ranking, by_name, 5),
        "recall": recall_at_k(ranking, by_name, len(ranking)) if ranking else 0.0,
        "mrr@10": mrr_at_k(ranking, by_name, 10),
        "ndcg@10": pytest.approx(ndcg_at_k(ranking, by_name, 10)),
        "context_precision": context_precision(ranking, by_name),
    }


def test_a_second_chunk_with_the_same_words_gains_nothing() -> None:
    once = ranking_scores([A, NONE, B], (1, 1), NAMES)
    assert ranking_scores([A, A, B], (1, 1), NAMES) == once
    assert once["ndcg@10"] < ranking_scores([A, B, NONE], (1, 1), NAMES)["ndcg@10"] == 1.0


def test_one_chunk_may_meet_several_needs() -> None:
    scores = ranking_scores([AB], (1, 1), NAMES)
    assert scores["recall"] == scores["ndcg@10"] == scores["hit@1"] == 1.0
    assert need_recall([NONE, A], (1, 1)) == 0.5


def test_nothing_found_is_zero_and_not_an_error() -> None:
    assert set(ranking_scores([], (1,), NAMES).values()) == {0.0}
    assert outscored([], [], 1) == 0.0
    assert separation([], [], 1) == 0.0


def test_the_share_that_the_gold_outscores_does_not_count_ties() -> None:
    found = [NONE, A, NONE, NONE]
    assert outscored(found, [4.0, 3.0, 2.0, 1.0], 1) == 0.5
    assert outscored(found, [3.0, 3.0, 3.0, 1.0], 1) == 0.25
    assert outscored(found, [3.0, 3.0, 3.0, 3.0], 1) == 0.0
    assert outscored([NONE, A, B], [3.0, 2.0, 1.0], 2) == pytest.approx((1 / 3 + 0) / 2)


def test_separation_is_the_standard_score_of_the_best_gold_candidate() -> None:
    assert separation([A, NONE], [1.0, -1.0], 1) == 1.0
    assert separation([NONE, A], [1.0, -1.0], 1) == -1.0
    assert separation([NONE, NONE], [1.0, -1.0], 1) == -1.0  # not among them: like the worst
    assert separation([A, A, NONE], [2.0, 2.0, 2.0], 1) == 0.0  # all alike


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=12, unique=True), st.integers(1, 9), st.integers(-9, 9))
def test_both_are_the_same_on_any_scale(values: list[int], factor: int, shift: int) -> None:
    scores = sorted(map(float, values), reverse=True)
    moved = [score * factor + shift for score in scores]
    found = [A if place == 1 else NONE for place in range(len(scores))]
    assert outscored(found, moved, 1) == outscored(found, scores, 1)
    assert separation(found, moved, 1) == pytest.approx(separation(found, scores, 1))


def test_recall_at_50_and_100_only_where_a_stage_is_so_deep() -> None:
    assert "recall@50" not in metric_names("dense", 49)
    assert "recall@50" in metric_names("dense", 50)
    assert "recall@100" in metric_names("bm25", 100)
    assert metric_names("chunks", 0) == ("recall",)
    assert "passages" in metric_names("prompt", 6)
    assert "separation" not in metric_names("prompt", 6)


def test_the_depths_are_those_of_the_configuration(config: RagConfig) -> None:
    assert stage_depths(config) == {
        "chunks": 0,
        "dense": 50,
        "bm25": 50,
        "fused": 50,
        "reranked": 56,
        "prompt": 6,
    }


@pytest.fixture
def config(tmp_path_factory: pytest.TempPathFactory) -> RagConfig:
    return cheap_config(tmp_path_factory.mktemp("config"))
