"""What training wrote is applied in plain numbers, and never leaves [0, 1]."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag.logistic import LogisticModel, PiecewiseLinear, Temperature, rounded, sigmoid

MODEL = LogisticModel(features=("a", "b"), means=(1.0, 0.0), scales=(2.0, 1.0), weights=(4.0, -1.0), intercept=0.5)
scores = st.floats(-1e3, 1e3)


def test_a_logit_is_the_weighted_sum_of_standardised_values() -> None:
    assert MODEL.logits(np.array([[3.0, 2.0], [1.0, 0.0]])).tolist() == [4.0 - 2.0 + 0.5, 0.5]
    assert MODEL.probabilities(np.array([[1.0, 0.5]])).tolist() == [0.5]


def test_values_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected \(n, 2\)"):
        MODEL.logits(np.zeros((3, 1)))


@pytest.mark.parametrize("wrong", [{"weights": (1.0,)}, {"scales": (0.0, 1.0)}])
def test_a_model_whose_parts_do_not_fit_is_refused(wrong: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(ValidationError, match="2 features need as many"):
        LogisticModel.model_validate(MODEL.model_dump() | wrong)


def test_a_model_survives_its_file() -> None:
    assert LogisticModel.model_validate_json(MODEL.model_dump_json()) == MODEL


def test_the_sigmoid_does_not_overflow() -> None:
    assert sigmoid(np.array([-1e9, 0.0, 1e9])).tolist() == [0.0, 0.5, 1.0]
    assert sigmoid(np.array([1.0]))[0] == pytest.approx(1 / (1 + math.exp(-1.0)))


def test_a_temperature_divides_and_a_shift_moves() -> None:
    assert Temperature(temperature=2.0, shift=1.0)(np.array([1.0, 3.0])).tolist() == pytest.approx(
        [0.5, 1 / (1 + math.exp(-1.0))]
    )


def test_between_knots_there_are_straight_lines_and_beyond_them_nothing_changes() -> None:
    lines = PiecewiseLinear(scores=(0.0, 1.0, 3.0), probabilities=(0.2, 0.4, 0.8))
    assert lines(np.array([-5.0, 0.5, 2.0, 9.0])).tolist() == pytest.approx([0.2, 0.3, 0.6, 0.8])


@pytest.mark.parametrize(
    ("knots", "probabilities"), [((0.0, 1.0), (0.5, 0.4)), ((1.0, 0.0), (0.1, 0.2)), ((0.0,), (1.5,)), ((0.0,), ())]
)
def test_knots_that_fall_or_leave_the_unit_interval_are_refused(
    knots: tuple[float, ...], probabilities: tuple[float, ...]
) -> None:
    with pytest.raises(ValidationError):
        PiecewiseLinear(scores=knots, probabilities=probabilities)


@given(
    knots=st.lists(scores, min_size=1, max_size=8, unique=True),
    probabilities=st.lists(st.floats(0, 1), min_size=8, max_size=8),
    asked=st.lists(scores, min_size=2, max_size=20),
    temperature=st.floats(0.01, 100),
)
def test_a_calibration_never_falls_and_stays_in_the_unit_interval(
    knots: list[float], probabilities: list[float], asked: list[float], temperature: float
) -> None:
    lines = PiecewiseLinear(scores=tuple(sorted(knots)), probabilities=tuple(sorted(probabilities)[: len(knots)]))
    for calibration in (lines, Temperature(temperature=temperature, shift=1.0)):
        found = calibration(np.sort(np.array(asked)))
        assert np.all(np.diff(found) >= -np.finfo(np.float64).eps)  # between two knots, sums are rounded
        assert np.all((found >= 0) & (found <= 1))


def test_rounding_keeps_significant_digits() -> None:
    assert rounded([0.000123456789, 123456.789]) == (0.000123457, 123457.0)
