"""What is the same passes, what fell fails, and neither luck nor another set of questions is taken for a result."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.errors import InputError
from rag.evaluate.gate import GATED, Comparison, GateRules, gate
from rag.evaluate.invariants import INVARIANTS
from rag.evaluate.run import Column, EvaluationRun

NUM = 80
IDS = tuple(f"g{number:03}" for number in range(NUM))


def make_run(ndcg: Column | None = None, **changes: object) -> EvaluationRun:
    """A run of one stage whose metrics all have the values of `ndcg`."""
    ndcg = ndcg or tuple(np.random.default_rng(0).random(NUM).round(4).tolist())
    run = EvaluationRun(
        dataset="golden",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        versions={"index": "v-1"},
        settings={"rerank.weights": "a", "search.k_bm25": "50"},
        runtime={},
        ids=IDS,
        digests=tuple(f"d{name}" for name in IDS),
        slices={"kind": tuple("table" if number % 4 == 0 else "lookup" for number in range(NUM))},
        scores={"bm25": dict.fromkeys(("hit@5", "recall", "ndcg@10", "outscored", "separation"), ndcg)},
        invariants=dict.fromkeys(INVARIANTS, (0,) * NUM),
        results=tuple(f"r{name}" for name in IDS),
    )
    return replace(run, **changes)  # type: ignore[arg-type]


def lowered(run: EvaluationRun, by: float, questions: range, metric: str = "ndcg@10") -> EvaluationRun:
    column = tuple(
        value if value is None or row not in questions else round(value - by, 4)
        for row, value in enumerate(run.scores["bm25"][metric])
    )
    return replace(run, scores={"bm25": {**run.scores["bm25"], metric: column}})


BEFORE = make_run()


def fall(run: EvaluationRun, rules: GateRules | None = None) -> Comparison:
    (found,) = [one for one in gate(BEFORE, run, rules).falls if one.scope == "all"]
    return found


@settings(max_examples=20, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=NUM, max_size=NUM))
def test_the_same_run_passes_whatever_is_in_it(values: list[float | None]) -> None:
    run = make_run(tuple(values))
    verdict = gate(run, run, GateRules(alpha=0.9))
    assert verdict.ok
    assert verdict.num_changed == 0
    assert not any(one.worse or one.better for one in verdict.comparisons)


def test_a_fall_of_many_questions_is_caught_and_says_which() -> None:
    found = fall(lowered(BEFORE, 0.3, range(12)))
    assert (found.stage, found.metric, found.scope) == ("bm25", "ndcg@10", "all")
    assert set(found.worse) == set(IDS[:12])
    assert found.better == ()
    assert found.difference == pytest.approx(-0.3 * 12 / NUM)
    assert found.p == pytest.approx(2 / 2**12 / 2)  # the others can't be sure, and are not counted


def test_a_rise_is_no_fall() -> None:
    assert gate(BEFORE, lowered(BEFORE, -0.3, range(40))).ok


def test_a_few_questions_may_be_chance() -> None:
    assert gate(BEFORE, lowered(BEFORE, 0.9, range(4))).ok


def test_as_many_better_as_worse_is_chance_too() -> None:
    mixed = lowered(lowered(BEFORE, 0.3, range(20)), -0.3, range(20, 40))
    assert gate(BEFORE, mixed).ok


def test_a_sure_fall_that_is_too_small_passes() -> None:
    tiny = lowered(BEFORE, GATED["ndcg@10"] * 0.9, range(NUM))
    verdict = gate(BEFORE, tiny)
    assert verdict.ok
    (compared,) = [one for one in verdict.comparisons if (one.scope, one.metric) == ("all", "ndcg@10")]
    assert compared.p < 0.001


def test_a_fall_in_one_slice_is_caught_where_the_mean_of_all_hides_it() -> None:
    tables = [row for row in range(NUM) if row % 4 == 0]
    worse = BEFORE
    for row in tables[:14]:
        worse = lowered(worse, 0.4, range(row, row + 1))
    for row in range(NUM):
        if row % 4:
            worse = lowered(worse, -0.1, range(row, row + 1))
    falls = gate(BEFORE, worse).falls
    assert [one.scope for one in falls] == ["kind=table"]


def test_small_slices_are_not_compared() -> None:
    scopes = {one.scope for one in gate(BEFORE, BEFORE, GateRules(min_slice=21)).comparisons}
    assert scopes == {"all", "kind=lookup"}


@pytest.mark.parametrize("name", list(INVARIANTS))
def test_an_invariant_allows_nothing(name: str) -> None:
    column = (0,) * 7 + (1,) + (0,) * (NUM - 8)
    verdict = gate(BEFORE, make_run(invariants={**BEFORE.invariants, name: column}))
    assert not verdict.ok
    (broken,) = verdict.broken
    assert (broken.name, broken.before, broken.after, broken.questions) == (name, 0, 1, (IDS[7],))


def test_missing_questions_fail_and_added_ones_are_named() -> None:
    def rows(column: tuple[object, ...]) -> tuple[object, ...]:
        return column[1:]

    shorter = make_run(
        BEFORE.scores["bm25"]["ndcg@10"][1:],
        ids=rows(BEFORE.ids),
        digests=rows(BEFORE.digests),
        slices={"kind": rows(BEFORE.slices["kind"])},
        invariants=dict.fromkeys(INVARIANTS, (0,) * (NUM - 1)),
        results=rows(BEFORE.results),
    )
    verdict = gate(BEFORE, shorter)
    assert (verdict.ok, verdict.missing) == (False, (IDS[0],))
    grown = gate(shorter, BEFORE)
    assert (grown.ok, grown.added) == (True, (IDS[0],))


def test_a_stage_that_was_not_measured_fails() -> None:
    verdict = gate(replace(BEFORE, scores={**BEFORE.scores, "dense": BEFORE.scores["bm25"]}), BEFORE)
    assert (verdict.ok, verdict.not_measured) == (False, ("dense",))


def test_other_questions_are_the_callers_mistake() -> None:
    with pytest.raises(InputError, match="the baseline asks the questions of golden, and this run those of cisi"):
        gate(BEFORE, make_run(ids=tuple(f"q{name}" for name in IDS), dataset="cisi"))
    with pytest.raises(InputError, match="1 questions are not what they were in the baseline, first g003"):
        gate(BEFORE, make_run(digests=(*BEFORE.digests[:3], "other", *BEFORE.digests[4:])))


@pytest.mark.parametrize(
    ("metric", "setting", "compared"),
    [
        ("separation", "search.k_bm25", False),
        ("outscored", "search.k_bm25", False),
        ("ndcg@10", "search.k_bm25", True),
        ("separation", "rerank.weights", True),  # no model of the reranker scores what BM25 finds
    ],
)
def test_scores_are_compared_only_where_they_mean_the_same(metric: str, setting: str, compared: bool) -> None:
    worse = lowered(BEFORE, 0.5, range(40), metric)
    verdict = gate(BEFORE, replace(worse, settings={**BEFORE.settings, setting: "other"}))
    assert verdict.ok is not compared
    assert verdict.changed_settings == {setting: (BEFORE.settings[setting], "other")}


def test_separation_of_a_reranker_needs_the_same_weights() -> None:
    def reranked(run: EvaluationRun, weights: str) -> EvaluationRun:
        return replace(run, scores={"reranked": run.scores["bm25"]}, settings={"rerank.weights": weights})

    worse = lowered(BEFORE, 0.5, range(40), "separation")
    assert not gate(reranked(BEFORE, "a"), reranked(worse, "a")).ok
    assert gate(reranked(BEFORE, "a"), reranked(worse, "b")).ok


def test_false_alarms_are_rare_where_only_chance_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.evaluate.significance.FLIPS", 5_000)
    random = np.random.default_rng(1)
    alarms = 0
    for _ in range(60):
        after = make_run(tuple(np.clip(random.random(NUM), 0, 1).round(4).tolist()))
        before = make_run(tuple(np.clip(random.random(NUM), 0, 1).round(4).tolist()))
        alarms += not gate(before, after).ok
    assert alarms / 60 <= 0.15  # two families at 0.05 each


def test_the_surest_falls_come_first() -> None:
    worse = lowered(lowered(BEFORE, 0.5, range(60)), 0.3, range(9), "hit@5")
    falls = gate(BEFORE, worse).falls
    assert [one.p for one in falls] == sorted(one.p for one in falls)
    assert falls[0].metric == "ndcg@10"
