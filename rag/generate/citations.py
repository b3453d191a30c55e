"""The citations that a model writes: found while its text streams, and resolved to places in documents."""

import re
from collections.abc import Collection

from rag.data import Citation, Passage
from rag.generate.sentences import split_sentences
from rag.rewrite.words import content_stems

_NUMBER = r"\d{1,3}"
_SEPARATOR = r"\s*(?:,|;|&|and)\s*"
_RANGE = rf"{_NUMBER}(?:\s*[-–]\s*{_NUMBER})?"
_CONTENT = rf"\s*(?:\^|#|(?:passage|source|document)s?\s*#?)?\s*{_RANGE}(?:{_SEPARATOR}{_RANGE})*\s*"
_CITATION = re.compile(rf"[\[【]{_CONTENT}(?:†[^\]】]*)?[\]】]", re.IGNORECASE)
_MAX_BRACKET = 40  # characters; a longer bracket is no citation
_MAX_RANGE = 20

CITATION_IN_TEXT = re.compile(rf"(?<!\w)(?:{_CITATION.pattern})", re.IGNORECASE)

StreamEvent = str | int  # a piece of text, or the number of a passage that is cited behind it


class CitationStream:
    """Splits a streamed text into plain text and citations.

    "[n]", "[1, 2]", "[1][2]", "[1-3]" and "【1】" are citations. Numbers without a passage vanish from the text and are
    counted. Other brackets stay as they are: "[optional]", and "array[0]", whose bracket follows a word directly.
    The events joined do not depend on how the text was cut into pieces: it is read character by character.
    """

    def __init__(self, numbers: Collection[int]) -> None:
        self.num_removed = 0
        self._numbers = frozenset(numbers)
        self._events: list[StreamEvent] = []
        self._bracket = ""  # an open bracket and what followed it
        self._spaces = ""  # white space before it or at the end, held back
        self._after_removal = False
        self._previous = ""  # the last character that was not held back

    def feed(self, piece: str) -> list[StreamEvent]:
        """What is certain after this piece."""
        for character in piece:
            self._step(character)
        return self._take()

    def close(self) -> list[StreamEvent]:
        """The rest: a bracket that was never closed is text."""
        self._give_up_bracket()
        if not self._after_removal:
            self._emit("")
        return self._take()

    def _take(self) -> list[StreamEvent]:
        events, self._events = self._events, []
        return events

    def _step(self, character: str) -> None:
        if self._bracket:
            if character not in "[【\n" and len(self._bracket) < _MAX_BRACKET:
                self._bracket += character
                if character in "]】":
                    self._resolve()
                return
            self._give_up_bracket()
        if character in "[【":
            self._bracket = character
        elif character.isspace():
            if self._after_removal:
                self._spaces, self._after_removal = "", False
            self._spaces += character
        else:
            if self._after_removal and character in ".,;:!?)":
                self._spaces = ""
            self._emit(character)

    def _resolve(self) -> None:
        bracket, self._bracket = self._bracket, ""
        subscript = not self._spaces and (self._previous.isalnum() or self._previous == "_")
        if subscript or not _CITATION.fullmatch(bracket):
            self._emit(bracket)
            # a second subscript may follow the first: "table[0][1]"
            self._previous = "_" if subscript else bracket[-1]
            return
        known = [number for number in _cited(bracket) if number in self._numbers]
        self.num_removed += len(_cited(bracket)) - len(known)
        if known:
            self._emit("")
            self._events.extend(known)
        else:
            self._after_removal = True
        self._previous = bracket[-1]

    def _give_up_bracket(self) -> None:
        if self._bracket:
            bracket, self._bracket = self._bracket, ""
            self._emit(bracket)

    def _emit(self, text: str) -> None:
        text = self._spaces + text
        self._spaces, self._after_removal = "", False
        if not text:
            return
        if self._events and isinstance(self._events[-1], str):
            self._events[-1] += text
        else:
            self._events.append(text)
        self._previous = text[-1]


def _cited(bracket: str) -> list[int]:
    """The numbers of a bracket in order, ranges written out."""
    numbers: list[int] = []
    for first, last in re.findall(rf"({_NUMBER})(?:\s*[-–]\s*({_NUMBER}))?", bracket.partition("†")[0]):
        low, high = int(first), int(last or first)
        numbers.extend(range(low, high + 1) if low <= high <= low + _MAX_RANGE else (low, high))
    return list(dict.fromkeys(numbers))


def cited_numbers(text: str) -> list[int]:
    """The numbers that a finished text cites, each once, in order of first use."""
    stream = CitationStream(range(10**3))
    events = [*stream.feed(text), *stream.close()]
    return list(dict.fromkeys(event for event in events if isinstance(event, int)))


def keep_citations(text: str, numbers: Collection[int]) -> tuple[str, int]:
    """The text with only the citations of these numbers, as [n], and how many it lost."""
    stream = CitationStream(numbers)
    events = [*stream.feed(text), *stream.close()]
    return "".join(f"[{event}]" if isinstance(event, int) else event for event in events), stream.num_removed


def cite(passage: Passage, claim: str = "", attributed: bool = False) -> Citation:
    """The citation of a passage for a claim; its quote is the sentence of the passage that shares most with the claim.

    The whole text of the passage is quoted where no sentence shares a content word with the claim.
    """
    return _citation(passage, best_sentence(passage.text, claim), attributed)


def cite_span(passage: Passage, start: int, end: int, attributed: bool = False) -> Citation:
    """The citation of a stretch of a passage: `passage.text[start:end]` is its quote."""
    return _citation(passage, (start, end), attributed)


def _citation(passage: Passage, span: tuple[int, int] | None, attributed: bool) -> Citation:
    chunk = passage.chunk
    return Citation(
        number=passage.number,
        chunk_id=chunk.id,
        document_id=chunk.document_id,
        uri=chunk.metadata.uri,
        title=chunk.metadata.title,
        headings=chunk.headings,
        page=chunk.regions[0].page if chunk.regions else None,
        regions=chunk.regions,
        quote=passage.text if span is None else passage.text[span[0] : span[1]],
        updated_at=chunk.metadata.updated_at,
        attributed=attributed,
        start=None if span is None else span[0],
        end=None if span is None else span[1],
    )


def best_sentence(text: str, claim: str) -> tuple[int, int] | None:
    """The (start, end) of the sentence that shares most content words with the claim, the shorter of equals; None if
    none shares any."""
    claimed = content_stems(claim)
    best, best_key = None, (0, 0)
    for start, end in split_sentences(text):
        shared = len(content_stems(text[start:end]) & claimed)
        if shared and (shared, start - end) > best_key:
            best, best_key = (start, end), (shared, start - end)
    return best
