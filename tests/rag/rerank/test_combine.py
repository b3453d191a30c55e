import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.config import RerankConfig
from rag.data import FirstStageScores
from rag.ids import ChunkId
from rag.rerank.combine import combined_scores, feedback_scores, rank_candidates, standard_scores
from rag.rerank.identifiers import identifier_shares

CONFIG = RerankConfig(dense_weight=1.0, bm25_weight=0.5, model_weight=0.2)
scores = st.floats(-1e3, 1e3)
candidates = st.lists(st.tuples(scores, scores, scores), max_size=12)


def test_a_worked_example() -> None:
    # dense 1, 2, 3: mean 2, deviation sqrt(2/3); bm25 4, 0, 4 and logits 0, 3, 0: deviations sqrt(32/9) and sqrt(2)
    first = [FirstStageScores(1.0, 4.0), FirstStageScores(2.0, 0.0), FirstStageScores(3.0, 4.0)]
    root = math.sqrt
    expected = [
        -1 / root(2 / 3) + 0.5 * (4 / 3) / root(32 / 9) + 0.2 * -1 / root(2),
        0.5 * (-8 / 3) / root(32 / 9) + 0.2 * 2 / root(2),
        1 / root(2 / 3) + 0.5 * (4 / 3) / root(32 / 9) + 0.2 * -1 / root(2),
    ]
    assert combined_scores(first, [0.0, 3.0, 0.0], CONFIG) == pytest.approx(expected)


def test_without_logits_the_first_stage_ranks_alone() -> None:
    first = [FirstStageScores(0.2, 3.0), FirstStageScores(0.6, 1.0), FirstStageScores(0.4, 0.0)]
    without_model = CONFIG.model_copy(update={"model_weight": 0.0})
    assert combined_scores(first, None, CONFIG) == combined_scores(first, [5.0, 1.0, 2.0], without_model)


def test_a_score_on_which_all_agree_adds_nothing() -> None:
    first = [FirstStageScores(0.1, 0.0), FirstStageScores(0.3, 0.0)]
    assert combined_scores(first, [0.1, 0.1], CONFIG) == standard_scores([0.1, 0.3])


def test_no_candidates_have_no_scores() -> None:
    assert combined_scores([], [], CONFIG) == []
    assert combined_scores([], None, CONFIG) == []


def test_a_missing_logit_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        combined_scores([FirstStageScores(0.1, 0.0), FirstStageScores(0.3, 0.0)], [1.0], CONFIG)


@given(values=st.lists(st.integers(-100, 100), min_size=2, max_size=20).filter(lambda values: len(set(values)) > 1))
def test_standard_scores_have_mean_zero_and_deviation_one(values: list[int]) -> None:
    standardised = standard_scores(values)
    assert statistics.fmean(standardised) == pytest.approx(0.0, abs=1e-9)
    assert statistics.pstdev(standardised) == pytest.approx(1.0)


@given(value=st.floats(allow_nan=False, allow_infinity=False), count=st.integers(0, 9))
def test_equal_values_standardise_to_zeros(value: float, count: int) -> None:
    assert standard_scores([value] * count) == [0.0] * count


def test_values_whose_squares_underflow_standardise_to_zeros() -> None:
    assert standard_scores([0.0, 1e-300]) == [0.0, 0.0]


@given(rows=candidates, data=st.data())
def test_scores_do_not_depend_on_the_order_of_the_candidates(
    rows: list[tuple[float, float, float]], data: st.DataObject
) -> None:
    def combined(order: list[int]) -> dict[int, float]:
        first = [FirstStageScores(rows[place][0], rows[place][1]) for place in order]
        logits = [rows[place][2] for place in order]
        return dict(zip(order, combined_scores(first, logits, CONFIG), strict=True))

    shuffled = data.draw(st.permutations(range(len(rows))))
    assert combined(shuffled) == combined(list(range(len(rows))))


def test_candidates_come_best_first_and_ties_go_to_the_smaller_id() -> None:
    ranked = rank_candidates([ChunkId("c"), ChunkId("b"), ChunkId("d"), ChunkId("a")], [1.0, 2.0, 2.0, 1.0])
    assert [(candidate.chunk_id, candidate.score) for candidate in ranked] == [
        ("b", 2.0),
        ("d", 2.0),
        ("a", 1.0),
        ("c", 1.0),
    ]
    assert {candidate.source for candidate in ranked} == {"rerank"}


def test_a_candidate_that_names_the_questions_identifier_comes_first() -> None:
    first = [FirstStageScores(0.6, 3.0), FirstStageScores(0.5, 2.8), FirstStageScores(0.4, 4.0)]
    passages = ["| ERR_4007 | unknown serial |", "ERR_6102 is not a fault.", "On older firmware it reports ERR_6407."]
    shares = identifier_shares("The robot says ERR_6407.", passages)
    assert shares == [0.0, 0.0, 1.0]
    scores = combined_scores(first, [0.3, 0.2, -0.1], CONFIG, shares)
    assert max(scores) == scores[2]
    assert identifier_shares("The robot is late.", passages) == [0.0, 0.0, 0.0]


def _with_vector(dense: float, *vector: float) -> FirstStageScores:
    return FirstStageScores(dense, 0.0, np.asarray(vector, dtype=np.float16).tobytes())


def test_what_resembles_the_best_gains() -> None:
    first = [_with_vector(0.9, 1, 0, 0), _with_vector(0.5, 0.8, 0.6, 0), _with_vector(0.5, 0, 0.6, 0.8)]
    alike, other = combined_scores(first, None, CONFIG)[1:]
    assert alike > other
    without = CONFIG.model_copy(update={"feedback_weight": 0.0})
    assert combined_scores(first, None, without)[1] == combined_scores(first, None, without)[2]


def test_without_every_vector_there_is_no_feedback() -> None:
    first = [_with_vector(0.9, 1, 0, 0), FirstStageScores(0.5, 0.0), _with_vector(0.4, 0, 0, 1)]
    assert combined_scores(first, None, CONFIG) == standard_scores([0.9, 0.5, 0.4])


def test_only_the_best_stand_for_what_is_looked_for() -> None:
    vectors = [np.asarray(v, dtype=np.float16).tobytes() for v in ([1, 0], [-1, 0])]
    liked = [5.0] * 8 + [4.0]
    scores = feedback_scores([vectors[0]] * 8 + [vectors[1]], liked)
    assert scores == [1.0] * 8 + [-1.0]
    assert feedback_scores(vectors[:1], [1.0]) == [0.0]
    assert feedback_scores([vectors[0]] * 3, [1.0, 2.0, 3.0]) == [0.0] * 3  # nothing tells them apart


@given(
    rows=st.lists(st.tuples(st.floats(0, 1), st.lists(st.integers(-8, 8), min_size=3, max_size=3)), max_size=12),
    data=st.data(),
)
def test_feedback_does_not_depend_on_the_order_of_the_candidates(
    rows: list[tuple[float, list[int]]], data: st.DataObject
) -> None:
    def combined(order: list[int]) -> dict[int, float]:
        vectors = [np.asarray(rows[place][1], dtype=np.float16).tobytes() for place in order]
        return dict(zip(order, feedback_scores(vectors, [rows[place][0] for place in order]), strict=True))

    shuffled = combined(data.draw(st.permutations(range(len(rows)))))
    assert shuffled == pytest.approx(combined(list(range(len(rows)))), abs=1e-6)
