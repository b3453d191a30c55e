"""Latencies are taken apart as the stages report them."""

import pytest

from bench.load import Ask, Outcome
from bench.serve import spread, stage_figures, transport_ms, whole_figures
from jobs.client import Stage

ASK = Ask("x", "ann")


def make_outcome(total_ms: float, *stages: Stage, first_text_ms: float | None = None) -> Outcome:
    return Outcome(ASK, 200, 0.0, total_ms, stages=stages, retrieval_ms=total_ms / 2, first_text_ms=first_text_ms)


SEARCH = Stage(name="search", start_ms=10.0, wall_ms=8.0, compute_ms=5.0)
FIRST_TOKEN = Stage(name="first_token", start_ms=20.0, wall_ms=100.0, compute_ms=100.0)
GENERATE = Stage(name="generate", start_ms=120.0, wall_ms=190.0, compute_ms=190.0, counts={"tokens": 20})


def test_the_rest_of_a_stage_is_its_wall_time_without_its_computing() -> None:
    slower = Stage(name="search", wall_ms=20.0, compute_ms=6.0)
    figures = stage_figures([make_outcome(50.0, SEARCH), make_outcome(60.0, slower)])["search"]
    assert figures["count"] == 2
    assert figures["wall_ms"] == {"p50": 8.0, "p95": 20.0, "p99": 20.0}
    assert figures["rest_ms"] == {"p50": 3.0, "p95": 14.0, "p99": 14.0}
    assert figures["budget_ms"] == 30.0


def test_transport_is_http_time_without_the_computing_of_all_stages() -> None:
    assert transport_ms([make_outcome(25.0, SEARCH, FIRST_TOKEN)]) == [25.0 - 105.0]
    assert transport_ms([make_outcome(25.0, SEARCH)]) == [20.0]


def test_first_token_and_time_per_token_come_from_the_stages() -> None:
    whole = whole_figures([make_outcome(400.0, SEARCH, FIRST_TOKEN, GENERATE, first_text_ms=150.0)])
    assert whole["first_token_ms"]["p50"] == 120.0
    assert whole["first_text_ms"]["p50"] == 150.0
    assert whole["tpot_ms"]["p50"] == pytest.approx(10.0)
    assert whole["end_to_end_ms"]["p50"] == 400.0


def test_an_abstention_has_no_first_token() -> None:
    whole = whole_figures([make_outcome(40.0, SEARCH, first_text_ms=39.0)])
    assert {"first_token_ms", "first_text_ms", "tpot_ms"}.isdisjoint(whole)
    assert whole["retrieval_ready_ms"]["p50"] == 20.0


def test_the_spread_is_one_median_a_run() -> None:
    runs = [[make_outcome(float(total))] for total in (10, 30, 20)]
    assert spread(runs)["end_to_end_ms"] == {"p50_of_each_run": [10.0, 30.0, 20.0], "median": 20.0}
