"""A model's text checked while it streams: every quote found in its passage, every sentence given what it rests on."""

import re
from collections import Counter
from collections.abc import Sequence

from rag.clean.injection import instruction_like
from rag.data import AnswerSentence, Citation, Passage
from rag.generate.citations import CitationStream, cite, cite_span
from rag.generate.loops import is_looping
from rag.generate.prompt import ANSWER_LABEL, REFUSAL, is_refusal, neutralise
from rag.generate.quotes import QuotedSpan, find_quote
from rag.generate.sentences import sentence_end
from rag.generate.statements import statement
from rag.protocols import EntailmentScorer
from rag.rewrite.words import content_stems, exact_terms, words

_MIN_CONTENT_WORDS = 2  # "Yes." says nothing that a passage could be asked about
_LIST_MARKER = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+")
_TERMINATOR = re.compile(r"[.!?…。！？]+[\"'”’)\]*_`」』）]*$")

# Inside the buffers a citation is one private-use character, so that nothing can cut it in half or mistake it for text.
_FIRST_MARK = 0xE000
_MARK = re.compile("[\ue000-\uf8ff]")
_MARK_AND_SPACES = re.compile("\\s*[\ue000-\uf8ff]")
_QUOTE = re.compile(r"\s*[\"“„«]([^\"”“»]*)[\"”“»](?:\s*[.,;:]?\s*)")  # the words, and what may stand before their [n]
_OPEN_QUOTE = re.compile(r"\s*[\"“„«][^\"”“»]*$")
_BEHIND_QUOTE = re.compile("[\\s.,;:\ue000-\uf8ff]+")
_END = re.compile(r"[.!?…。！？]*$")
_MAX_QUOTE = 800  # characters that are held back for the end of a quote

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
        shares = self.shares(sentence)
        best = max(shares, key=lambda number: (shares[number], -number), default=None)
        return best if best is not None and shares[best] >= min_share and shares[best] > 0 else None

    def shares(self, sentence: str) -> dict[int, float]:
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

    `feed` and `close` return pieces of text with, before the piece that first uses a number, its Citation. How the text
    is cut into pieces changes nothing of it. Only the sentence that is being checked is held back:

    - `"copied words" [n]` becomes the stretch of passage n that they were copied from, as the passage writes it. Words
      that stand in another passage get its number; words that stand in none, and orders to a model, are dropped.
    - `Answer: ...` behind quotes rests on them: it is dropped when they do not hold its words, numbers and names.
    - Any other sentence keeps the citations that hold most of its words, and gets the passage that it can be attributed
      to where it has none. Unless `keep_unsupported`, one that no passage supports is dropped.

    What is dropped is counted; `lost` says that the first sentences were all of that kind. A long sentence that was
    said before is dropped too; one that comes a third time, or words that go round, set `looping`, and nothing more is
    taken.

    `sentences` say how far each is supported: a quote by its likeness to its passage, another sentence by the
    probability that its passages entail it, where there is a `scorer`. An answer is judged as a statement of what the
    `question` asks. Support below `min_support` is none.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        min_attribution: float,
        keep_unsupported: bool = True,
        min_quote_similarity: float = 0.85,
        question: str = "",
        scorer: EntailmentScorer | None = None,
        min_support: float = 0.0,
    ) -> None:
        self.looping = False
        self.num_unsupported = 0  # sentences dropped
        self._keep_unsupported = keep_unsupported
        self._passages = {passage.number: passage for passage in passages}
        self._min_attribution, self._min_quote_similarity = min_attribution, min_quote_similarity
        self._question, self._scorer, self._min_support = question, scorer, min_support
        self._attributor = Attributor(passages)
        self._stream = CitationStream(self._passages.keys())
        self._pending = ""  # the sentence that is being written, citations as marks
        self._skip_spaces = False
        self._behind_quote = False
        self._text = ""
        self._said: Counter[str] = Counter()
        self._citations: dict[int, Citation] = {}
        self._quotes: list[Citation] = []
        self._sentences: list[AnswerSentence] = []

    @property
    def text(self) -> str:
        """All text so far: the pieces joined."""
        return self._text

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Each cited passage once, in order of first use."""
        return tuple(self._citations.values())

    @property
    def sentences(self) -> tuple[AnswerSentence, ...]:
        """The sentences that cite, in order, each with its own quotes and how far they support it."""
        return tuple(self._sentences)

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
        """Whether the text says that the documents hold no answer, be it behind what comes closest."""
        return is_refusal(self._text) or self._text.endswith(REFUSAL)

    def feed(self, piece: str) -> list[str | Citation]:
        """What can leave after this piece: whole sentences."""
        return self._take(self._stream.feed(piece), final=False)

    def close(self) -> list[str | Citation]:
        """The rest, when the model has stopped; an unfinished sentence included."""
        return self._take(self._stream.close(), final=True)

    def _take(self, events: Sequence[str | int], final: bool) -> list[str | Citation]:
        ready: list[str | Citation] = []
        for event in events:
            # One character at a time: what is found does not depend on how the text arrived.
            for part in [event] if isinstance(event, int) else _MARK.sub("", event):
                if self.looping:
                    break
                if isinstance(part, int):
                    self._mark(part)
                else:
                    self._append(part)
                ready += self._finished(final=False)
        if final and not self.looping:
            ready += self._finished(final=True)
        return ready

    def _append(self, character: str) -> None:
        if self._skip_spaces:
            if character == " ":
                return
            self._skip_spaces = False
            if character == "\n":
                self._pending = self._pending.rstrip(" ")
        self._pending += character
        if character.isspace():
            self._stop_loop()

    def _stop_loop(self) -> None:
        """Drops a sentence that goes round, and takes nothing more."""
        if is_looping(self._pending.casefold().split()):
            self.looping, self._pending = True, ""

    def _mark(self, number: int) -> None:
        mark = chr(_FIRST_MARK + number)
        body = self._pending.rstrip()
        spaces = self._pending[len(body) :]
        terminator = _TERMINATOR.search(body)
        if not body or _QUOTE.fullmatch(body):
            self._pending += mark
        elif terminator:
            self._pending = _with_mark(body[: terminator.start()], mark) + terminator.group() + (spaces or " ")
            self._skip_spaces = True
            self._stop_loop()  # the space behind it is here already
        else:
            self._pending = _with_mark(body, mark)

    # ------------------------------------------------------------ one sentence after the other

    def _finished(self, final: bool) -> list[str | Citation]:
        ready: list[str | Citation] = []
        while not self.looping:
            if self._behind_quote and (behind := _BEHIND_QUOTE.match(self._pending)):
                self._pending = self._pending[behind.end() :]
            if quote := _QUOTE.match(self._pending):
                following = self._pending[quote.end() : quote.end() + 1]
                if _MARK.match(following) or (final and not following):
                    self._pending = self._pending[quote.end() + len(following) :]
                    ready += self._finish_quote(quote[1], ord(following) - _FIRST_MARK if following else None)
                    continue
                if not following:
                    break  # its number may follow
            elif not final and _OPEN_QUOTE.match(self._pending) and len(self._pending) < _MAX_QUOTE:
                break
            labelled = self._behind_quote and self._pending.startswith(ANSWER_LABEL)
            if not final and self._behind_quote and ANSWER_LABEL.startswith(self._pending):
                break
            end = self._end_of_answer(final) if labelled else sentence_end(self._pending, final=final)
            if end is None:
                break
            sentence, self._pending = self._pending[:end], self._pending[end:]
            ready += self._finish_answer(sentence) if labelled else self._finish(sentence)
        return ready

    def _end_of_answer(self, final: bool) -> int | None:
        """A short answer ends with its line: "J. K. Rowling; season 2" is one."""
        end = self._pending.find("\n")
        if end >= 0:
            return end
        return len(self._pending.rstrip()) if final and self._pending.strip() else None

    def _finish_quote(self, quote: str, number: int | None) -> list[str | Citation]:
        self._behind_quote = True
        if not quote.strip() or self._is_repeated(quote):
            return []
        found = self._find(quote, number)
        if found is None:
            self.num_unsupported += 1
            return []
        passage, span = found
        citation = cite_span(passage, span.start, span.end, attributed=passage.number != number)
        if any((said.number, said.start, said.end) == (citation.number, span.start, span.end) for said in self._quotes):
            return []
        self._quotes.append(citation)
        return self._say(_as_sentence(citation.quote), (citation,), span.similarity)

    def _find(self, quote: str, number: int | None) -> tuple[Passage, QuotedSpan] | None:
        """The passage that holds the quote, the cited one first, and where."""
        for passage in sorted(self._passages.values(), key=lambda passage: (passage.number != number, passage.number)):
            span = find_quote(quote, passage.text, self._min_quote_similarity)
            if span is not None and not instruction_like(passage.text[span.start : span.end]):
                return passage, span
        return None

    def _finish_answer(self, sentence: str) -> list[str | Citation]:
        """What is said behind "Answer:", with the numbers of the quotes that hold it."""
        self._behind_quote = False
        claim = _MARK.sub("", sentence.removeprefix(ANSWER_LABEL)).strip().rstrip(".").rstrip()
        stems, exact = content_stems(claim), exact_terms(claim)
        held = [(citation, f"{citation.title} {citation.quote}") for citation in self._quotes]
        together = " ".join(text for _, text in held)
        if stems:
            share = len(stems & content_stems(together)) / len(stems)
        else:
            share = float(bool(words(claim)) and set(words(claim)) <= set(words(together)))
        if not claim or share < self._min_attribution or not exact <= exact_terms(together):
            self.num_unsupported += bool(claim)
            return []
        holding = [
            citation for citation, text in held if stems & content_stems(citation.quote) and exact <= exact_terms(text)
        ] or [citation for citation, _ in held]
        unique = tuple({citation.number: citation for citation in holding}.values())
        support = self._support(unique, statement(self._question, claim), share)
        if self._is_doubtful(support):
            return []
        return self._say(f"{ANSWER_LABEL} {neutralise(claim)}", unique, support)

    def _say(self, body: str, citations: tuple[Citation, ...], support: float) -> list[str | Citation]:
        """A sentence of our own making, with its citations before its end."""
        end = _END.search(body)
        assert end is not None  # it matches the empty text too
        marks = "".join(f"[{citation.number}]" for citation in citations)
        text = f"{' ' if self._text else ''}{body[: end.start()].rstrip()} {marks}{end.group() or '.'}"
        return self._emit(text, citations, support)

    def _emit(self, text: str, citations: tuple[Citation, ...], support: float) -> list[str | Citation]:
        new = [citation for citation in citations if citation.number not in self._citations]
        self._citations.update({citation.number: citation for citation in new})
        if citations:
            self._sentences.append(AnswerSentence(text.strip(), citations, round(support, 3)))
        self._text += text
        return [*new, text]

    def _finish(self, sentence: str) -> list[str | Citation]:
        if self._behind_quote or not self._text:
            sentence = f"{' ' if self._text else ''}{sentence.lstrip()}"  # what stands behind a quote is gone
        self._behind_quote = False
        claim = _MARK_AND_SPACES.sub("", sentence).strip()
        if self._is_repeated(claim):
            return []
        numbers = list(dict.fromkeys(ord(mark) - _FIRST_MARK for mark in _MARK.findall(sentence)))
        shares = self._attributor.shares(claim)
        if numbers and not self._keep_unsupported:
            numbers = [number for number in numbers if shares.get(number, 0.0) >= self._min_attribution]
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
        citations = tuple(cite(self._passages[number], claim, attributed=attributed is not None) for number in numbers)
        text = _MARK.sub(lambda match: f"[{ord(match.group()) - _FIRST_MARK}]", sentence)
        share = max((shares.get(number, 0.0) for number in numbers), default=0.0)
        support = self._support(citations, claim, share)
        if citations and self._is_doubtful(support):
            return []
        return self._emit(text, citations, support)

    def _is_doubtful(self, support: float) -> bool:
        """Whether a sentence is to be dropped for want of support, which is counted."""
        doubtful = not self._keep_unsupported and support < self._min_support
        self.num_unsupported += doubtful
        return doubtful

    def _support(self, citations: Sequence[Citation], claim: str, share: float) -> float:
        """How far the cited passages entail the claim; the share of its words that they hold without a scorer."""
        if self._scorer is None or not citations:
            return share
        premise = "\n".join(self._passages[citation.number].text for citation in citations)
        return self._scorer.entail([(premise, claim)])[0]

    def _is_repeated(self, claim: str) -> bool:
        said = words(claim)
        if not said:
            return False
        key = " ".join(said)
        self._said[key] += 1
        self.looping = self._said[key] >= _MAX_REPEATS
        return self.looping or (self._said[key] > 1 and len(said) >= _MIN_REPEATED_WORDS)


def _as_sentence(quote: str) -> str:
    """A stretch of a passage on one line, in which nothing can pass for a citation."""
    return " ".join(neutralise(quote).split()).strip("|").strip()


def _with_mark(text: str, mark: str) -> str:
    """The text with the mark behind it: after a space, or directly after another mark; not twice."""
    text = text.rstrip()
    if text.endswith(mark):
        return text
    return text + mark if not text or _MARK.fullmatch(text[-1]) else f"{text} {mark}"
