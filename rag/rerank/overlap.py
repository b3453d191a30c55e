"""A reranker without weights: how much of the question a passage repeats."""

import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

_WORD = re.compile(r"\w+")


class OverlapReranker:
    """Scores a passage by the share of the question's words that it holds, long words counting more.

    Adjacent words of the question that are adjacent in the passage too count once more. Scores are in [0, 1].
    """

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """One score a passage, in order; higher is better. Zeros for a question without words."""
        words = _words(query)
        features: dict[tuple[str, ...], float] = {(word,): min(len(word), 6) / 6 for word in words}
        features |= {
            (first, second): (features[(first,)] + features[(second,)]) / 4 for first, second in pairwise(words)
        }
        total = math.fsum(features.values())
        return [_covered(features, passage) / total if total else 0.0 for passage in passages]

    def score_many(self, queries: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        """The scores of several questions' passages."""
        return [self.score(query, passages) for query, passages in queries]


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _covered(features: dict[tuple[str, ...], float], passage: str) -> float:
    words = _words(passage)
    present: set[tuple[str, ...]] = {(word,) for word in words} | set(pairwise(words))
    return math.fsum(weight for feature, weight in features.items() if feature in present)
