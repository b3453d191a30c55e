"""One stage's outcome for one question, as numbers."""

from collections.abc import Sequence

from rag.config import RagConfig
from rag.evaluate.metrics import context_precision, hit_rate_at_k, mean, mrr_at_k, ndcg_at_k
from rag.evaluate.observe import Stage
from rag.rerank.combine import standard_scores

Needs = frozenset[int]  # what one candidate or passage meets of a question's needs, by place


def metric_names(stage: Stage, depth: int) -> tuple[str, ...]:
    """The metrics of a stage that is so deep: recall at 50 and 100 only where so many candidates come that far.

    `recall` without a k is of all that the stage passes on: the upper bound of every later stage.
    """
    if stage == "chunks":
        return ("recall",)
    deep = tuple(f"recall@{k}" for k in (50, 100) if depth >= k)
    common = ("hit@1", "hit@5", "recall@5", *deep, "recall", "mrr@10", "ndcg@10", "context_precision")
    return (*common, "passages") if stage == "prompt" else (*common, "outscored", "separation", "candidates")


def stage_depths(config: RagConfig) -> dict[Stage, int]:
    """How many candidates each stage passes on at most; 0 for the chunks, which nothing narrows."""
    return {
        "chunks": 0,
        "dense": config.search.k_dense,
        "bm25": config.search.k_bm25,
        "fused": config.rerank.k_rerank,
        "reranked": config.rerank.k_rerank + 2 * config.search.k_each_leg,
        "prompt": config.rerank.k_passages,
    }


def ranking_scores(found: Sequence[Needs], grades: Sequence[int], names: Sequence[str]) -> dict[str, float]:
    """The metrics of one ranking by name, those that read no scores; `found` says what each candidate meets, best
    first, `grades` what each need is worth.

    A candidate gains the highest grade among the needs that it is the first to meet, so a second chunk with the same
    words gains nothing. With one need a candidate these are the standard metrics.
    """
    ranking, judged = _as_judged(found, grades)
    values = {
        "recall": need_recall(found, grades),
        "mrr@10": mrr_at_k(ranking, judged, 10),
        "ndcg@10": ndcg_at_k(ranking, judged, 10),
        "context_precision": context_precision(ranking, judged),
    }
    for name in names:
        metric, _, k = name.partition("@")
        if metric == "hit":
            values[name] = hit_rate_at_k(ranking, judged, int(k))
        elif metric == "recall" and k:
            values[name] = need_recall(found[: int(k)], grades)
    return {name: values[name] for name in names if name in values}


def need_recall(found: Sequence[Needs], grades: Sequence[int]) -> float:
    """The share of the needs that the candidates meet together."""
    return len(frozenset[int]().union(*found)) / len(grades)


def outscored(found: Sequence[Needs], scores: Sequence[float], num_needs: int) -> float:
    """The share of the candidates that score lower than the best one for a need, averaged over needs; 0.0 where none
    meets it.

    A tie is not a lower score: candidates that tie stand in the order of their ids, which is chance. So this sees
    scores that no longer tell candidates apart, where the ranking happens to look as before.
    """
    return mean(
        max(
            (sum(other < score for other in scores) / len(scores) for score in _scores_of(need, found, scores)),
            default=0.0,
        )
        for need in range(num_needs)
    )


def separation(found: Sequence[Needs], scores: Sequence[float], num_needs: int) -> float:
    """By how many standard deviations the best candidate for a need scores above the mean candidate, averaged over
    needs.

    Far more sensitive than a rank, which moves only when two candidates change places. A need that no candidate meets
    counts like the worst candidate; 0.0 where there are no candidates or all score alike.
    """
    standard = standard_scores(scores)
    return mean(max(_scores_of(need, found, standard), default=min(standard, default=0.0)) for need in range(num_needs))


def _scores_of(need: int, found: Sequence[Needs], scores: Sequence[float]) -> list[float]:
    """The scores of the candidates that meet the need."""
    return [score for score, needs in zip(scores, found, strict=True) if need in needs]


def _as_judged(found: Sequence[Needs], grades: Sequence[int]) -> tuple[list[str], dict[str, int]]:
    """The ranking under names of its own, and the grade of each name; a need that nothing meets has a name too."""
    ranking: list[str] = []
    judged: dict[str, int] = {}
    met: set[int] = set()
    for rank, needs in enumerate(found, start=1):
        name = f"rank {rank}"
        ranking.append(name)
        if new := needs - met:
            judged[name] = max(grades[need] for need in new)
            met |= new
    judged |= {f"need {need}": grade for need, grade in enumerate(grades) if need not in met}
    return ranking, judged
