"""Claims with a label: does the passage support them? Made from questions with answers, and from those without.

A question with its answer becomes a statement that its passage supports. What no passage supports is made from it: the
statement over another passage of the same document, with another answer, another number, another name or negated, and
questions that their passage does not answer, with an answer that it gives to something else.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rag.generate.overlap import TextFacts, answer_type, facts_of, holds_type
from rag.generate.sentences import sentences
from rag.generate.statements import statement
from rag.train.labelled import LabelledQuestion

ClaimKind = Literal[
    "statement", "sentence", "other_passage", "other_answer", "number", "name", "negated", "unanswerable"
]
SUPPORTED: tuple[ClaimKind, ...] = ("statement", "sentence")

_VERB = re.compile(r"\b(is|are|was|were|has|have|had|can|could|will|would|should|must|may|did|does)\b")
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?![\w])")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")


@dataclass(frozen=True, slots=True)
class LabelledClaim:
    """A sentence, a passage, and whether the passage supports it."""

    premise: str
    claim: str
    supported: bool
    kind: ClaimKind
    document: str


def make_claims(
    answerable: Sequence[LabelledQuestion], unanswerable: Sequence[LabelledQuestion], seed: int = 0
) -> list[LabelledClaim]:
    """For each answerable question two supported claims and up to three others, for each unanswerable one up to one.

    The same questions give the same claims: what is drawn is drawn from the seed, in the order given.
    """
    drawn = random.Random(seed)
    by_document: defaultdict[str, list[LabelledQuestion]] = defaultdict(list)
    by_passage: defaultdict[str, list[str]] = defaultdict(list)
    for question in answerable:
        by_document[question.document].append(question)
        by_passage[question.passage].append(question.answer)
    claims = [claim for question in answerable for claim in _claims_of(question, by_document, by_passage, drawn)]
    for question in unanswerable:
        other = _other_answer(question, by_passage[question.passage], drawn)
        if other:
            claims.append(_claim(question, statement(question.question, other), "unanswerable"))
    return claims


def answer_sentence(question: LabelledQuestion) -> str | None:
    """The sentence of the passage that holds the answer; None where none does."""
    wanted = question.answer.casefold()
    return next((" ".join(s.split()) for s in sentences(question.passage) if wanted in s.casefold()), None)


def _claims_of(
    question: LabelledQuestion,
    by_document: Mapping[str, Sequence[LabelledQuestion]],
    by_passage: Mapping[str, Sequence[str]],
    drawn: random.Random,
) -> Iterator[LabelledClaim]:
    said = statement(question.question, question.answer)
    yield _claim(question, said, "statement")
    sentence = answer_sentence(question)
    shown = sentence or said
    if sentence is not None:
        yield _claim(question, sentence, "sentence")

    others = [other for other in by_document[question.document] if question.answer not in other.passage]
    if others:
        other = drawn.choice(others)
        yield LabelledClaim(other.passage, said, False, "other_passage", question.document)
    if wrong := _other_answer(question, by_passage[question.passage], drawn):
        yield _claim(question, statement(question.question, wrong), "other_answer")
    # One change a sentence: number where it has one, else name, else negation, so that all kinds come up.
    changed = _with_other_number(shown, drawn)
    kind: ClaimKind = "number"
    if changed is None:
        names = [name for other in others for name in _NAME.findall(other.passage) if name not in question.passage]
        changed, kind = _with_other_name(shown, names, drawn), "name"
    if changed is None or drawn.random() < 0.25:
        changed, kind = _negated(shown), "negated"
    if changed is not None:
        yield _claim(question, changed, kind)


def _claim(question: LabelledQuestion, claim: str, kind: ClaimKind) -> LabelledClaim:
    return LabelledClaim(question.passage, claim, kind in SUPPORTED, kind, question.document)


def _other_answer(question: LabelledQuestion, answers: Sequence[str], drawn: random.Random) -> str | None:
    """An answer of the passage to another question, of the kind that is asked for where there is one."""
    asked, right = TextFacts(question.question), facts_of(question.answer)
    wrong = [answer for answer in dict.fromkeys(answers) if not facts_of(answer).stems & (right.stems | asked.stems)]
    kind = answer_type(question.question)
    fitting = [answer for answer in wrong if holds_type(TextFacts(f"it {answer}"), kind, asked)]
    return drawn.choice(fitting or wrong) if wrong else None


def _with_other_number(sentence: str, drawn: random.Random) -> str | None:
    found = list(_NUMBER.finditer(sentence))
    if not found:
        return None
    place = drawn.choice(found)
    value = int(place.group().replace(",", "") or "0")
    other = value + drawn.choice((-7, -3, -2, -1, 1, 2, 3, 10)) if value > 10 else value + drawn.choice((1, 2, 3, 5))
    return f"{sentence[: place.start()]}{abs(other)}{sentence[place.end() :]}"


def _with_other_name(sentence: str, names: Sequence[str], drawn: random.Random) -> str | None:
    found = list(_NAME.finditer(sentence))
    if not found or not names:
        return None
    place = drawn.choice(found)
    return f"{sentence[: place.start()]}{drawn.choice(names)}{sentence[place.end() :]}"


def _negated(sentence: str) -> str | None:
    """The sentence with "not" behind its first auxiliary; None where it has none, or is negated already."""
    if TextFacts(sentence).negated:
        return None
    changed, count = _VERB.subn(r"\1 not", sentence, count=1)
    return changed if count else None
