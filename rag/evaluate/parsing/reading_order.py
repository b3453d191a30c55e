"""NID: how far two texts agree in words and order."""

import re

from rapidfuzz import fuzz

_TABLE = re.compile(r"<table\b[^>]*>.*?</table>", re.IGNORECASE | re.DOTALL)


def nid(truth: str, predicted: str) -> float | None:
    """Twice the longest common subsequence over the sum of the lengths, white space collapsed; None of no truth."""
    truth, predicted = " ".join(truth.split()), " ".join(predicted.split())
    return fuzz.ratio(truth, predicted) / 100 if truth else None


def without_tables(text: str) -> str:
    """The text with a space for each HTML table: what NID-S compares."""
    return _TABLE.sub(" ", text)
