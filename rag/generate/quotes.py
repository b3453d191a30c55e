"""Where the words that a model says it copied stand in a passage."""

import re
import unicodedata
from dataclasses import dataclass

from rapidfuzz import fuzz

_WORD = re.compile(r"\w+")
_MIN_FUZZY_WORDS = 3  # fewer words are found as they are, or not at all
_BRACKETS = {")": "(", "]": "[", "}": "{", "’": "‘", "”": "“", "»": "«"}
_BEFORE_NUMBER = re.compile(r"(?:(?<!\w)[+\-−~≈<>≤≥])?[$€£¥#§±]?$")
_AFTER_WORD = "%‰°€$£¥"


@dataclass(frozen=True, slots=True)
class QuotedSpan:
    """A stretch of a text that a quote was taken from: `text[start:end]`."""

    start: int
    end: int
    similarity: float  # 1.0: the same words; below, the share of equal characters in the closest stretch


def find_quote(quote: str, text: str, min_similarity: float) -> QuotedSpan | None:
    """The stretch of the text that the quote repeats; None where no stretch is as similar as `min_similarity`.

    Case, punctuation, white space and the form of letters ("ﬁ", "Ⅳ") do not count. A quote that is nowhere as it is
    has its closest stretch of whole words, by the indel similarity of the characters.
    """
    wanted, _ = _normal(quote)
    held, places = _normal(text)
    if not wanted or not held:
        return None
    at = f" {held} ".find(f" {wanted} ")
    if at >= 0:
        return QuotedSpan(*_with_signs(text, places[at][0], places[at + len(wanted) - 1][1]), 1.0)
    if len(wanted.split()) < _MIN_FUZZY_WORDS or len(wanted) > len(held):
        return None
    found = fuzz.partial_ratio_alignment(wanted, held, score_cutoff=100 * min_similarity)
    if found is None or found.dest_end <= found.dest_start:
        return None
    low = held.rfind(" ", 0, found.dest_start + 1) + 1
    high = held.find(" ", max(low, found.dest_end - 1))
    end = places[(high if high >= 0 else len(held)) - 1][1]
    return QuotedSpan(*_with_signs(text, places[low][0], end), found.score / 100)


def _with_signs(text: str, start: int, end: int) -> tuple[int, int]:
    """The stretch with the signs that belong to its outer words ("$12", "25%"), and the brackets that it lacks."""
    if text[start].isdigit() and (signs := _BEFORE_NUMBER.search(text, max(start - 3, 0), start)):
        start = signs.start()
    while end < len(text) and text[end] in _AFTER_WORD:
        end += 1
    while end < len(text) and (opening := _BRACKETS.get(text[end])):
        if text.count(opening, start, end) <= text.count(text[end], start, end):
            break
        end += 1
    for closing, opening in _BRACKETS.items():
        if text.startswith(opening, max(start - 1, 0), start) and (
            text.count(closing, start, end) > text.count(opening, start, end)
        ):
            start -= 1
    return start, end


def _normal(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text's words, folded and joined by one space, and for each character of that the place that it comes from."""
    pieces: list[str] = []
    places: list[tuple[int, int]] = []
    for word in _WORD.finditer(text):
        if pieces:
            pieces.append(" ")
            places.append((word.start(), word.start()))
        for place in range(word.start(), word.end()):
            folded = unicodedata.normalize("NFKC", text[place]).casefold()
            pieces.append(folded)
            places += [(place, place + 1)] * len(folded)
    return "".join(pieces), places
