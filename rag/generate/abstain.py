"""When not to answer, and what to say instead."""

from collections.abc import Mapping, Sequence

from rag.config import GenerateConfig
from rag.data import AbstainReason, FirstStageScores, Passage
from rag.generate.evidence import EvidenceCalibration, evidence_of, names_all
from rag.ids import ChunkId

# Nothing here may tell "there is none" from "there is one that you may not read".
_TEXTS: Mapping[AbstainReason, str] = {
    "no_passages": "I found nothing about this in the documents that you can read.",
    "low_evidence": "I found no answer to this in the documents that you can read; these come closest.",
    "refused_by_model": "The documents that I found for you do not answer this question; these come closest.",
    "unsupported": "I found no answer in the documents that you can read that they would support; these come closest.",
    "disallowed": "I can't help with this request.",
}


def abstain_reason(
    query: str,
    passages: Sequence[Passage],
    scores: Mapping[ChunkId, FirstStageScores],
    config: GenerateConfig,
    calibration: EvidenceCalibration | None = None,
    logits: Mapping[ChunkId, float] | None = None,
    answer_score: float | None = None,
) -> AbstainReason:
    """Why no answer should be tried; "" where the passages are evidence enough.

    With a calibration, evidence is a P(answerable) of at least `config.min_answerable`, or of the threshold that the
    calibration holds where that is not set; `logits` are the reranker's and `answer_score` the reader's, None where
    they were late. Without one it is a dense cosine of at least `config.min_evidence`. Either way a passage that holds
    every identifier of the query is evidence: a model sees little in "ERR_4031", and a passage that names it is about
    it.
    """
    if not passages:
        return "no_passages"
    if names_all(query, passages):
        return ""
    judged = None
    if calibration is not None:
        judged = calibration.judge(evidence_of(query, passages, scores, logits, answer_score))
    return "" if _enough(judged, passages, scores, config) else "low_evidence"


def _enough(
    judged: tuple[float, float] | None,
    passages: Sequence[Passage],
    scores: Mapping[ChunkId, FirstStageScores],
    config: GenerateConfig,
) -> bool:
    """`judged` is (P(answerable), threshold) by the calibration, None without one."""
    if judged is None:
        found = (scores[passage.chunk.id].dense for passage in passages if passage.chunk.id in scores)
        return any(cosine >= config.min_evidence for cosine in found)
    probability, threshold = judged
    return probability >= (threshold if config.min_answerable is None else config.min_answerable)


def abstention_text(reason: AbstainReason) -> str:
    """What the asker is told. Raises KeyError for "": an answer that did not abstain has its own text."""
    return _TEXTS[reason]
