"""The entailment benchmark judges scorers on labelled claims, and a judge on a sample of them."""

import numpy as np
import pytest

from bench.entailment import AXIS, judge_all, judge_figures, judged_sample, labels_of, scorer_figures
from rag.evaluate.judge import Judge, Ruling
from rag.train.claims import ClaimKind, LabelledClaim
from tests.rag.evaluate.test_judge import ALWAYS_A


def claim(number: int, kind: ClaimKind) -> LabelledClaim:
    return LabelledClaim("a passage", f"claim {number}", kind in ("statement", "sentence"), kind, "d")


KINDS: list[ClaimKind] = ["statement", "sentence", "number", "unanswerable"]
CLAIMS = [claim(number, kind) for number, kind in enumerate(KINDS * 30)]


def test_a_perfect_scorer_is_right_on_every_kind() -> None:
    figures = scorer_figures(labels_of(CLAIMS).astype(np.float64), 0.5, CLAIMS)
    assert (figures["auc"], figures["accuracy"], figures["kappa"]) == (1.0, 1.0, 1.0)
    assert set(figures["right_by_kind"].values()) == {1.0}
    assert set(figures["auc_by_kind"]) == {"number", "unanswerable"}


def test_a_scorer_that_always_agrees_tells_nothing_apart() -> None:
    figures = scorer_figures(np.ones(len(CLAIMS)), 0.5, CLAIMS)
    assert (figures["auc"], figures["accuracy"], figures["kappa"]) == (0.5, 0.5, 0.0)
    assert figures["right_by_kind"] == {"statement": 1.0, "sentence": 1.0, "number": 0.0, "unanswerable": 0.0}


def test_the_judge_sees_as_many_of_both_and_no_plain_sentence() -> None:
    judged = judged_sample(CLAIMS, 20)
    assert sum(one.supported for one in judged) == 10
    assert {one.kind for one in judged} == {"statement", "unanswerable"}


async def test_a_judge_that_always_says_the_same_letter_may_not_gate() -> None:
    judged = judged_sample(CLAIMS, 60)
    judge = Judge(ALWAYS_A)
    figures = judge_figures("marker", judge, judged, await judge_all(judged, judge))
    assert (figures["kappa"], figures["ties"], figures["letters"]) == (0.0, 1.0, {"A": 120})
    assert "marker may not gate faithfulness" in figures["refusal"]


@pytest.mark.parametrize(("wrong", "may"), [(0, True), (9, True), (20, False)])
def test_a_judge_that_agrees_with_the_labels_may(wrong: int, may: bool) -> None:
    judged = judged_sample(CLAIMS, 60)
    rulings: list[Ruling] = ["yes" if one.supported != (place < wrong) else "no" for place, one in enumerate(judged)]
    figures = judge_figures("marker", Judge(ALWAYS_A), judged, rulings)
    assert (not figures["refusal"]) is may
    assert figures["accuracy"] == pytest.approx(1 - wrong / 60)
    assert AXIS == "faithfulness"
