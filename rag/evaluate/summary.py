"""A run in a few tables: means with their intervals by stage, by slice, and how long each step took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rag.evaluate.observe import Stage
from rag.evaluate.run import Column, EvaluationRun
from rag.evaluate.significance import Estimate, bootstrap_mean

SHOWN_IN_SLICES = "ndcg@10"


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One slice: its questions, and the stages' means over them."""

    name: str  # "kind"
    value: str  # "table"
    num: int  # answerable questions
    ndcg: Mapping[Stage, Estimate]  # nDCG@10
    prompt_recall: Estimate | None  # None where the prompt was not seen


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """How long one step took, in milliseconds."""

    step: str
    wall_p50: float
    wall_p95: float
    compute_p50: float
    compute_p95: float


def by_stage(run: EvaluationRun) -> dict[Stage, dict[str, Estimate]]:
    """Every metric of every stage, over all questions for which it is defined."""
    return {
        stage: {metric: bootstrap_mean(_defined(column)) for metric, column in columns.items()}
        for stage, columns in run.scores.items()
    }


def by_slice(run: EvaluationRun) -> list[SliceRow]:
    """Every slice with an answerable question in it and others outside it, in the order of names and values."""
    rows: list[SliceRow] = []
    stages = [stage for stage, columns in run.scores.items() if SHOWN_IN_SLICES in columns]
    for name, values in run.slices.items():
        for value in sorted(set(values)) if len(set(values)) > 1 else ():
            members = [row for row, own in enumerate(values) if own == value]
            ndcg = {s: bootstrap_mean(_of(run.scores[s][SHOWN_IN_SLICES], members)) for s in stages}
            num = max((estimate.num for estimate in ndcg.values()), default=0)
            recall = bootstrap_mean(_of(run.scores["prompt"]["recall"], members)) if "prompt" in stages else None
            if num:
                rows.append(SliceRow(name, value, num, ndcg, recall))
    return rows


def by_step(run: EvaluationRun) -> list[LatencyRow]:
    """The median and the 95th percentile of every step, in order."""
    rows = []
    for step, latency in run.latency.items():
        wall, compute = _defined(latency.wall_ms), _defined(latency.compute_ms)
        rows.append(LatencyRow(step, *_quantiles(wall), *_quantiles(compute)))
    return rows


def _quantiles(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 0.0
    p50, p95 = np.quantile(np.asarray(values), [0.5, 0.95])
    return float(p50), float(p95)


def _defined(column: Column) -> list[float]:
    return [value for value in column if value is not None]


def _of(column: Column, rows: Sequence[int]) -> list[float]:
    return [value for row in rows if (value := column[row]) is not None]
