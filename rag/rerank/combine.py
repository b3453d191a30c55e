"""The final ranking: first-stage scores and the cross-encoder's logit, brought to one scale and added."""

import math
from collections.abc import Sequence

from rag.config import RerankConfig
from rag.data import Candidate, FirstStageScores
from rag.ids import ChunkId


def combined_scores(
    first: Sequence[FirstStageScores],
    logits: Sequence[float] | None,
    config: RerankConfig,
    identifier_shares: Sequence[float] | None = None,
) -> list[float]:
    """One score a candidate of one query: the weighted sum of its standardised scores and of its identifier share.

    Who asks for ERR_6407 wants the passage that names it: to an encoder all error codes look alike, so the share of
    the query's identifiers that a candidate holds is added as it is, where it is given.

    `logits` is None where the reranker gave none in time; the first stage then ranks alone. A score on which all
    candidates agree adds nothing. The scores do not depend on the order of the candidates.
    """
    terms = [
        (config.dense_weight, [scores.dense for scores in first]),
        (config.bm25_weight, [scores.bm25 for scores in first]),
    ]
    if logits is not None:
        terms.append((config.model_weight, list(logits)))
    standardised = [[weight * value for value in standard_scores(values)] for weight, values in terms]
    if identifier_shares is not None:
        standardised.append([config.identifier_weight * share for share in identifier_shares])
    return [math.fsum(parts) for parts in zip(*standardised, strict=True)]


def standard_scores(values: Sequence[float]) -> list[float]:
    """How many (population) standard deviations each value lies above the mean; zeros where all are equal."""
    if not values or max(values) == min(values):
        return [0.0] * len(values)
    # fsum rounds once, whatever the order: the shards' answers may arrive in another order in the cluster.
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    if deviation == 0.0:  # values so close that their squared distance underflows
        return [0.0] * len(values)
    return [(value - mean) / deviation for value in values]


def rank_candidates(chunk_ids: Sequence[ChunkId], scores: Sequence[float]) -> list[Candidate]:
    """The chunks as candidates, best first; ties go to the smaller id."""
    best_first = sorted(zip(chunk_ids, scores, strict=True), key=lambda item: (-item[1], item[0]))
    return [Candidate(chunk_id, score, "rerank") for chunk_id, score in best_first]
