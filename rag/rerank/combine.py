"""The final ranking: first-stage scores and the reranker's logit, brought to one scale and added, and then how near a
candidate lies to those that come first."""

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rag.config import RerankConfig
from rag.data import Candidate, FirstStageScores
from rag.ids import ChunkId

_NUM_FEEDBACK = 8  # candidates that stand for what is looked for
DECIMALS = 9  # of a cosine: far below what vectors in float16 or float32 tell, far above what the order of a sum does
_TINY = np.finfo(np.float32).tiny

Real = TypeVar("Real", np.float32, np.float64)


def combined_scores(
    first: Sequence[FirstStageScores],
    logits: Sequence[float] | None,
    config: RerankConfig,
    identifier_shares: Sequence[float] | None = None,
) -> list[float]:
    """One score a candidate of one query: the weighted sum of its standardised scores and of its identifier share.

    Who asks for ERR_6407 wants the passage that names it: to an encoder all error codes look alike, so the share of
    the query's identifiers that a candidate holds is added as it is, where it is given.

    Where every candidate has its vector, what resembles the best of them gains by `feedback_weight`.

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
    total = [math.fsum(parts) for parts in zip(*standardised, strict=True)]
    if not config.feedback_weight or not all(scores.vector for scores in first):
        return total
    near = standard_scores(feedback_scores([scores.vector for scores in first], total))
    return [score + config.feedback_weight * nearness for score, nearness in zip(total, near, strict=True)]


def feedback_scores(vectors: Sequence[bytes], liked: Sequence[float]) -> list[float]:
    """How near each candidate lies to the best of them, in [-1, 1]: pseudo-relevance feedback on the encoder's vectors.

    `liked` is what is known of each so far. The best few, each with the weight exp(liked), stand for what is looked
    for; what all candidates have in common is taken out of their vectors first.

    Source: Rocchio, Relevance Feedback in Information Retrieval, 1971.
    """
    if len(vectors) < 2:
        return [0.0] * len(vectors)
    rows = np.stack([np.frombuffer(vector, dtype=np.float16) for vector in vectors]).astype(np.float64)
    rows = unit(np.round(rows - rows.mean(axis=0), DECIMALS))
    known = np.asarray(liked)
    last_of_best = np.sort(known)[-min(_NUM_FEEDBACK, len(known))]  # with all that are its equals
    weights = np.where(known >= last_of_best, np.exp(known - known.max()), 0.0)
    return [float(score) for score in np.round(rows @ unit(weights @ rows), DECIMALS)]


def unit(rows: npt.NDArray[Real]) -> npt.NDArray[Real]:
    """Each vector of the last axis with length 1, in its own precision; zeros stay zeros."""
    lengths = np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), _TINY)
    scaled: npt.NDArray[Real] = rows / lengths
    return scaled


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
