"""Citations that a model did not write: each sentence of an answer given to the passage that holds its words."""

import re
from collections import Counter
from collections.abc import Sequence

from rag.data import Citation, Passage
from rag.generate.citations import CitationStream, cite
from rag.generate.prompt import is_refusal
from rag.generate.sentences import sentence_end
from rag.rewrite.words import content_stems, exact_terms, words

_MIN_CONTENT_WORDS = 2  # "Yes." says nothing that a passage could be asked about
_LIST_MARKER = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+")
_TERMINATOR = re.compile(r"[.!?…。！？]+[\"'”’)\]*_`」』）]*$")

# Inside the buffers a citation is one private-use character, so that nothing can cut it in half or mistake it for text.
_FIRST_MARK = 0xE000
_MARK = re.compile("[\ue000-\uf8ff]")

_MAX_REPEATS = 3  # a sentence said this often means that the model is in a loop
_MIN_REPEATED_WORDS = 5  # a longer sentence is never said twice; "Yes." may be
_MAX_UNSUPPORTED = 2  # so many sentences without support, and none with it: the model is not reading the passages


class Attributor:
    """Finds the passage that a sentence rests on, by the words they share."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._words = [(passage.number, _words_of(passage)) for passage in passages]

    def attribute(self, sentence: str, min_share: float) -> int | None:
        """The number of the passage that holds the largest share of the sentence's content words.

        None if that share is below `min_share`, or if no passage with such a share holds all of the sentence's numbers
        and identifiers, or if the sentence has fewer than two content words. Ties go to the better rank.
        """
        shares = self._shares(sentence)
        best = max(shares, key=lambda number: (shares[number], -number), default=None)
        return best if best is not None and shares[best] >= min_share and shares[best] > 0 else None

    def supported(self, sentence: str, numbers: Sequence[int], min_share: float) -> list[int]:
        """Those of the passages that hold so much of the sentence, and all of its numbers and identifiers."""
        shares = self._shares(sentence)
        return [number for number in numbers if shares.get(number, 0.0) >= min_share]

    def _shares(self, sentence: str) -> dict[int, float]:
        """For every passage with all numbers and identifiers of the sentence: the share of its content words."""
        claim = _LIST_MARKER.sub("", sentence)
        stems, exact = content_stems(claim), exact_terms(claim)
        if len(stems) < _MIN_CONTENT_WORDS:
            return {}
        return {
            number: len(stems & passage_stems) / len(stems)
            for number, (passage_stems, passage_exact) in self._words
            if exact <= passage_exact
        }


def _words_of(passage: Passage) -> tuple[frozenset[str], frozenset[str]]:
    """Stems and exact terms of what the model saw of a passage: its text, title and headings."""
    shown = "\n".join((passage.chunk.metadata.title, *passage.chunk.headings, passage.text))
    return content_stems(shown), exact_terms(shown)


def attribute(sentence: str, passages: Sequence[Passage], min_share: float) -> int | None:
    """The passage that one sentence rests on; see `Attributor.attribute`."""
    return Attributor(passages).attribute(sentence, min_share)


class AnswerStream:
    """Turns a model's streamed text into an answer in which every [n] resolves.

    `feed` and `close` return pieces of text with, before the piece that first uses a number, its Citation. A sentence
    is held back until it ends: a citation written behind it moves before its full stop ("text [1]."), and one without
    any gets the passage that it can be attributed to. A long sentence that was said before is dropped; one that comes
    a third time sets `looping`, and nothing more is taken. How the text is cut into pieces changes nothing of it.

    Unless `keep_unsupported`, a sentence that no passage supports is dropped and counted, whether the model cited one
    for it or not; `lost` says that the first sentences were all of that kind.
    """

    def __init__(self, passages: Sequence[Passage], min_attribution: float, keep_unsupported: bool = True) -> None:
        self.looping = False
        self.num_unsupported = 0  # sentences dropped
        self._keep_unsupported = keep_unsupported
        self._passages = {passage.number: passage for passage in passages}
        self._min_attribution = min_attribution
        self._attributor = Attributor(passages)
        self._stream = CitationStream(self._passages.keys())
        self._pending = ""  # the sentence that is being written, citations as marks
        self._skip_spaces = False
        self._text = ""
        self._said: Counter[str] = Counter()
        self._citations: dict[int, Citation] = {}

    @property
    def text(self) -> str:
        """All text so far: the pieces joined."""
        return self._text

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Each cited passage once, in order of first use."""
        return tuple(self._citations.values())

    @property
    def num_removed(self) -> int:
        """Citations that the model made up."""
        return self._stream.num_removed

    @property
    def lost(self) -> bool:
        """Whether the model's first sentences were all without support, so that there is no use in more of them."""
        return not self._text and self.num_unsupported >= _MAX_UNSUPPORTED

    @property
    def refused(self) -> bool:
        """Whether the text says that the documents hold no answer."""
        return is_refusal(self._text)

    def feed(self, piece: str) -> list[str | Citation]:
        """What can leave after this piece: whole sentences."""
        return self._take(self._stream.feed(piece), final=False)

    def close(self) -> list[str | Citation]:
        """The rest, when the model has stopped; an unfinished sentence included."""
        return self._take(self._stream.close(), final=True)

    def _take(self, events: Sequence[str | int], final: bool) -> list[str | Citation]:
        ready: list[str | Citation] = []
        for event in events:
            if isinstance(event, int):
                self._mark(event)
            else:
                self._append(event)
            ready += self._finished_sentences(final=False)
        if final:
            ready += self._finished_sentences(final=True)
        return ready

    def _append(self, text: str) -> None:
        text = _MARK.sub("", text)
        if self._skip_spaces:
            text = text.lstrip(" ")
            self._skip_spaces = not text
            if text.startswith("\n"):
                self._pending = self._pending.rstrip(" ")
        self._pending += text

    def _mark(self, number: int) -> None:
        mark = chr(_FIRST_MARK + number)
        body = self._pending.rstrip()
        spaces = self._pending[len(body) :]
        terminator = _TERMINATOR.search(body)
        if not body:
            self._pending += mark
        elif terminator:
            self._pending = _with_mark(body[: terminator.start()], mark) + terminator.group() + (spaces or " ")
            self._skip_spaces = True
        else:
            self._pending = _with_mark(body, mark)

    def _finished_sentences(self, final: bool) -> list[str | Citation]:
        ready: list[str | Citation] = []
        while not self.looping and (end := sentence_end(self._pending, final=final)) is not None:
            sentence, self._pending = self._pending[:end], self._pending[end:]
            ready += self._finish(sentence if self._text else sentence.lstrip())
        return ready

    def _finish(self, sentence: str) -> list[str | Citation]:
        claim = _MARK.sub("", sentence).strip()
        if self._is_repeated(claim):
            return []
        numbers = [ord(mark) - _FIRST_MARK for mark in _MARK.findall(sentence)]
        if numbers and not self._keep_unsupported:
            numbers = self._attributor.supported(claim, numbers, self._min_attribution)
            sentence = _MARK.sub(
                lambda mark: mark.group() if ord(mark.group()) - _FIRST_MARK in numbers else "", sentence
            )
        attributed = None
        if not numbers and not claim.endswith(("?", "？")) and not is_refusal(claim):
            attributed = self._attributor.attribute(claim, self._min_attribution)
        if attributed is not None:
            numbers = [attributed]
            terminator = _TERMINATOR.search(sentence)
            end = terminator.start() if terminator else len(sentence)
            sentence = _with_mark(sentence[:end], chr(_FIRST_MARK + attributed)) + sentence[end:]
        if not numbers and not self._keep_unsupported and not is_refusal(claim):
            self.num_unsupported += bool(claim)
            return []
        ready: list[str | Citation] = []
        for number in numbers:
            if number not in self._citations:
                citation = cite(self._passages[number], claim, attributed=attributed is not None)
                self._citations[number] = citation
                ready.append(citation)
        text = _MARK.sub(lambda match: f"[{ord(match.group()) - _FIRST_MARK}]", sentence)
        self._text += text
        return [*ready, text]

    def _is_repeated(self, claim: str) -> bool:
        said = words(claim)
        if not said:
            return False
        key = " ".join(said)
        self._said[key] += 1
        self.looping = self._said[key] >= _MAX_REPEATS
        return self.looping or (self._said[key] > 1 and len(said) >= _MIN_REPEATED_WORDS)


def _with_mark(text: str, mark: str) -> str:
    """The text with the mark behind it: after a space, or directly after another mark; not twice."""
    text = text.rstrip()
    if text.endswith(mark):
        return text
    return text + mark if not text or _MARK.fullmatch(text[-1]) else f"{text} {mark}"
