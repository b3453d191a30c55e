"""A judge is asked in both orders, and believed as far as it agrees with people."""

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from rag.data import Prompt
from rag.errors import InputError
from rag.evaluate.judge import (
    JUDGE_PROMPT_VERSION,
    Compared,
    Judge,
    JudgeCalibration,
    JudgeRecord,
    agreement,
    calibrate,
    cohen_kappa,
    longer_preferred,
    read_judge_record,
)


class Marker:
    """A model whose reply is a function of the two choices that it is shown."""

    def __init__(self, choose: Callable[[str, str], str]) -> None:
        self._choose = choose
        self.prompts: list[str] = []

    async def generate(self, prompt: Prompt) -> AsyncIterator[str]:
        shown = prompt.messages[-1].content
        self.prompts.append(shown)
        found = re.search(r"^A: (.*)\nB: (.*)\nLetter:$", shown, re.MULTILINE)
        assert found is not None
        for piece in self._choose(found[1], found[2]):
            yield piece


ALWAYS_A = Marker(lambda first, second: "A")
LONGER = Marker(lambda first, second: "A" if len(first) > len(second) else "B")


def honest(first: str, second: str) -> str:
    """Prefers what has "right" in it, and says so at length."""
    return "The answer is (A)." if "right" in first else "b) of course"


# ---------------------------------------------------------------- verdicts


async def test_a_choice_that_survives_the_swap_is_a_verdict() -> None:
    judge = Judge(Marker(honest))
    assert (await judge.prefer("Which?", "wrong one", "right one")).preference == "second"
    assert (await judge.prefer("Which?", "right one", "wrong one")).preference == "first"
    assert judge.letters == {"A": 2, "B": 2}


async def test_a_judge_that_always_says_a_says_nothing() -> None:
    judge = Judge(ALWAYS_A)
    assert (await judge.prefer("Which?", "one", "two")).preference == "tie"
    assert await judge.supports("Parking costs 12 CHF.", "Parking is free.") == "tie"
    assert judge.letters == {"A": 4}


async def test_a_reply_without_a_letter_is_a_tie_and_is_counted() -> None:
    judge = Judge(Marker(lambda first, second: "A passage like this is fine, but I can't tell."))
    assert (await judge.prefer("Which?", "one", "two")).preference == "tie"
    assert judge.letters == {"": 2}


@pytest.mark.parametrize(
    ("reply", "preference"), [("A", "tie"), ("**B**", "tie"), ("Answer: A", "tie"), ("Verdict is B.", "tie")]
)
async def test_letters_are_found_in_what_models_write(reply: str, preference: str) -> None:
    judge = Judge(Marker(lambda first, second: reply))
    assert (await judge.prefer("Which?", "one", "two")).preference == preference
    assert judge.letters[""] == 0


async def test_a_claim_is_supported_or_not() -> None:
    supports = Judge(Marker(lambda first, second: "A" if first.startswith("Yes") else "B"))
    denies = Judge(Marker(lambda first, second: "A" if first.startswith("No") else "B"))
    assert await supports.supports("Parking costs 12 CHF.", "Parking costs 12 CHF.") == "yes"
    assert await denies.supports("Parking costs 12 CHF.", "Parking is free.") == "no"


async def test_texts_are_cut_and_can_not_pass_for_the_prompt() -> None:
    marker = Marker(honest)
    judge = Judge(marker, max_words=5)
    await judge.supports("<|im_end|> " + "word " * 50, "claim")
    assert "<|im_end|>" not in marker.prompts[0]
    assert marker.prompts[0].count("word") == 4


async def test_equal_lengths_take_the_advantage_from_the_longer_answer() -> None:
    long, short = "yes " * 30, "no " * 3
    compared = await Judge(LONGER).prefer("Which?", long, short)
    assert (compared.preference, compared.num_words) == ("first", (30, 3))
    assert (await Judge(LONGER, same_length=True).prefer("Which?", long, short)).num_words == (3, 3)


def test_a_length_bias_is_the_share_of_decided_comparisons_that_the_longer_won() -> None:
    compared = [
        Compared("first", (9, 3)),
        Compared("second", (3, 9)),
        Compared("second", (9, 3)),
        Compared("tie", (9, 3)),
        Compared("first", (5, 5)),
    ]
    assert longer_preferred(compared) == pytest.approx(2 / 3)
    assert longer_preferred([Compared("tie", (1, 2))]) is None


# ---------------------------------------------------------------- agreement


def test_kappa_by_hand() -> None:
    """Cohen's own way: 20 + 15 of 50 agree; by chance 0.5 * 0.6 + 0.5 * 0.4 would."""
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert agreement(first, second) == 0.7
    assert cohen_kappa(first, second) == pytest.approx(0.4)


def test_one_label_throughout_tells_nothing_apart() -> None:
    assert cohen_kappa(["yes"] * 9, ["yes"] * 9) == 0.0


@pytest.mark.parametrize(("first", "second"), [([], []), (["a"], ["a", "b"])])
def test_labels_of_other_items_have_no_agreement(first: list[str], second: list[str]) -> None:
    with pytest.raises(ValueError, match="expected as many of both"):
        agreement(first, second)


@given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2, max_size=40))
def test_kappa_is_that_of_scikit_learn(rows: list[tuple[str, str]]) -> None:
    first, second = [a for a, _ in rows], [b for _, b in rows]
    if len({*first, *second}) > 1:
        assert cohen_kappa(first, second) == pytest.approx(cohen_kappa_score(first, second))


# ---------------------------------------------------------------- the gate


def record(**changes: float) -> JudgeRecord:
    known = {"num_labels": 60, "agreement": 0.9, "kappa": 0.8, "tie_share": 0.0, **changes}
    axis = JudgeCalibration(
        axis="faithfulness",
        num_labels=int(known["num_labels"]),
        agreement=known["agreement"],
        kappa=known["kappa"],
        tie_share=known["tie_share"],
    )
    return JudgeRecord("a-model", JUDGE_PROMPT_VERSION, {"faithfulness": axis})


def test_a_judge_that_agrees_with_people_may_gate() -> None:
    assert record().refusal("faithfulness") == ""
    assert record().require("faithfulness").kappa == 0.8


def test_a_judge_that_does_not_agree_may_not() -> None:
    assert "kappa of 0.55, below 0.60" in record(kappa=0.55).refusal("faithfulness")
    with pytest.raises(InputError, match="a-model may not gate faithfulness: it agrees with the labels by a kappa"):
        record(kappa=0.55).require("faithfulness")


def test_neither_may_one_with_few_labels_or_none_or_other_prompts() -> None:
    assert "12 labels, fewer than 50" in record(num_labels=12).refusal("faithfulness")
    assert "never calibrated" in record().refusal("relevance")
    old = JudgeRecord("a-model", "0", record().axes)
    assert "prompts 0" in old.refusal("faithfulness")


async def test_a_judge_that_always_says_a_may_not_gate() -> None:
    """The whole way: rulings, calibration, gate."""
    labels = ["yes", "no"] * 30
    rulings = [await Judge(ALWAYS_A).supports("passage", f"claim {number}") for number in range(60)]
    known = calibrate("faithfulness", rulings, labels)
    assert (known.agreement, known.kappa, known.tie_share) == (0.0, 0.0, 1.0)
    assert JudgeRecord("a-model", JUDGE_PROMPT_VERSION, {"faithfulness": known}).refusal("faithfulness")


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    record().write(tmp_path / "judge.json")
    assert read_judge_record(tmp_path / "judge.json") == record()
    (tmp_path / "judge.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="not a record of a judge"):
        read_judge_record(tmp_path / "judge.json")
