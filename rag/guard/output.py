"""The last look at an answer before it leaves."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from rag.data import Answer, Citation, Passage, Principal
from rag.generate.abstain import abstention_text
from rag.generate.citations import keep_citations
from rag.guard.access import may_read
from rag.ids import ChunkId

logger = logging.getLogger(__name__)


def check_answer(answer: Answer, passages: Sequence[Passage], principal: Principal) -> Answer:
    """The answer with only such citations as name a passage of the prompt that the principal may read.

    Others leave `citations`, `closest` and the text, and are counted. Should the prompt itself hold a passage that the
    principal may not read, the text may rest on it: then the whole answer is withheld.
    """
    allowed = {
        (passage.number, passage.chunk.id) for passage in passages if may_read(passage.chunk.metadata.access, principal)
    }
    citations = _allowed(answer.citations, allowed)
    closest = _allowed(answer.closest, allowed)
    num_removed = len(answer.citations) - len(citations) + len(answer.closest) - len(closest)

    forbidden = [p.chunk.id for p in passages if (p.number, p.chunk.id) not in allowed]
    if forbidden:
        logger.error("guard: withheld an answer: %d passages of its prompt are not the asker's", len(forbidden))
        return replace(
            answer,
            text=abstention_text("no_passages"),
            abstained="no_passages",
            citations=(),
            sentences=(),
            closest=closest,
            num_citations_removed=answer.num_citations_removed + num_removed + len(citations),
        )

    text, num_unresolved = keep_citations(answer.text, {citation.number for citation in answer.citations})
    text, _ = keep_citations(text, {citation.number for citation in citations})
    return replace(
        answer,
        text=text,
        citations=citations,
        sentences=tuple(
            replace(sentence, text=keep_citations(sentence.text, {c.number for c in kept})[0], citations=kept)
            for sentence in answer.sentences
            if (kept := _allowed(sentence.citations, allowed))
        ),
        closest=closest,
        num_citations_removed=answer.num_citations_removed + num_removed + num_unresolved,
    )


def _allowed(citations: Sequence[Citation], allowed: set[tuple[int, ChunkId]]) -> tuple[Citation, ...]:
    return tuple(citation for citation in citations if (citation.number, citation.chunk_id) in allowed)
