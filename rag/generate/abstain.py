"""When not to answer, and what to say instead."""

from collections.abc import Mapping, Sequence

from rag.config import GenerateConfig
from rag.data import AbstainReason, FirstStageScores, Passage
from rag.ids import ChunkId
from rag.rewrite.words import identifiers, words

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
) -> AbstainReason:
    """Why no answer should be tried; "" where the passages are evidence enough.

    Evidence is a dense cosine of at least `config.min_evidence`, or a passage that holds every identifier of the query:
    an encoder sees little in "ERR_4031", and a passage that names it is about it.
    """
    if not passages:
        return "no_passages"
    if any(
        passage.chunk.id in scores and scores[passage.chunk.id].dense >= config.min_evidence for passage in passages
    ):
        return ""
    wanted = identifiers(query)
    if wanted and any(wanted <= set(words(_shown(passage))) for passage in passages):
        return ""
    return "low_evidence"


def _shown(passage: Passage) -> str:
    return "\n".join((passage.chunk.metadata.title, *passage.chunk.headings, passage.text))


def abstention_text(reason: AbstainReason) -> str:
    """What the asker is told. Raises KeyError for "": an answer that did not abstain has its own text."""
    return _TEXTS[reason]
