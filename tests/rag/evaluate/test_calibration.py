"""Scores become probabilities, and thresholds follow from costs or from the share that is answered."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from rag.evaluate.calibration import (
    Flags,
    abstention_curve,
    area_under_roc,
    brier_score,
    cheapest_threshold,
    cost_at,
    expected_calibration_error,
    expecting,
    fit_answerability,
    fit_calibration,
    fit_isotonic,
    fit_logistic,
    fit_temperature,
    out_of_fold_logits,
    plot_abstention,
    point_at,
    threshold_for_answered,
    threshold_of_costs,
)
from rag.logistic import Floats, PiecewiseLinear, Temperature

# Five questions: three answerable, of which the second is answered wrongly.
P = np.array([0.9, 0.8, 0.6, 0.4, 0.2])
ANSWERABLE = np.array([True, True, False, True, False])
RIGHT = np.array([True, False, False, True, False])


def questions(num: int = 400, seed: int = 0) -> tuple[Floats, Flags, list[str]]:
    """Two features, of which the first tells the answerable apart, in twenty documents."""
    generator = np.random.default_rng(seed)
    labels = generator.random(num) < 0.5
    values = np.column_stack([generator.normal(labels * 1.5, 1.0), generator.normal(0.0, 1.0, num)])
    return values, labels, [f"d{place % 20}" for place in range(num)]


# ---------------------------------------------------------------- fitting


def test_isotonic_regression_pools_what_falls() -> None:
    fitted = fit_isotonic(np.array([1.0, 2.0, 3.0, 4.0]), np.array([False, True, False, True]))
    assert fitted(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 9.0])).tolist() == [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]


def test_a_temperature_gives_back_the_sigmoid_that_made_the_labels() -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(0.0, 4.0, 20_000)
    labels = generator.random(20_000) < 1 / (1 + np.exp(-(scores - 1.0) / 2.0))
    fitted = fit_temperature(scores, labels)
    assert fitted.temperature == pytest.approx(2.0, rel=0.05)
    assert fitted.shift == pytest.approx(1.0, abs=0.1)
    assert fit_temperature(scores, labels, with_shift=False).shift == 0.0


def test_scores_that_speak_against_their_labels_have_no_temperature() -> None:
    with pytest.raises(ValueError, match="higher scores go with fewer positive labels"):
        fit_temperature(np.array([3.0, 2.0, 1.0, 0.0]), np.array([False, False, True, True]))


@pytest.mark.parametrize("labels", [[True, True], [False, False]])
def test_one_class_can_not_be_calibrated(labels: list[bool]) -> None:
    with pytest.raises(ValueError, match="nothing to tell apart"):
        fit_isotonic(np.array([1.0, 2.0]), np.array(labels))


@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(st.integers(-20, 20), st.booleans()), min_size=4, max_size=60).filter(
        lambda rows: len({label for _, label in rows}) == 2
    )
)
def test_isotonic_probabilities_never_fall_and_stay_in_the_unit_interval(rows: list[tuple[int, bool]]) -> None:
    scores, labels = np.array([float(score) for score, _ in rows]), np.array([label for _, label in rows])
    found = fit_isotonic(scores, labels)(np.linspace(-25.0, 25.0, 101))
    assert np.all(np.diff(found) >= 0)
    assert np.all((found >= 0) & (found <= 1))


def test_a_regression_weighs_what_tells_the_labels_apart() -> None:
    values, labels, _ = questions()
    model = fit_logistic(values, labels, ("signal", "noise"))
    assert model.weights[0] > 5 * abs(model.weights[1])
    assert area_under_roc(model.probabilities(values), labels) > 0.8


def test_a_sign_keeps_a_weight_on_its_side() -> None:
    values, labels, _ = questions()
    assert fit_logistic(-values, labels, ("signal", "noise")).weights[0] < 0
    assert fit_logistic(-values, labels, ("signal", "noise"), signs={"signal": 1}).weights[0] == 0


def test_a_feature_without_variation_gets_no_weight() -> None:
    values, labels, _ = questions()
    model = fit_logistic(np.column_stack([values, np.full(len(values), 7.0)]), labels, ("a", "b", "constant"))
    assert model.weights[2] == 0.0


def test_logits_of_a_row_come_from_a_model_that_never_saw_its_document() -> None:
    """Each document has one label of its own; only a model that saw the document could know it."""
    values = np.eye(6).repeat(2, axis=0)
    labels = np.array([True, False] * 3).repeat(2)
    documents = [f"d{place // 2}" for place in range(12)]
    seen = fit_logistic(values, labels, tuple("abcdef")).logits(values)
    unseen = out_of_fold_logits(values, labels, tuple("abcdef"), documents, num_folds=6)
    assert area_under_roc(seen, labels) == 1.0
    assert area_under_roc(unseen, labels) <= 0.5
    with pytest.raises(ValueError, match="one document"):
        out_of_fold_logits(values, labels, tuple("abcdef"), ["d"] * 12)


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_the_stored_threshold_answers_the_wanted_share_of_new_questions(method: str) -> None:
    values, labels, documents = questions(2_000)
    model = fit_answerability(
        values, labels, ("signal", "noise"), documents, "isotonic" if method == "isotonic" else "temperature"
    )
    new_values, new_labels, _ = questions(4_000, seed=1)
    probabilities = model.probabilities(new_values)
    assert point_at(model.threshold, probabilities, new_labels).answered_share == pytest.approx(0.9, abs=0.04)
    assert expected_calibration_error(probabilities, new_labels) < 0.06
    assert brier_score(probabilities, new_labels) < 0.2


def test_another_share_of_answerable_questions_moves_probabilities_and_threshold_together() -> None:
    values, labels, documents = questions(2_000)
    model = fit_answerability(values, labels, ("a", "b"), documents, "temperature")
    moved = expecting(model, 0.5, 0.8)
    before, after = model.probabilities(values), moved.probabilities(values)
    assert np.allclose(after / (1 - after), 4.0 * before / (1 - before), rtol=1e-3)
    assert ((before >= model.threshold) == (after >= moved.threshold)).all()


def test_the_knots_of_an_isotonic_calibration_move_by_the_odds() -> None:
    values, labels, documents = questions(2_000)
    model = fit_answerability(values, labels, ("a", "b"), documents, "isotonic")
    moved = expecting(model, 0.5, 0.8).calibration
    assert isinstance(model.calibration, PiecewiseLinear)
    assert isinstance(moved, PiecewiseLinear)
    assert moved.scores == model.calibration.scores
    assert [p / (1 - p) for p in moved.probabilities if p < 1] == pytest.approx(
        [4.0 * p / (1 - p) for p in model.calibration.probabilities if p < 1], rel=1e-3
    )


# ---------------------------------------------------------------- how good it is


def test_brier_and_calibration_error_by_hand() -> None:
    probabilities, labels = np.array([0.95, 0.95, 0.05, 0.05]), np.array([True, True, False, True])
    assert brier_score(probabilities, labels) == pytest.approx((3 * 0.05**2 + 0.95**2) / 4)
    # Two bins of two rows: |0.95 - 1.0| and |0.05 - 0.5|, each half of the rows.
    assert expected_calibration_error(probabilities, labels) == pytest.approx(0.5 * 0.05 + 0.5 * 0.45)
    assert expected_calibration_error(np.array([1.0, 0.0]), np.array([True, False])) == 0.0


@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40).filter(
        lambda rows: len({label for _, label in rows}) == 2
    )
)
def test_the_area_is_that_of_scikit_learn(rows: list[tuple[int, bool]]) -> None:
    scores, labels = np.array([float(score) for score, _ in rows]), np.array([label for _, label in rows])
    assert area_under_roc(scores, labels) == pytest.approx(roc_auc_score(labels, scores))


# ---------------------------------------------------------------- the curve


def test_the_curve_by_hand() -> None:
    curve = abstention_curve(P, ANSWERABLE, RIGHT)
    assert [point.threshold for point in curve[:-1]] == [0.2, 0.4, 0.6, 0.8, 0.9]
    at_06 = curve[2]  # answers the first three: right, wrong, unanswerable
    assert at_06.abstention_rate == pytest.approx(0.4)
    assert at_06.accuracy == pytest.approx(1 / 3)
    assert (at_06.answered_share, at_06.declined_share) == pytest.approx((2 / 3, 0.5))
    nothing = curve[-1]
    assert (nothing.abstention_rate, nothing.accuracy) == (1.0, None)
    assert (nothing.answered_share, nothing.declined_share) == (0.0, 1.0)


def test_without_known_answers_every_answerable_question_is_answered_rightly() -> None:
    assert point_at(0.8, P, ANSWERABLE).accuracy == 1.0
    assert point_at(0.8, P, ANSWERABLE, RIGHT).accuracy == 0.5


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 1), st.booleans(), st.booleans()),
        min_size=2,
        max_size=50,
    )
)
def test_along_the_curve_abstention_never_falls_and_shares_stay_in_the_unit_interval(
    rows: list[tuple[float, bool, bool]],
) -> None:
    probabilities, answerable, right = (np.array(column) for column in zip(*rows, strict=True))
    curve = abstention_curve(probabilities, answerable, right)
    assert all(
        before.abstention_rate <= after.abstention_rate
        and before.declined_share <= after.declined_share
        and before.answered_share >= after.answered_share
        for before, after in pairwise(curve)
    )
    for point in curve:
        assert all(0 <= share <= 1 for share in (point.abstention_rate, point.answered_share, point.declined_share))
        assert point.accuracy is None or 0 <= point.accuracy <= 1


def test_the_threshold_is_the_highest_that_still_answers_the_share() -> None:
    assert threshold_for_answered(P, ANSWERABLE, 1.0) == 0.4
    assert threshold_for_answered(P, ANSWERABLE, 0.66) == 0.8
    assert threshold_for_answered(P, ANSWERABLE, 0.0) == 0.9


@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=50).filter(
        lambda rows: len({label for _, label in rows}) == 2
    ),
    share=st.floats(0.01, 1.0),
)
def test_no_higher_threshold_answers_the_share(rows: list[tuple[int, bool]], share: float) -> None:
    probabilities, answerable = np.array([score / 9 for score, _ in rows]), np.array([label for _, label in rows])
    threshold = threshold_for_answered(probabilities, answerable, share)
    assert point_at(threshold, probabilities, answerable).answered_share >= share - 1e-9
    higher = np.nextafter(threshold, 2.0)
    assert point_at(float(higher), probabilities, answerable).answered_share < share


@pytest.mark.parametrize(("wrong", "needless", "threshold"), [(3, 1, 0.75), (1, 1, 0.5), (0, 1, 0.0), (1, 0, 1.0)])
def test_a_cost_ratio_is_a_probability(wrong: float, needless: float, threshold: float) -> None:
    assert threshold_of_costs(wrong, needless) == threshold


@pytest.mark.parametrize(("wrong", "needless"), [(0, 0), (-1, 2)])
def test_costs_that_mean_nothing_are_refused(wrong: float, needless: float) -> None:
    with pytest.raises(ValueError, match="expected two that are not negative"):
        threshold_of_costs(wrong, needless)


def test_costs_by_hand() -> None:
    # At 0.6: the second is wrong (3), the third unanswerable and answered (3), the fourth needlessly declined (1).
    assert cost_at(0.6, P, ANSWERABLE, RIGHT, wrong=3.0, needless=1.0) == pytest.approx(7 / 5)
    assert cost_at(0.0, P, ANSWERABLE, RIGHT, wrong=3.0, needless=1.0) == pytest.approx(9 / 5)


def test_the_cheapest_threshold_costs_least() -> None:
    best = cheapest_threshold(P, ANSWERABLE, RIGHT, 3.0, 1.0)
    costs = [cost_at(t, P, ANSWERABLE, RIGHT, 3.0, 1.0) for t in (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)]
    assert best == 0.9
    assert cost_at(best, P, ANSWERABLE, RIGHT, 3.0, 1.0) == min(costs)


def test_with_calibrated_probabilities_the_ratio_is_nearly_the_cheapest_threshold() -> None:
    generator = np.random.default_rng(0)
    probabilities = generator.random(200_000)
    answerable = generator.random(200_000) < probabilities
    by_ratio = cost_at(threshold_of_costs(3.0, 1.0), probabilities, answerable, None, 3.0, 1.0)
    best = min(cost_at(t, probabilities, answerable, None, 3.0, 1.0) for t in np.linspace(0, 1, 101).tolist())
    assert by_ratio <= best + 0.003


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_same_curves_make_the_same_picture(tmp_path: Path, suffix: str) -> None:
    curves = {"all": abstention_curve(P, ANSWERABLE, RIGHT), "dense": abstention_curve(P[::-1], ANSWERABLE, RIGHT)}
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    plot_abstention(curves, first)
    plot_abstention(curves, second)
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 2_000


def test_a_calibration_is_picked_by_its_name() -> None:
    values, labels, _ = questions()
    assert isinstance(fit_calibration(values[:, 0], labels, "isotonic"), PiecewiseLinear)
    assert isinstance(fit_calibration(values[:, 0], labels, "temperature"), Temperature)
