"""Intervals and p-values against scipy's own and against counting by hand; the corrections against their laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap, false_discovery_control, permutation_test

from rag.evaluate.significance import attainable_p, bootstrap_mean, holm, p_of_falls

p_values = st.lists(st.floats(0.0, 1.0), max_size=12)


def test_the_interval_is_that_of_scipys_percentile_bootstrap() -> None:
    values = np.random.default_rng(3).beta(2, 1, 200).tolist()
    ours = bootstrap_mean(values)
    theirs = bootstrap((values,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(0))
    assert ours.mean == pytest.approx(np.mean(values))
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.003)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.003)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        estimate = bootstrap_mean((random.random(60) < 0.8).astype(float).tolist())
        covered += estimate.low <= 0.8 <= estimate.high
    assert 0.90 <= covered / 400 <= 0.98


def test_equal_values_give_equal_intervals_and_a_constant_has_none() -> None:
    values = [0.0, 1.0, 1.0, 0.5]
    assert bootstrap_mean(values) == bootstrap_mean(values)
    constant = bootstrap_mean([0.7] * 9)
    assert constant.low == pytest.approx(0.7)
    assert constant.high == pytest.approx(0.7)
    assert bootstrap_mean([]).num == 0


@pytest.mark.parametrize(("lost", "gained"), [(5, 0), (6, 1), (9, 7), (0, 4), (20, 6), (30, 30)])
def test_on_hits_it_is_mcnemars_exact_test(lost: int, gained: int) -> None:
    differences = [-1.0] * lost + [1.0] * gained + [0.0] * 50
    exact = binomtest(gained, lost + gained, 0.5, alternative="less").pvalue
    (found,) = p_of_falls([differences])
    assert found == pytest.approx(exact, abs=0.0 if lost + gained <= 16 else 0.005)


def test_on_any_differences_it_is_scipys_permutation_test() -> None:
    differences = np.random.default_rng(5).normal(-0.3, 1.0, 12)
    theirs = permutation_test(
        (differences,), np.mean, permutation_type="samples", alternative="less", n_resamples=np.inf
    ).pvalue
    assert p_of_falls([differences.tolist()]) == [pytest.approx(theirs)]
    many = np.random.default_rng(6).normal(-0.1, 1.0, 80)
    theirs = permutation_test(
        (many,), np.mean, permutation_type="samples", alternative="less", n_resamples=20_000, rng=1
    ).pvalue
    assert p_of_falls([many.tolist()])[0] == pytest.approx(theirs, abs=0.01)


def test_no_difference_is_no_fall_and_a_gain_is_none_either() -> None:
    assert p_of_falls([[0.0] * 40, [1.0] * 8, []]) == [1.0, 1.0, 1.0]


def test_a_series_has_the_same_p_whatever_is_tested_beside_it() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(-0.2, 1, 40).tolist(), random.normal(0, 1, 90).tolist()
    assert p_of_falls([first]) == pytest.approx(p_of_falls([first, second])[:1], abs=0.01)
    assert p_of_falls([first, second]) == p_of_falls([first, second])


def test_false_alarms_are_as_frequent_as_alpha_says() -> None:
    random = np.random.default_rng(2)
    series = [random.normal(0.0, 1.0, 30).tolist() for _ in range(600)]
    assert np.mean(np.array(p_of_falls(series)) <= 0.05) == pytest.approx(0.05, abs=0.02)


@settings(deadline=None)
@given(st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0]), max_size=10))
def test_no_series_falls_below_what_it_can_attain(differences: list[float]) -> None:
    (found,) = p_of_falls([differences])
    assert found >= attainable_p(differences) or math.isclose(found, attainable_p(differences))


def test_holms_correction_of_a_worked_example() -> None:
    # 0.01 * 4, 0.02 * 3, 0.03 * 2 = 0.06, 0.04 * 1 raised to the one before
    assert holm([0.02, 0.01, 0.03, 0.04]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


@given(p_values)
def test_holm_lies_between_the_raw_and_bonferronis_and_keeps_the_order(values: list[float]) -> None:
    corrected = holm(values)
    for raw, kept in zip(values, corrected, strict=True):
        assert raw <= kept <= min(1.0, raw * len(values)) + 1e-12
    order = sorted(range(len(values)), key=lambda place: values[place])
    assert [corrected[place] for place in order] == sorted(corrected)


@given(p_values)
def test_holm_is_at_least_as_strict_as_the_false_discovery_rate(values: list[float]) -> None:
    if values:
        looser = false_discovery_control(values, method="bh")
        assert all(kept >= other - 1e-9 for kept, other in zip(holm(values), looser, strict=True))
