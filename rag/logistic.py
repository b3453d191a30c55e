"""A logistic regression over named features and the calibration of its scores, applied in plain numpy.

Training (`rag.evaluate.calibration`) writes them as JSON; what answers questions only reads them.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

Floats: TypeAlias = npt.NDArray[np.float64]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LogisticModel(_Record):
    """Weights over standardised features: logit = intercept + sum of weight * (value - mean) / scale."""

    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float

    @model_validator(mode="after")
    def _same_length(self) -> "LogisticModel":
        lengths = {len(self.features), len(self.means), len(self.scales), len(self.weights)}
        if len(lengths) != 1 or not all(scale > 0 for scale in self.scales):
            raise ValueError(f"{len(self.features)} features need as many means, weights and scales above 0")
        return self

    def logits(self, values: Floats) -> Floats:
        """The logits (n,) of feature values (n, num_features), in the order of `features`."""
        if values.ndim != 2 or values.shape[1] != len(self.features):
            raise ValueError(f"values of shape {values.shape}, expected (n, {len(self.features)})")
        standardised = (values - np.asarray(self.means)) / np.asarray(self.scales)
        logits: Floats = standardised @ np.asarray(self.weights) + self.intercept
        return logits

    def probabilities(self, values: Floats) -> Floats:
        """The probabilities (n,), each in [0, 1]."""
        return sigmoid(self.logits(values))


class Temperature(_Record):
    """Scores -> probabilities: sigmoid((score - shift) / temperature). A larger temperature is less sure.

    Source: Platt, 1999 (with a shift); Guo et al., On Calibration of Modern Neural Networks, ICML 2017 (without).
    """

    kind: Literal["temperature"] = "temperature"
    temperature: float = Field(gt=0.0)
    shift: float = 0.0

    def __call__(self, scores: Floats) -> Floats:
        return sigmoid((np.asarray(scores, np.float64) - self.shift) / self.temperature)


class PiecewiseLinear(_Record):
    """Scores -> probabilities by straight lines between knots, flat beyond the first and the last; never falling.

    Source: Zadrozny and Elkan, KDD 2002 (isotonic regression).
    """

    kind: Literal["isotonic"] = "isotonic"
    scores: tuple[float, ...] = Field(min_length=1)
    probabilities: tuple[float, ...]

    @model_validator(mode="after")
    def _rises(self) -> "PiecewiseLinear":
        if len(self.scores) != len(self.probabilities):
            raise ValueError(f"{len(self.scores)} knots have {len(self.probabilities)} probabilities")
        if list(self.scores) != sorted(self.scores) or list(self.probabilities) != sorted(self.probabilities):
            raise ValueError("the knots of a calibration must rise, in score and in probability")
        if not 0.0 <= self.probabilities[0] <= self.probabilities[-1] <= 1.0:
            raise ValueError("a probability is in [0, 1]")
        return self

    def __call__(self, scores: Floats) -> Floats:
        found: Floats = np.interp(np.asarray(scores, np.float64), self.scores, self.probabilities)
        return found


Calibration: TypeAlias = Temperature | PiecewiseLinear


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + exp(-x)), without an overflow for large x of either sign."""
    half: Floats = 0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits, np.float64)))
    return half


def rounded(values: Sequence[float] | Floats, digits: int = 6) -> tuple[float, ...]:
    """The values with so many significant digits, so that a file stays small and its noise out of version control."""
    return tuple(float(f"{value:.{digits}g}") for value in values)
