"""Retrieval metrics of one ranking against its judgements, under their standard names. Ranks count from 1."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Id = TypeVar("Id", bound=str)


def hit_rate_at_k(ranking: Sequence[Id], grades: Mapping[Id, int], k: int) -> float:
    """1.0 when any of the first k is relevant (has a grade above 0), else 0.0; its mean over queries is hit rate@k."""
    return float(any(grades.get(name, 0) > 0 for name in ranking[:k]))


def recall_at_k(ranking: Sequence[Id], grades: Mapping[Id, int], k: int) -> float:
    """The share of the relevant that the first k hold. Raises ValueError where nothing is relevant."""
    relevant = _relevant(grades)
    return len(relevant & set(ranking[:k])) / len(relevant)


def mrr_at_k(ranking: Sequence[Id], grades: Mapping[Id, int], k: int) -> float:
    """1 / rank of the first relevant among the first k, 0.0 where there is none; its mean over queries is MRR@k."""
    ranks = (rank for rank, name in enumerate(ranking[:k], start=1) if grades.get(name, 0) > 0)
    first = next(ranks, None)
    return 1.0 / first if first else 0.0


def ndcg_at_k(ranking: Sequence[Id], grades: Mapping[Id, int], k: int) -> float:
    """Discounted gain of the first k over that of the best order of the judged: gain 2^grade - 1, discount log2.

    Raises ValueError where nothing is relevant.

    Source: Burges et al., ICML 2005 (the gain); Jarvelin and Kekalainen, TOIS 2002 (the discount).
    """
    _relevant(grades)
    best = _discounted_gain(sorted(grades.values(), reverse=True)[:k])
    return _discounted_gain([grades.get(name, 0) for name in ranking[:k]]) / best


def context_precision(ranking: Sequence[Id], grades: Mapping[Id, int]) -> float:
    """The mean precision at the ranks of the relevant ones that were found: 1.0 when they all stand first.

    0.0 where none was found. What was not found does not count: that is recall's part.
    """
    precisions: list[float] = []
    for rank, name in enumerate(ranking, start=1):
        if grades.get(name, 0) > 0:
            precisions.append((len(precisions) + 1) / rank)
    return mean(precisions)


def ann_recall_at_k(found: Sequence[Id], exact: Sequence[Id], k: int) -> float:
    """The share of the k exact nearest that an approximate search has among its own first k (SPEC C2).

    Both are best first. `exact` may hold fewer than k, where fewer are there to find. Raises ValueError where it is
    empty: of nothing there is no share.
    """
    nearest = set(exact[:k])
    if not nearest:
        raise ValueError(f"recall@{k} of an approximate search needs exact neighbours to compare with, got none")
    return len(nearest & set(found[:k])) / len(nearest)


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean; 0.0 of nothing."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else 0.0


def _discounted_gain(grades: Sequence[int]) -> float:
    return math.fsum((2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))


def _relevant(grades: Mapping[Id, int]) -> set[Id]:
    relevant = {name for name, grade in grades.items() if grade > 0}
    if not relevant:
        raise ValueError("no judgement above 0: a query without anything relevant has no recall and no nDCG")
    return relevant
