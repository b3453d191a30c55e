"""A language model as a judge: asked in both orders, held to one length, and only believed as far as people agree.

A verdict that changes when the choices change places is a tie. On which axis a judge may decide anything is measured
against labels by people (`calibrate`); `JudgeRecord.refusal` says why it may not.
"""

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from rag.data import Message, Prompt
from rag.errors import InputError
from rag.evaluate.metrics import mean
from rag.generate.prompt import neutralise
from rag.protocols import Generator

JUDGE_PROMPT_VERSION = "1"  # raised with every change of the words below: a calibration is of one version

Preference: TypeAlias = Literal["first", "second", "tie"]
Ruling: TypeAlias = Literal["yes", "no", "tie"]

MIN_KAPPA, MIN_LABELS = 0.6, 50  # 0.6: "substantial" begins here (Landis and Koch, 1977)

_RULES = "You are a strict judge. Answer with one letter, A or B, and nothing else."
# "A", "b)", "The answer is A."; not the article of "A passage says".
_CHOICE = re.compile(
    r"^\W*(?:the\W+)?(?:(?:answer|option|choice|verdict|letter)\W+)?(?:is\W+)?([AB])\b(?!\s+\w)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A preference between two answers, with their lengths: judges like long ones."""

    preference: Preference
    num_words: tuple[int, int]  # as they were judged


class Judge:
    """Asks a generator for one letter, twice: with the choices in either order. Let it write few tokens, greedily.

    Texts are cut to `max_words`; with `same_length`, answers that are compared are cut to the shorter one's length.
    """

    def __init__(self, generator: Generator, max_words: int = 150, same_length: bool = False) -> None:
        self._generator = generator
        self._max_words, self._same_length = max_words, same_length
        self.letters: Counter[str] = Counter()  # of all replies, "" where one named neither: a bias shows here

    async def supports(self, passage: str, claim: str) -> Ruling:
        """Whether the passage supports the claim; "tie" where the two orders do not agree."""
        shown = (
            f"Passage: {neutralise(_cut(passage, self._max_words))}\n\n"
            f"Claim: {neutralise(_cut(claim, self._max_words))}\n\nDoes the passage say that the claim is true?\n"
        )
        chosen = await self._both_orders(shown, "Yes, the passage says so.", "No, the passage does not say so.")
        return "tie" if chosen is None else "yes" if chosen == 0 else "no"

    async def prefer(self, question: str, first: str, second: str) -> Compared:
        """Which answer is better; "tie" where the two orders do not agree."""
        limit = self._max_words
        if self._same_length:
            limit = min(limit, len(first.split()), len(second.split()))
        answers = [_cut(answer, limit) for answer in (first, second)]
        shown = f"Question: {neutralise(_cut(question, self._max_words))}\n\nWhich answer is better?\n"
        chosen = await self._both_orders(shown, *map(neutralise, answers))
        preference: Preference = "tie" if chosen is None else "first" if chosen == 0 else "second"
        return Compared(preference, (len(answers[0].split()), len(answers[1].split())))

    async def _both_orders(self, shown: str, first: str, second: str) -> int | None:
        """0 or 1 where it is chosen in both orders, None else."""
        straight = await self._ask(f"{shown}A: {first}\nB: {second}\nLetter:")
        swapped = await self._ask(f"{shown}A: {second}\nB: {first}\nLetter:")
        return straight if straight is not None and swapped == 1 - straight else None

    async def _ask(self, text: str) -> int | None:
        """0 for A, 1 for B, None for anything else."""
        prompt = Prompt((Message("system", _RULES), Message("user", text)), ())
        found = _CHOICE.search("".join([piece async for piece in self._generator.generate(prompt)]))
        letter = found[1].upper() if found is not None else ""
        self.letters[letter] += 1
        return {"A": 0, "B": 1}.get(letter)


def _cut(text: str, max_words: int) -> str:
    words = text.split()
    return " ".join(words[:max_words])


# ---------------------------------------------------------------- length


def longer_preferred(compared: Sequence[Compared]) -> float | None:
    """The share of decided comparisons of unequal lengths in which the longer answer won; 0.5 is no bias.

    None where nothing was decided. Answers that are better and longer at once raise it too: read it beside labels.
    """
    decided = [one for one in compared if one.preference != "tie" and one.num_words[0] != one.num_words[1]]
    won = [(one.preference == "first") == (one.num_words[0] > one.num_words[1]) for one in decided]
    return mean(won) if won else None


# ---------------------------------------------------------------- agreement with people


def agreement(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """The share of items with equal labels. Raises ValueError for none, or for two lengths."""
    if not first or len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} labels: expected as many of both, at least one")
    return mean(a == b for a, b in zip(first, second, strict=True))


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Agreement above chance: (observed - expected) / (1 - expected), expected from both raters' own shares.

    1.0 is perfect, 0.0 is chance. 0.0 where both raters gave one and the same label throughout: nothing was told apart.

    Source: Cohen, Educational and Psychological Measurement, 1960.
    """
    observed = agreement(first, second)
    counted, other = Counter(first), Counter(second)
    expected = sum(counted[label] * other[label] for label in counted) / len(first) ** 2
    return (observed - expected) / (1.0 - expected) if expected < 1.0 else 0.0


@dataclass(frozen=True, slots=True)
class JudgeCalibration:
    """How far a judge agrees with people on one axis; a tie agrees with nobody who decided."""

    axis: str
    num_labels: int
    agreement: float
    kappa: float
    tie_share: float
    longer_preferred: float | None = None


def calibrate(
    axis: str, verdicts: Sequence[str], labels: Sequence[str], compared: Sequence[Compared] = ()
) -> JudgeCalibration:
    """The agreement of verdicts with the labels of the same items."""
    return JudgeCalibration(
        axis=axis,
        num_labels=len(labels),
        agreement=agreement(verdicts, labels),
        kappa=cohen_kappa(verdicts, labels),
        tie_share=mean(verdict == "tie" for verdict in verdicts),
        longer_preferred=longer_preferred(compared),
    )


@dataclass(frozen=True, slots=True)
class JudgeRecord:
    """What is known of one judge: its model, the version of its prompts, and its calibration on each axis."""

    model: str
    prompt_version: str
    axes: Mapping[str, JudgeCalibration]

    def refusal(self, axis: str, min_kappa: float = MIN_KAPPA, min_labels: int = MIN_LABELS) -> str:
        """Why the judge may not gate the axis, in words; "" where it may."""
        known = self.axes.get(axis)
        if known is None:
            return f"{self.model} may not gate {axis}: it was never calibrated there"
        reasons = []
        if self.prompt_version != JUDGE_PROMPT_VERSION:
            reasons.append(f"it was calibrated on prompts {self.prompt_version}, these are {JUDGE_PROMPT_VERSION}")
        if known.kappa < min_kappa:
            reasons.append(f"it agrees with the labels by a kappa of {known.kappa:.2f}, below {min_kappa:.2f}")
        if known.num_labels < min_labels:
            reasons.append(f"it was calibrated on {known.num_labels} labels, fewer than {min_labels}")
        return f"{self.model} may not gate {axis}: {'; '.join(reasons)}" if reasons else ""

    def require(self, axis: str, min_kappa: float = MIN_KAPPA, min_labels: int = MIN_LABELS) -> JudgeCalibration:
        """The calibration of an axis that the judge may gate. Raises InputError with the reason where it may not."""
        if reason := self.refusal(axis, min_kappa, min_labels):
            raise InputError(reason)
        return self.axes[axis]

    def write(self, path: Path) -> None:
        """Writes the record as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read_judge_record(path: Path) -> JudgeRecord:
    """The record in the file. Raises InputError."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        axes = {name: JudgeCalibration(**axis) for name, axis in row["axes"].items()}
        return JudgeRecord(row["model"], row["prompt_version"], axes)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a record of a judge: {error}") from error
