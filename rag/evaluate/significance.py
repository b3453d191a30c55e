"""How sure is a mean, and is a fall more than chance? Everything here is seeded: equal values, equal answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rag.evaluate.metrics import mean

Floats = npt.NDArray[np.float64]

RESAMPLES = 2_000
FLIPS = 50_000
_FLIPS_AT_ONCE = 5_000
_MOST_EXACT = 16  # so many questions that differ can be flipped in every way
_TOLERANCE = 1e-9  # sums of the same values in another order differ in their last bits


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions with its 95% bootstrap interval."""

    mean: float
    low: float
    high: float
    num: int  # questions


def bootstrap_mean(values: Sequence[float], level: float = 0.95, seed: int = 0) -> Estimate:
    """The mean with its percentile bootstrap interval over questions; of nothing, zeros.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    if not values:
        return Estimate(0.0, 0.0, 0.0, 0)
    array = np.asarray(values, np.float64)
    means = _draws(len(array), seed) @ array / len(array)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(mean(values), float(low), float(high), len(array))


def p_of_falls(differences: Sequence[Sequence[float]], seed: int = 0) -> list[float]:
    """For each series of paired differences (after - before), the chance of so low a mean if a question were as likely
    to gain as to lose: the one-sided sign-flip permutation test.

    On hits, which are lost or gained whole, it is McNemar's exact test, up to the noise of the random flips; where at
    most 16 questions differ, all flips are made instead. 1.0 where none differs.

    Source: Smucker, Allan and Carterette, CIKM 2007 (randomisation tests for retrieval).
    """
    changed = [np.array([value for value in series if value != 0.0], np.float64) for series in differences]
    many = [place for place, series in enumerate(changed) if len(series) > _MOST_EXACT]
    as_low = dict.fromkeys(many, 0)
    random = np.random.default_rng(seed)
    longest = max((len(changed[place]) for place in many), default=0)
    for _ in range(FLIPS // _FLIPS_AT_ONCE if many else 0):
        signs = random.integers(0, 2, (_FLIPS_AT_ONCE, longest), np.int8) * 2.0 - 1.0
        for place in many:
            as_low[place] += _as_low(changed[place], signs[:, : len(changed[place])])
    return [
        (as_low[place] + 1) / (FLIPS + 1) if place in as_low else _exact_p(series)
        for place, series in enumerate(changed)
    ]


def attainable_p(differences: Sequence[float]) -> float:
    """The lowest p-value that `p_of_falls` could give a series in which these questions differ, whichever way."""
    return 0.5 ** sum(difference != 0.0 for difference in differences)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values corrected for there being so many of them, in order, each at most 1.

    Rejecting all that are at most alpha then keeps the chance of any false alarm at alpha, however they depend on each
    other.

    Source: Holm, Scandinavian Journal of Statistics, 1979.
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


@lru_cache(maxsize=8)
def _draws(num: int, seed: int) -> Floats:
    """How often each of so many questions comes in each resample: drawing counts is drawing the questions."""
    counts = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), RESAMPLES)
    return counts.astype(np.float64)


def _exact_p(changed: Floats) -> float:
    flips = np.arange(2 ** len(changed))[:, None] >> np.arange(len(changed)) & 1
    return _as_low(changed, flips * 2.0 - 1.0) / len(flips)


def _as_low(changed: Floats, signs: Floats) -> int:
    """How many of the flips, a row each, give a sum as low as the observed one."""
    return int((signs @ np.abs(changed) <= changed.sum() + _TOLERANCE).sum())
