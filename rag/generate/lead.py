"""The quotes that an answer begins with: the sentences of the passages that the reranker finds best.

passages -> sentences, each with what stands above it -> the reranker's scores -> the best few as the beginning of the
model's own message, `"copied words" [n]`; the model goes on behind them. A model of a hundred million parameters quotes
well and chooses badly, among several passages about the same thing above all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rag.clean.injection import instruction_like
from rag.data import Message, Passage, Prompt, Reading, ReadSpan
from rag.generate.prompt import quoted
from rag.generate.sentences import split_sentences
from rag.rerank.combine import standard_scores
from rag.rerank.identifiers import identifier_shares
from rag.rewrite.words import words

_MIN_WORDS = 3
_MAX_WORDS = 48  # of all quotes; the first may be longer
_MARGIN, _READ_MARGIN = 1.6, 2.4  # behind the best at which a sentence is not quoted beside it; where it was read
_PASSAGE_WEIGHT = 0.3  # of the score of a sentence's passage, beside its own
_ABOVE = 0.6  # of an identifier that stands above a sentence, as a heading stands above many
_READER_WEIGHT = 1.0  # of the reader's score of the best span in a sentence
_READER_REACH = 16.0  # behind the best, in logits
_CELLS = " | "


@dataclass(frozen=True, slots=True)
class QuotableSentence:
    """A sentence of a passage, or a row of a table in it."""

    passage: Passage
    start: int  # in the passage's text
    end: int
    text: str  # on one line
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


def readings_of(found: Sequence[QuotableSentence]) -> list[Reading]:
    """The passages of the sentences, in order, as a reader gets them: it gives a span for each sentence."""
    by_passage: dict[int, list[QuotableSentence]] = {}
    for sentence in found:
        by_passage.setdefault(sentence.passage.number, []).append(sentence)
    return [
        Reading(heading_path(some[0].passage), some[0].passage.text, tuple((one.start, one.end) for one in some))
        for some in by_passage.values()
    ]


def heading_path(passage: Passage) -> str:
    """Where the passage stands: title and headings."""
    return " > ".join(name for name in (passage.chunk.metadata.title, *passage.chunk.headings) if name)


def with_lead(
    prompt: Prompt,
    question: str,
    found: Sequence[QuotableSentence],
    scores: Sequence[float],
    identifier_weight: float,
    max_quotes: int,
    spans: Sequence[ReadSpan] | None = None,
) -> Prompt:
    """The prompt with its answer begun: at most `max_quotes` quotes, the best first; unchanged without sentences.

    `scores` are the reranker's and `spans` the reader's, one a sentence; None where nobody read. What is added to them
    is what `rag.rerank.combine` adds for passages: the share of the question's identifiers that a sentence holds.
    """
    if not found:
        return prompt
    named = identifier_shares(question, [sentence.text for sentence in found])
    above = identifier_shares(question, [sentence.above for sentence in found])
    held = [max(own, _ABOVE * share) for own, share in zip(named, above, strict=True)]
    of_passage = standard_scores([sentence.passage.score for sentence in found])
    read = _reader_scores(spans) if spans is not None else [0.0] * len(found)
    totals = [
        own + identifier_weight * share + _PASSAGE_WEIGHT * passage + _READER_WEIGHT * answering
        for own, share, passage, answering in zip(standard_scores(scores), held, of_passage, read, strict=True)
    ]
    margin = _MARGIN if spans is None else _READ_MARGIN
    best_first = sorted(range(len(found)), key=lambda place: (-totals[place], place))[:max_quotes]
    chosen: list[QuotableSentence] = []
    for place in best_first:
        if any(_holds(quote, found[place]) for quote in chosen):
            continue
        num_words = sum(len(sentence.text.split()) for sentence in (*chosen, found[place]))
        if chosen and (totals[place] < totals[best_first[0]] - margin or num_words > _MAX_WORDS):
            break
        longer = _with_next(found, place) if named[place] else found[place]
        num_words += len(longer.text.split()) - len(found[place].text.split())
        chosen.append(longer if num_words <= _MAX_WORDS else found[place])
    lead = " ".join(quoted(sentence.text, sentence.passage.number) for sentence in chosen)
    return replace(prompt, messages=(*prompt.messages, Message("assistant", lead)))


def _with_next(found: Sequence[QuotableSentence], place: int) -> QuotableSentence:
    """The sentence with the one behind it in its paragraph, where there is one: what is said of a code goes on there,
    and the code is not named again."""
    sentence = found[place]
    following = found[place + 1] if place + 1 < len(found) else sentence
    between = sentence.passage.text[sentence.end : following.start]
    goes_on = following.passage is sentence.passage and following.start > sentence.end and not between.strip(" ")
    if not goes_on or _CELLS in sentence.text + following.text:
        return sentence
    return replace(sentence, end=following.end, text=f"{sentence.text} {following.text}")


def _holds(quote: QuotableSentence, sentence: QuotableSentence) -> bool:
    return quote.passage is sentence.passage and quote.start <= sentence.start and sentence.end <= quote.end


def _reader_scores(spans: Sequence[ReadSpan]) -> list[float]:
    """Standard scores; what is far behind the best is equally bad."""
    floor = max(span.score for span in spans) - _READER_REACH
    return standard_scores([max(span.score, floor) for span in spans])


def _sentences_of(passage: Passage) -> Iterator[QuotableSentence]:
    path = heading_path(passage)
    header = asked = ""
    for start, end in split_sentences(passage.text):
        text = " ".join(passage.text[start:end].split())
        if _CELLS in text and not header:
            header = text  # of the rows that follow
        elif text.endswith("?"):
            asked = text  # what follows may answer it
        else:
            header = header if _CELLS in text else ""
            yield QuotableSentence(passage, start, end, text, ": ".join(filter(None, (path, header, asked))))
            asked = ""
