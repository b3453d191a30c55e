"""The quotes that an answer begins with: the sentences of the passages that the reranker finds best.

passages -> sentences, each with what stands above it -> the reranker's scores -> the best few as the beginning of the
model's own message, `"copied words" [n]`; the model goes on behind them. A model of a hundred million parameters quotes
well and chooses badly, among several passages about the same thing above all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rag.clean.injection import instruction_like
from rag.data import Message, Passage, Prompt
from rag.generate.prompt import quoted
from rag.generate.sentences import sentences
from rag.rerank.combine import standard_scores
from rag.rerank.identifiers import identifier_shares
from rag.rewrite.words import words

_MIN_WORDS = 3
_MAX_WORDS = 48  # of all quotes; the first may be longer
_MARGIN = 1.6  # standard deviations behind the best at which a sentence is not quoted beside it
_PASSAGE_WEIGHT = 0.3  # of the score of a sentence's passage, beside its own
_ABOVE = 0.6  # of an identifier that stands above a sentence, as a heading stands above many
_CELLS = " | "


@dataclass(frozen=True, slots=True)
class QuotableSentence:
    """A sentence of a passage, or a row of a table in it, on one line."""

    passage: Passage
    text: str
    above: str  # what a reader knows before: title, headings, a table's header, the question that it follows

    @property
    def shown(self) -> str:
        """What a reranker reads."""
        return f"{self.above}: {self.text}"


def quotable_sentences(passages: Sequence[Passage]) -> list[QuotableSentence]:
    """The sentences that could answer, in order: no question, no header of a table, no order to a model, no scrap."""
    return [
        sentence
        for passage in passages
        for sentence in _sentences_of(passage)
        if len(words(sentence.text)) >= _MIN_WORDS and not instruction_like(sentence.text)
    ]


def with_lead(
    prompt: Prompt,
    question: str,
    found: Sequence[QuotableSentence],
    scores: Sequence[float],
    identifier_weight: float,
    max_quotes: int,
) -> Prompt:
    """The prompt with its answer begun: at most `max_quotes` quotes, the best first; unchanged without sentences.

    `scores` are the reranker's, one a sentence. What is added to them is what `rag.rerank.combine` adds for passages:
    the share of the question's identifiers that a sentence holds.
    """
    if not found:
        return prompt
    named = identifier_shares(question, [sentence.text for sentence in found])
    above = identifier_shares(question, [sentence.above for sentence in found])
    held = [max(own, _ABOVE * share) for own, share in zip(named, above, strict=True)]
    of_passage = standard_scores([sentence.passage.score for sentence in found])
    totals = [
        own + identifier_weight * share + _PASSAGE_WEIGHT * passage
        for own, share, passage in zip(standard_scores(scores), held, of_passage, strict=True)
    ]
    best_first = sorted(range(len(found)), key=lambda place: (-totals[place], place))[:max_quotes]
    chosen: list[QuotableSentence] = []
    for place in best_first:
        num_words = sum(len(sentence.text.split()) for sentence in (*chosen, found[place]))
        if chosen and (totals[place] < totals[best_first[0]] - _MARGIN or num_words > _MAX_WORDS):
            break
        chosen.append(found[place])
    lead = " ".join(quoted(sentence.text, sentence.passage.number) for sentence in chosen)
    return replace(prompt, messages=(*prompt.messages, Message("assistant", lead)))


def _sentences_of(passage: Passage) -> Iterator[QuotableSentence]:
    path = " > ".join(name for name in (passage.chunk.metadata.title, *passage.chunk.headings) if name)
    header = asked = ""
    for sentence in sentences(passage.text):
        text = " ".join(sentence.split())
        if _CELLS in text and not header:
            header = text  # of the rows that follow
        elif text.endswith("?"):
            asked = text  # what follows may answer it
        else:
            header = header if _CELLS in text else ""
            yield QuotableSentence(passage, text, ": ".join(filter(None, (path, header, asked))))
            asked = ""
