"""When to abstain: scores calibrated to P(answerable), the abstention curve, and thresholds chosen by cost or coverage.

Fitting needs scikit-learn, which brings scipy, and plotting needs matplotlib (`pip install quire[train]`); they are
imported where they are used. What is fitted is applied by `rag.logistic`, without any of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rag.generate.evidence import AnswerabilityModel
from rag.logistic import Calibration, Floats, LogisticModel, PiecewiseLinear, Temperature, rounded, sigmoid

Flags: TypeAlias = npt.NDArray[np.bool_]
Method = Literal["isotonic", "temperature"]

_STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # inverses of the regularisation that are tried
_STRENGTH = 100.0  # inverse of the regularisation of a single scale: keeps separable scores from an endless slope


# ---------------------------------------------------------------- fitting


def fit_logistic(
    values: Floats, labels: Flags, names: Sequence[str], strength: float = 1.0, signs: Mapping[str, int] | None = None
) -> LogisticModel:
    """A logistic regression of the labels on features (n, num_features), standardised; both classes count the same.

    `strength` is the inverse of the L2 regularisation. A feature without variation gets no weight. A feature with a
    sign (1 or -1) gets a weight of that sign or none, so that more of it never speaks for the other side.
    """
    from scipy.optimize import minimize

    _check(labels)
    means, scales = values.mean(axis=0), values.std(axis=0)
    scales[scales < 1e-9] = 1.0
    standardised = np.column_stack([(values - means) / scales, np.ones(len(labels))])
    target = np.where(labels, 1.0, -1.0)
    share = np.where(labels, labels.mean(), 1.0 - labels.mean())
    row_weights = 0.5 / share
    penalty = np.r_[np.full(len(names), 1.0 / strength), 0.0]  # none on the intercept

    def loss(weights: Floats) -> tuple[float, Floats]:
        margins = target * (standardised @ weights)
        value = np.sum(row_weights * np.logaddexp(0.0, -margins)) + 0.5 * np.sum(penalty * weights**2)
        slope = -row_weights * target * sigmoid(-margins)
        return float(value), standardised.T @ slope + penalty * weights

    limits = {0: (None, None), 1: (0.0, None), -1: (None, 0.0)}
    bounds = [limits[(signs or {}).get(name, 0)] for name in names]
    fitted = minimize(loss, np.zeros(len(names) + 1), jac=True, method="L-BFGS-B", bounds=[*bounds, (None, None)])
    return LogisticModel(
        features=tuple(names),
        means=rounded(means),
        scales=rounded(scales),
        weights=rounded(fitted.x[:-1]),
        intercept=rounded(fitted.x[-1:])[0],
    )


def fit_isotonic(scores: Floats, labels: Flags) -> PiecewiseLinear:
    """The never falling function of the scores that is nearest to the labels in squared error."""
    from sklearn.isotonic import IsotonicRegression

    _check(labels)
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(scores, labels.astype(np.float64))
    return PiecewiseLinear(
        scores=rounded(fitted.X_thresholds_), probabilities=rounded(np.clip(fitted.y_thresholds_, 0.0, 1.0))
    )


def fit_temperature(scores: Floats, labels: Flags, with_shift: bool = True) -> Temperature:
    """The sigmoid of the scores under which the labels are likeliest.

    Raises ValueError where higher scores go with fewer positive labels: no temperature can turn that around.
    """
    from sklearn.linear_model import LogisticRegression

    _check(labels)
    spread = float(scores.std()) or 1.0
    column = (scores / spread)[:, np.newaxis]
    fitted = LogisticRegression(C=_STRENGTH, fit_intercept=with_shift, max_iter=2_000).fit(column, labels)
    slope = float(fitted.coef_[0, 0]) / spread
    if slope <= 0.0:
        raise ValueError(f"higher scores go with fewer positive labels (slope {slope:.3g}): not a score of evidence")
    shift = -float(fitted.intercept_[0]) / slope if with_shift else 0.0
    return Temperature(temperature=rounded([1.0 / slope])[0], shift=rounded([shift])[0])


def fit_calibration(scores: Floats, labels: Flags, method: Method) -> Calibration:
    """The calibration of that name."""
    return fit_isotonic(scores, labels) if method == "isotonic" else fit_temperature(scores, labels)


def fit_answerability(
    values: Floats,
    labels: Flags,
    names: Sequence[str],
    documents: Sequence[str],
    method: Method = "temperature",
    answered_share: float = 0.9,
    num_folds: int = 5,
    signs: Mapping[str, int] | None = None,
) -> AnswerabilityModel:
    """A logistic regression over the features (n, num_features), calibrated, with its threshold.

    Calibration and threshold come from logits of rows whose document the regression had not seen (folds by document),
    so that they are as good as the model will be on new questions; so does the strength of the regularisation.
    `answered_share` of the answerable are answered.
    """
    by_strength = {s: out_of_fold_logits(values, labels, names, documents, num_folds, s, signs) for s in _STRENGTHS}
    strength = max(_STRENGTHS, key=lambda s: (area_under_roc(by_strength[s], labels), -s))
    calibration = fit_calibration(by_strength[strength], labels, method)
    threshold = threshold_for_answered(calibration(by_strength[strength]), labels, answered_share)
    return AnswerabilityModel(
        model=fit_logistic(values, labels, names, strength, signs),
        calibration=calibration,
        threshold=_rounded_down(threshold),
    )


def expecting(model: AnswerabilityModel, fitted_share: float, expected_share: float) -> AnswerabilityModel:
    """The model for a place where `expected_share` of the questions are answerable, not `fitted_share` as in its
    calibration. Which questions are answered stays the same: the threshold moves with the probabilities.

    Source: Saerens, Latinne and Decaestecker, Neural Computation 2002 (the prior in the odds).
    """
    factor = (expected_share / (1.0 - expected_share)) / (fitted_share / (1.0 - fitted_share))

    def moved(probability: float) -> float:
        return probability * factor / (1.0 - probability + probability * factor)

    known = model.calibration
    calibration = (
        Temperature(temperature=known.temperature, shift=known.shift - known.temperature * math.log(factor))
        if isinstance(known, Temperature)
        else PiecewiseLinear(scores=known.scores, probabilities=rounded([moved(p) for p in known.probabilities]))
    )
    return model.model_copy(update={"calibration": calibration, "threshold": _rounded_down(moved(model.threshold))})


def out_of_fold_logits(
    values: Floats,
    labels: Flags,
    names: Sequence[str],
    documents: Sequence[str],
    num_folds: int = 5,
    strength: float = 1.0,
    signs: Mapping[str, int] | None = None,
) -> Floats:
    """For every row, the logit of a regression that was fitted without the rows of its document."""
    from sklearn.model_selection import GroupKFold

    logits = np.zeros(len(labels))
    folds = min(num_folds, len(set(documents)))
    if folds < 2:
        raise ValueError("one document can't be split into folds")
    for fitted_on, left_out in GroupKFold(folds).split(values, labels, groups=list(documents)):
        model = fit_logistic(values[fitted_on], labels[fitted_on], names, strength, signs)
        logits[left_out] = model.logits(values[left_out])
    return logits


def _check(labels: Flags) -> None:
    if not (labels.any() and not labels.all()):
        raise ValueError(f"{len(labels)} labels of one class: nothing to tell apart")


def _rounded_down(probability: float) -> float:
    """Rounded so that no score above the threshold falls below it."""
    return max(0.0, math.floor(probability * 1e6) / 1e6)


# ---------------------------------------------------------------- how good it is


def brier_score(probabilities: Floats, labels: Flags) -> float:
    """The mean squared distance of probability and label; 0.0 is perfect, 0.25 is always saying 0.5."""
    return float(np.mean((probabilities - labels) ** 2))


def expected_calibration_error(probabilities: Floats, labels: Flags, num_bins: int = 10) -> float:
    """How far the mean probability of a bin is from its share of positives, averaged over rows.

    Source: Naeini et al., AAAI 2015.
    """
    bins = np.minimum((probabilities * num_bins).astype(np.int64), num_bins - 1)
    gaps = [
        abs(probabilities[bins == b].mean() - labels[bins == b].mean()) * np.mean(bins == b) for b in np.unique(bins)
    ]
    return float(math.fsum(gaps))


def area_under_roc(scores: Floats, labels: Flags) -> float:
    """The probability that a positive scores above a negative, ties counting half. Raises ValueError for one class."""
    _check(labels)
    order = np.unique(scores, return_inverse=True)[1]
    positives = np.bincount(order[labels], minlength=order.max() + 1)
    negatives = np.bincount(order[~labels], minlength=order.max() + 1)
    below = np.concatenate([[0], np.cumsum(negatives)[:-1]])
    return float(np.sum(positives * (below + 0.5 * negatives)) / (positives.sum() * negatives.sum()))


# ---------------------------------------------------------------- the abstention curve


@dataclass(frozen=True, slots=True)
class AbstentionPoint:
    """What answering from this threshold on comes to."""

    threshold: float  # a question of at least this probability is answered
    abstention_rate: float  # of all questions
    accuracy: float | None  # of what is answered; None where nothing is
    answered_share: float  # of the answerable
    declined_share: float  # of the unanswerable


def abstention_curve(
    probabilities: Floats, answerable: Flags, right: Flags | None = None
) -> tuple[AbstentionPoint, ...]:
    """One point for each distinct probability as threshold, and a last one at which nothing is answered.

    `right` says which questions would be answered rightly; an unanswerable one never is, and without it every
    answerable one is. Abstention and declined share never fall along the curve, the answered share never rises.
    """
    correct = answerable if right is None else right & answerable
    thresholds = np.unique(probabilities)
    above_all = math.nextafter(float(thresholds[-1]), math.inf) if len(thresholds) else 1.0
    return tuple(
        _point(probabilities >= threshold, float(threshold), answerable, correct)
        for threshold in (*thresholds.tolist(), above_all)
    )


def point_at(threshold: float, probabilities: Floats, answerable: Flags, right: Flags | None = None) -> AbstentionPoint:
    """The point of one threshold."""
    return _point(
        probabilities >= threshold, threshold, answerable, answerable if right is None else right & answerable
    )


def _point(answered: Flags, threshold: float, answerable: Flags, correct: Flags) -> AbstentionPoint:
    return AbstentionPoint(
        threshold=threshold,
        abstention_rate=float(1.0 - answered.mean()) if len(answered) else 0.0,
        accuracy=float(correct[answered].mean()) if answered.any() else None,
        answered_share=float(answered[answerable].mean()) if answerable.any() else 0.0,
        declined_share=float(1.0 - answered[~answerable].mean()) if not answerable.all() else 0.0,
    )


def threshold_for_answered(probabilities: Floats, answerable: Flags, share: float = 0.9) -> float:
    """The highest threshold at which at least `share` of the answerable are answered."""
    _check(answerable)
    best_first = np.sort(probabilities[answerable])[::-1]
    wanted = max(1, math.ceil(share * len(best_first) - 1e-9))
    return float(best_first[wanted - 1])


def threshold_of_costs(wrong: float, needless: float) -> float:
    """The calibrated probability from which on answering costs less than abstaining.

    Answering is wrong with probability 1 - p and then costs `wrong`; abstaining is needless with probability p and then
    costs `needless`: answer from p = wrong / (wrong + needless) on. 3 : 1 gives 0.75.
    """
    if wrong < 0.0 or needless < 0.0 or wrong + needless == 0.0:
        raise ValueError(f"costs of {wrong} and {needless}: expected two that are not negative, one above 0")
    return wrong / (wrong + needless)


def cost_at(
    threshold: float, probabilities: Floats, answerable: Flags, right: Flags | None, wrong: float, needless: float
) -> float:
    """The mean cost of a question at the threshold: `wrong` for what is answered wrongly, `needless` for an answerable
    question that is not answered."""
    answered = probabilities >= threshold
    correct = answerable if right is None else right & answerable
    return float(np.mean(wrong * (answered & ~correct) + needless * (~answered & answerable)))


def cheapest_threshold(
    probabilities: Floats, answerable: Flags, right: Flags | None, wrong: float, needless: float
) -> float:
    """The threshold of the curve with the least mean cost, the lowest of equals; scores need not be calibrated."""
    thresholds = [point.threshold for point in abstention_curve(probabilities, answerable, right)]
    costs = [cost_at(t, probabilities, answerable, right, wrong, needless) for t in thresholds]
    return thresholds[int(np.argmin(costs))]


def plot_abstention(curves: Mapping[str, Sequence[AbstentionPoint]], path: Path) -> None:
    """Writes two charts into one PNG or SVG, a line a curve: abstention rate against accuracy when answered, and the
    share of the answerable that is answered against the share of the unanswerable that is declined."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, points in curves.items():
        spoken = [(point.abstention_rate, point.accuracy) for point in points if point.accuracy is not None]
        left.plot([x for x, _ in spoken], [y for _, y in spoken], label=name)
        right.step([p.answered_share for p in points], [p.declined_share for p in points], where="post", label=name)
    left.set(xlabel="abstention rate", ylabel="accuracy when answered", xlim=(0, 1), ylim=(0, 1.02))
    right.set(
        xlabel="share of the answerable answered",
        ylabel="share of the unanswerable declined",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    right.axvline(0.9, color="grey", linewidth=0.8, linestyle=":")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": "quire"}):  # the same curves, the same file
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
