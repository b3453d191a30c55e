"""Has anything fallen beyond its noise? One run against an earlier one of the same questions, question by question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rag.errors import InputError
from rag.evaluate.metrics import mean
from rag.evaluate.observe import Stage
from rag.evaluate.run import Column, EvaluationRun
from rag.evaluate.significance import attainable_p, holm, p_of_falls

# metric -> the smallest fall of its mean that counts, in the metric's own unit. The rest of a run's metrics repeat
# what these say, and every comparison more would make each of them less sensitive.
GATED: Mapping[str, float] = {
    "hit@5": 0.005,
    "recall": 0.005,
    "ndcg@10": 0.005,
    "outscored": 0.01,  # half a rank among 50 candidates
    "separation": 0.02,  # standard deviations
    "passages": 0.1,
}
GATED_IN_SLICES: Mapping[str, float] = {name: 2 * GATED[name] for name in ("ndcg@10", "outscored", "separation")}
ALL = "all"

# Scores compare where the same models gave them, and where as many candidates stand beside the gold ones.
_MODELS: Mapping[Stage, tuple[str, ...]] = {
    "dense": ("embed.model", "embed.weights"),
    "reranked": ("embed.model", "embed.weights", "rerank.reranker", "rerank.model", "rerank.weights"),
}
_DEPTHS: Mapping[Stage, tuple[str, ...]] = {
    "dense": ("search.k_dense",),
    "bm25": ("search.k_bm25",),
    "fused": ("search.k_dense", "search.k_bm25", "rerank.k_rerank"),
    "reranked": ("search.k_dense", "search.k_bm25", "rerank.k_rerank", "search.k_each_leg"),
}


@dataclass(frozen=True, slots=True)
class GateRules:
    """What counts as a fall."""

    alpha: float = 0.05  # chance of a false alarm, over all comparisons of a family together
    min_slice: int = 10  # questions; smaller slices are not compared
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of one stage, over all questions or a slice of them, before and after."""

    scope: str  # "all", or "kind=table"
    stage: Stage
    metric: str
    before: float
    after: float
    p: float  # that chance alone made it fall so far, corrected for all comparisons of its family
    worse: tuple[str, ...]  # ids of the questions that lost, most first
    better: tuple[str, ...]
    num: int  # questions
    fallen: bool

    @property
    def difference(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class BrokenInvariant:
    """Something that must never happen, and happened more often than before."""

    name: str
    before: int
    after: int
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Whether the run may pass, and all that was compared."""

    comparisons: tuple[Comparison, ...]  # in the order of scope, stage and metric
    broken: tuple[BrokenInvariant, ...]
    missing: tuple[str, ...]  # questions of the earlier run that this one does not have
    added: tuple[str, ...]
    not_measured: tuple[str, ...]  # stages of the earlier run that this one does not have
    changed_settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name -> before, after
    num_changed: int | None = None  # questions with any difference in candidates, scores or prompt; None: not recorded

    @property
    def falls(self) -> tuple[Comparison, ...]:
        """What fell, the surest first."""
        return tuple(
            sorted((c for c in self.comparisons if c.fallen), key=lambda c: (c.p, c.scope != ALL, c.difference))
        )

    @property
    def ok(self) -> bool:
        return not (self.falls or self.broken or self.missing or self.not_measured)


def gate(before: EvaluationRun, after: EvaluationRun, rules: GateRules | None = None) -> GateVerdict:
    """The later run held against the earlier one. Raises InputError where they did not ask the same questions.

    A metric has fallen when its mean is lower by more than `GATED` allows and the paired sign-flip test calls so large
    a fall unlikely. Holm's correction keeps the chance of any false alarm among all metrics of all stages at `alpha`,
    and among all slices at `alpha` once more. Retrieval is deterministic, so that a run of the same thing differs in
    nothing and passes whatever `alpha` is. Invariants know no noise.
    """
    rules = rules or GateRules()
    _check_same_questions(before, after)
    paired = _paired(before, after)
    there = set(after.ids)
    return GateVerdict(
        comparisons=(
            *_compare([(ALL, paired)], GATED, before, after, rules),
            *_compare(_slices(before, paired, rules.min_slice), GATED_IN_SLICES, before, after, rules),
        ),
        broken=tuple(_broken(before, after)),
        missing=tuple(name for name in before.ids if name not in there),
        added=tuple(name for name in after.ids if name not in set(before.ids)),
        not_measured=tuple(stage for stage in before.scores if stage not in after.scores),
        changed_settings=_changed_settings(before, after),
        num_changed=_num_changed(before, after, paired),
    )


Pairs = Sequence[tuple[int, int]]  # rows of the same question, before and after


@dataclass(frozen=True, slots=True)
class _Series:
    """One comparison to be made: the values of every question that has both."""

    scope: str
    stage: Stage
    metric: str
    values: Sequence[tuple[str, float, float]]  # question, before, after

    @property
    def differences(self) -> list[float]:
        return [after - before for _, before, after in self.values]


def _check_same_questions(before: EvaluationRun, after: EvaluationRun) -> None:
    digests = dict(zip(before.ids, before.digests, strict=True))
    shared = [(name, digest) for name, digest in zip(after.ids, after.digests, strict=True) if name in digests]
    if not shared:
        raise InputError(f"the baseline asks the questions of {before.dataset}, and this run those of {after.dataset}")
    changed = [name for name, digest in shared if digests[name] != digest]
    if changed:
        raise InputError(
            f"{len(changed)} questions are not what they were in the baseline, first {changed[0]}: "
            "their words, spans, asker or history changed; make the baseline anew"
        )


def _paired(before: EvaluationRun, after: EvaluationRun) -> Pairs:
    rows = {name: row for row, name in enumerate(after.ids)}
    return [(row, rows[name]) for row, name in enumerate(before.ids) if name in rows]


def _slices(before: EvaluationRun, paired: Pairs, min_slice: int) -> list[tuple[str, Pairs]]:
    """The questions of each slice of the earlier run: a slice must not shrink because something broke."""
    found: list[tuple[str, Pairs]] = []
    for name, column in before.slices.items():
        for value in sorted(set(column)):
            members = [pair for pair in paired if column[pair[0]] == value]
            if min_slice <= len(members) < len(paired):
                found.append((f"{name}={value}", members))
    return found


def _compare(
    scopes: Sequence[tuple[str, Pairs]],
    metrics: Mapping[str, float],
    before: EvaluationRun,
    after: EvaluationRun,
    rules: GateRules,
) -> list[Comparison]:
    """One family: what is compared here is corrected together.

    A comparison in which too few questions differ for any fall to be sure, however they differ, can't raise a false
    alarm, and is not counted among those that are corrected for.

    Source: Tarone, Biometrics, 1990 (which hypotheses need not be counted).
    """
    series = [
        _Series(scope, stage, metric, values)
        for scope, pairs in scopes
        for stage, columns in before.scores.items()
        for metric in metrics
        if metric in columns and metric in after.scores.get(stage, {}) and _comparable(stage, metric, before, after)
        if (values := _values(before.ids, columns[metric], after.scores[stage][metric], pairs))
        and (scope == ALL or len(values) >= rules.min_slice)
    ]
    counted = [one for one in series if attainable_p(one.differences) <= rules.alpha]
    corrected = holm(p_of_falls([one.differences for one in counted], rules.seed))
    p_of = {id(one): p for one, p in zip(counted, corrected, strict=True)}
    return [_comparison(one, p_of.get(id(one), 1.0), metrics[one.metric], rules.alpha) for one in series]


def _comparable(stage: Stage, metric: str, before: EvaluationRun, after: EvaluationRun) -> bool:
    """Whether the metric means the same in both runs: those on scores need the same models and depths."""
    names = {"outscored": _DEPTHS, "separation": _DEPTHS}.get(metric, {}).get(stage, ())
    if metric == "separation":
        names = (*names, *_MODELS.get(stage, ()))
    return all(before.settings.get(name) == after.settings.get(name) for name in names)


def _values(ids: Sequence[str], one: Column, other: Column, pairs: Pairs) -> list[tuple[str, float, float]]:
    found = []
    for row, later in pairs:
        a, b = one[row], other[later]
        if a is not None and b is not None:
            found.append((ids[row], a, b))
    return found


def _comparison(series: _Series, p: float, min_effect: float, alpha: float) -> Comparison:
    before, after = mean(a for _, a, _ in series.values), mean(b for _, _, b in series.values)
    changed = sorted((b - a, name) for name, a, b in series.values if a != b)
    return Comparison(
        scope=series.scope,
        stage=series.stage,
        metric=series.metric,
        before=before,
        after=after,
        p=p,
        worse=tuple(name for difference, name in changed if difference < 0),
        better=tuple(name for difference, name in changed if difference > 0),
        num=len(series.values),
        fallen=p <= alpha and before - after > min_effect,
    )


def _broken(before: EvaluationRun, after: EvaluationRun) -> list[BrokenInvariant]:
    counted = before.broken()
    found = []
    for name, column in after.invariants.items():
        total = sum(column)
        if total > counted.get(name, 0):
            questions = tuple(question for question, count in zip(after.ids, column, strict=True) if count)
            found.append(BrokenInvariant(name, counted.get(name, 0), total, questions))
    return found


def _changed_settings(before: EvaluationRun, after: EvaluationRun) -> dict[str, tuple[str, str]]:
    """Every version, setting and library that both runs recorded and that is not what it was."""
    was = {**before.versions, **before.settings, **before.runtime}
    now = {**after.versions, **after.settings, **after.runtime}
    return {name: (value, now[name]) for name, value in was.items() if name in now and now[name] != value}


def _num_changed(before: EvaluationRun, after: EvaluationRun, paired: Pairs) -> int | None:
    if not before.results or not after.results:
        return None
    return sum(before.results[row] != after.results[later] for row, later in paired)
