"""What one text says of another, counted in words: shared content, missing numbers and names, negation, answer type.

None of these needs a model. They are the features by which claims are checked and questions are declined.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal

from rag.generate.sentences import sentences
from rag.rewrite.words import STOP_WORDS, content_words, exact_terms, stem, tokens, words

AnswerType = Literal["person", "date", "number", "place", ""]

_NEGATIONS_TEXT = """
    no not never none neither nor cannot without nobody nothing except exclude excludes excluded excluding unless
    fail fails failed refuse refuses refused lack lacks lacked prohibit prohibited forbid forbidden unlike unable
"""
_NEGATIONS = frozenset(_NEGATIONS_TEXT.split())
_NEGATED_VERB = re.compile(r"n['’]t\b", re.IGNORECASE)

_ANSWER_TYPES: tuple[tuple[re.Pattern[str], AnswerType], ...] = (
    (re.compile(r"\bhow (?:many|much|long|far|old|often|tall|large|big|deep|high|fast|soon|late)\b"), "number"),
    (
        re.compile(r"\b(?:what|which) (?:percent(?:age)?|number|amount|share|age|size|rate|price|cost|limit)\b"),
        "number",
    ),
    (re.compile(r"\b(?:when|(?:what|which) (?:year|date|day|month|decade|century|time))\b"), "date"),
    (re.compile(r"\b(?:who|whom|whose|(?:what|which) (?:person|people))\b"), "person"),
    (re.compile(r"\b(?:where|(?:what|which) (?:city|country|state|place|town|region|room|building))\b"), "place"),
)
_NUMBER_WORDS = """
    one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred hundreds
    thousand thousands million millions billion billions half third quarter dozen first second once twice daily
    weekly monthly yearly annually
"""
_NUMBER = re.compile(rf"\d|\b(?:{'|'.join(_NUMBER_WORDS.split())})\b", re.IGNORECASE)
_DATE_WORDS = """
    january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday day days week weeks month months year years decade century hour hours minute
    minutes today tomorrow yesterday morning afternoon evening night noon midnight spring summer autumn winter
    before after during
"""
_DATE = re.compile(rf"\d|\b(?:{'|'.join(_DATE_WORDS.split())})\b", re.IGNORECASE)
_MANY_CAPITALS = re.compile(r"[^A-Z]*(?:[A-Z][^A-Z]*){2,}")
_RARE_LETTERS = 8  # without a corpus at hand, long words stand for rare ones


@dataclass(frozen=True, eq=False)
class TextFacts:
    """A text with what the features ask of it, each computed once."""

    text: str

    @cached_property
    def content(self) -> tuple[str, ...]:
        """The stems of the words that carry meaning, in order."""
        return tuple(stem(word.lower()) for word in content_words(self.text))

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(self.content)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Neighbours among the content words: their order says who did what to whom."""
        return frozenset(pairwise(self.content))

    @cached_property
    def exact(self) -> frozenset[str]:
        """Numbers, dates, versions and identifiers."""
        return exact_terms(self.text)

    @cached_property
    def names(self) -> frozenset[str]:
        """Stems of words with a capital inside a sentence, and of those with several: "Luther", "GSA"."""
        return frozenset(_names(self.text))

    @cached_property
    def rare(self) -> frozenset[str]:
        """Stems of long words."""
        return frozenset(stem(word.lower()) for word in content_words(self.text) if len(word) >= _RARE_LETTERS)

    @cached_property
    def negated(self) -> bool:
        """Whether the text denies, excludes or refuses something."""
        return bool(_NEGATIONS & set(words(self.text))) or _NEGATED_VERB.search(self.text) is not None

    @cached_property
    def sentences(self) -> tuple["TextFacts", ...]:
        return tuple(TextFacts(sentence) for sentence in sentences(self.text)) or (self,)


@lru_cache(maxsize=2_048)
def facts_of(text: str) -> TextFacts:
    """The facts of a text that is looked at more than once."""
    return TextFacts(text)


def share_in(
    wanted: frozenset[str] | frozenset[tuple[str, str]], held: frozenset[str] | frozenset[tuple[str, str]]
) -> float:
    """The share of what is wanted that is held; 1.0 where nothing is wanted."""
    return len(wanted & held) / len(wanted) if wanted else 1.0


def best_sentence_place(text: TextFacts, wanted: frozenset[str]) -> int:
    """The place of the sentence that holds most of the wanted stems; the earlier of equals."""
    return max(range(len(text.sentences)), key=lambda place: (len(wanted & text.sentences[place].stems), -place))


def around_sentence(text: TextFacts, place: int) -> TextFacts:
    """The sentence at the place with its neighbours on both sides."""
    return TextFacts(" ".join(sentence.text for sentence in text.sentences[max(0, place - 1) : place + 2]))


def answer_type(question: str) -> AnswerType:
    """What kind of thing the question asks for; "" where its words do not say."""
    lowered = question.lower()
    return next((kind for pattern, kind in _ANSWER_TYPES if pattern.search(lowered)), "")


def holds_type(text: TextFacts, kind: AnswerType, asked: TextFacts) -> bool:
    """Whether the text holds something of the kind that the question does not hold itself."""
    match kind:
        case "number":
            return any(_NUMBER.search(word) and word not in asked.exact for word in words(text.text))
        case "date":
            return any(_DATE.search(word) and word not in words(asked.text) for word in words(text.text))
        case "person" | "place":
            return bool(text.names - asked.stems)
        case _:
            return True


def _names(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        for place, token in enumerate(tokens(sentence)):
            lowered = token.lower()
            named = token[:1].isupper() and (place > 0 or _MANY_CAPITALS.fullmatch(token) is not None)
            if named and lowered not in STOP_WORDS and not any(character.isdigit() for character in token):
                yield stem(lowered)
