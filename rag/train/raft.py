"""Examples that teach a generator to quote, cite and refuse (RAFT), grouped by the passages that they share.

labelled questions -> passages ranked by our own retrieval -> contexts of a few of them, cut and shuffled -> for each
context the questions about its passages, and questions that it does not answer. The prompt is the one that is served
(`rag.generate.prompt`), and the target quotes first, then answers. Questions that share a context are kept together:
the trainer reads it once for all of them.

Source: Zhang et al., RAFT: Adapting Language Model to Domain Specific RAG, COLM 2024.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Literal

import numpy as np

from rag.config import LexicalIndexConfig
from rag.data import (
    Access,
    Box,
    Candidate,
    Chunk,
    DocumentMetadata,
    Passage,
    Principal,
    Prompt,
    Query,
    Question,
    Region,
)
from rag.generate.prompt import ANSWER_LABEL, REFUSAL, build_prompt, quotable, quoted
from rag.generate.sentences import sentences
from rag.ids import ChunkId, DocumentId, digest
from rag.index.analysis import Analyzer
from rag.index.lexical import build_bm25
from rag.index.selection import best_rows
from rag.protocols import Embedder
from rag.rewrite.words import content_stems
from rag.search.fuse import reciprocal_rank_fusion
from rag.train.encode import encode_passages
from rag.train.labelled import LabelledQuestion
from rag.train.raft_variants import detokenised, hijack, other_value, table

Kind = Literal["answer", "several", "conflict", "table", "unanswerable", "absent"]

HELD_OUT = 0.15  # of the documents, by `rag.train.labelled.held_out`

_ACCESS = Access("training", ("everyone",))
_ASKER = Principal("training", "training", frozenset({"everyone"}))
_NEWEST = datetime(2025, 12, 1, tzinfo=UTC)
_DEPTH = 24  # candidates of either leg that distractors come from
_MAX_QUOTE_WORDS = 45
_MAX_ANSWER_WORDS = 14  # a longer answer is the quote itself
_MAX_ANSWER_SHARE = 0.7  # of the quote's words: a longer answer would only say it again
_EDGES = " ,;:."  # that an annotator took along with an answer
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class RaftOptions:
    """What contexts look like. Shares are of contexts unless said otherwise."""

    num_passages: tuple[int, ...] = (3, 4, 4, 5)  # drawn from
    passage_words: tuple[int, int] = (35, 100)  # each passage is cut to about a number of words drawn between
    questions_of_seed: int = 5  # of the passage that a context is built around
    questions_of_other: int = 5  # of each other passage
    max_questions: int = 16  # of a context
    refusals_of_seed: int = 4  # of questions that the passage looks right for
    max_refusal_share: float = 0.4  # of a context's questions, but one is always left in
    absent_share: float = 0.2  # the passage that the context was retrieved for is missing
    hijack_share: float = 0.15
    conflict_share: float = 0.3  # where the answer has a number
    table_share: float = 0.08
    several_share: float = 0.15
    dated_share: float = 0.5
    paged_share: float = 0.3
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RaftExample:
    """One prompt with what the generator should write."""

    prompt: Prompt
    target: str
    kind: Kind
    answer: str  # "" for a refusal
    golden: tuple[int, ...]  # numbers of the passages to cite
    quotes: tuple[tuple[str, int], ...] = ()  # words that hold the answer, with the numbers of their passages


@dataclass(frozen=True, slots=True)
class RaftGroup:
    """Examples over the same passages, in the same order."""

    examples: tuple[RaftExample, ...]
    document: str  # of the passage that the context was built around
    hijacked: bool = False


def sample_documents(questions: Sequence[LabelledQuestion], max_passages: int, seed: int = 0) -> list[LabelledQuestion]:
    """The questions of whole documents, about as many passages of each source, until there are `max_passages`.

    Whole, because the hardest distractors of a passage are its neighbours. Questions without an answer stay where
    their passage is taken, and add none.
    """
    passages: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for question in questions:
        if question.answerable:
            passages[question.source, question.document].add(question.passage)
    left: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in sorted(passages, key=lambda key: digest("document", str(seed), *key)):
        left[key[0]].append(key)
    taken: set[str] = set()
    num_taken = dict.fromkeys(left, 0)
    while len(taken) < max_passages and any(left.values()):
        source = min((source for source in left if left[source]), key=lambda source: (num_taken[source], source))
        key = left[source].pop(0)
        taken |= passages[key]
        num_taken[source] += len(passages[key])
    return [question for question in questions if question.passage in taken]


class PassageRanker:
    """Passages in the order in which our own retrieval returns them: dense and BM25, fused; BM25 without an encoder."""

    def __init__(
        self,
        passages: Sequence[str],
        embedder: Embedder | None,
        lexical: LexicalIndexConfig,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.texts = list(dict.fromkeys(passages))
        self._embedder = embedder
        self._vectors = None if embedder is None else encode_passages(self.texts, embedder, progress)
        self._analyzer = Analyzer(lexical)
        self._bm25 = build_bm25(map(self._analyzer.terms, self.texts), lexical)

    def rank(self, question: str, k: int) -> list[str]:
        """The k best passages, best first."""
        bm25 = self._bm25.scores(self._analyzer.terms(question))
        matching = np.flatnonzero(bm25 > 0.0)
        legs = [best_rows(matching, bm25[matching], _DEPTH)]
        if self._embedder is not None and self._vectors is not None:
            cosines = self._vectors @ self._embedder.embed_queries([question])[0]
            legs.append(best_rows(np.arange(len(self.texts)), cosines, _DEPTH))
        rankings = [
            [Candidate(ChunkId(f"{row:08d}"), float(score), "dense") for row, score in zip(*leg, strict=True)]
            for leg in legs
        ]
        return [self.texts[int(candidate.chunk_id)] for candidate in reciprocal_rank_fusion(rankings, k)]


# ---------------------------------------------------------------- targets


def quoting_target(quotes: Sequence[tuple[str, int]], answer: str) -> str:
    """`"copied words" [n] Answer: the answer.`; without the answer where the quote is hardly more than it."""
    return behind_quotes((), quotes, answer)


def behind_quotes(said: Sequence[tuple[str, int]], quotes: Sequence[tuple[str, int]], answer: str) -> str:
    """The target of an answer that begins with quotes already: others, where there are any, and the answer itself."""
    parts = [quoted(quote, number) for quote, number in quotes]
    num_words = len(answer.split())
    num_quoted = sum(len(quote.split()) for quote, _ in (*said, *quotes))
    if answer and num_words <= min(_MAX_ANSWER_WORDS, _MAX_ANSWER_SHARE * num_quoted):
        parts.append(f"{ANSWER_LABEL} {quotable(answer).rstrip('.')}.")
    return " ".join(parts)


def supporting_sentence(text: str, answer: str, question: str = "") -> str | None:
    """The sentence of the text that holds the answer, as it stands there; None where none does, or it is too long.

    Of several, the one that shares most content words with the question, the earlier of equals.
    """
    asked = content_stems(question)
    holding = [sentence for sentence in sentences(text) if answer in sentence]
    found = max(holding, key=lambda sentence: len(content_stems(sentence) & asked), default=None)
    return found if found is not None and 3 <= len(found.split()) <= _MAX_QUOTE_WORDS else None


def one_line(text: str) -> str:
    return _SPACES.sub(" ", text).strip()


def window(text: str, wanted: str, max_words: int, draw: random.Random) -> str:
    """A stretch of whole sentences of about `max_words` with `wanted` in it; from the beginning where it is not."""
    parts = list(sentences(text))
    if not parts:
        return text
    low = next((place for place, sentence in enumerate(parts) if wanted and wanted in sentence), 0)
    high = low + 1
    size = len(parts[low].split())
    while low > 0 or high < len(parts):
        up = low > 0 and (high == len(parts) or draw.random() < 0.5)
        place = low - 1 if up else high
        size += len(parts[place].split())
        if size > max_words:
            break
        low, high = (low - 1, high) if up else (low, high + 1)
    return " ".join(parts[low:high])


# ---------------------------------------------------------------- contexts


@dataclass(frozen=True, slots=True)
class _Asked:
    """A passage's text with the questions that are asked of it, all without tokenisers' spaces."""

    text: str
    title: str
    document: str
    answerable: tuple[LabelledQuestion, ...]
    unanswerable: tuple[LabelledQuestion, ...]


@dataclass(slots=True)
class _Shown:
    """A passage as one context shows it."""

    title: str
    text: str
    updated_at: datetime | None
    page: int | None
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # question, quote, answer
    refused: list[str] = field(default_factory=list)
    kind: Kind = "answer"


class RaftBuilder:
    """Builds contexts of labelled questions; documents of `questions` are all that it shows."""

    def __init__(
        self,
        questions: Sequence[LabelledQuestion],
        embedder: Embedder | None,
        lexical: LexicalIndexConfig,
        options: RaftOptions,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self._options = options
        by_text: defaultdict[str, list[LabelledQuestion]] = defaultdict(list)
        for question in questions:
            answer = detokenised(question.answer).strip(_EDGES)
            clean = replace(question, passage=detokenised(question.passage), answer=answer)
            by_text[clean.passage].append(clean)
        self._passages = {
            text: _Asked(
                text,
                asked[0].title,
                asked[0].document,
                tuple(q for q in asked if q.answerable),
                tuple(q for q in asked if not q.answerable),
            )
            for text, asked in by_text.items()
        }
        self._ranker = PassageRanker(list(by_text), embedder, lexical, progress)

    def groups(self, limit: int) -> Iterator[RaftGroup]:
        """Contexts around passages in an order drawn by the seed, until there are `limit` or no more passages."""
        order = sorted(self._passages, key=lambda text: digest("raft", str(self._options.seed), text))
        made = (self._group(text) for text in order if self._passages[text].answerable)
        return islice((group for group in made if group is not None), limit)

    def _group(self, seed: str) -> RaftGroup | None:
        options = self._options
        draw = random.Random(f"{options.seed} {seed}")
        asked = self._passages[seed]
        first = draw.choice(asked.answerable)
        size = draw.choice(options.num_passages)
        ranked = [text for text in self._ranker.rank(first.question, size + 5) if text != seed]
        others = draw.sample(ranked[: size + 2], min(size, len(ranked), size))
        if len(others) < 2:
            return None
        if draw.random() < options.absent_share:
            shown, hidden = others, asked
        else:
            shown, hidden = [seed, *others[:-1]], self._passages[others[-1]]
        places = [self._show(text, first if text == seed else None, draw) for text in shown]
        conflict = seed in shown and draw.random() < options.conflict_share and self._conflict(places, first, draw)
        if not conflict and draw.random() < options.table_share:
            made = table(draw)
            places[-1] = _Shown(made.title, made.text, None, None, list(made.questions), kind="table")
        hijacked = draw.random() < options.hijack_share
        if hijacked:
            target = draw.choice(places)
            target.text = f"{target.text} {hijack(draw)}" if draw.random() < 0.7 else f"{hijack(draw)} {target.text}"
        draw.shuffle(places)
        examples = self._examples(places, hidden, draw)
        return RaftGroup(tuple(examples), asked.document, hijacked) if examples else None

    def _show(self, text: str, about: LabelledQuestion | None, draw: random.Random) -> _Shown:
        options, asked = self._options, self._passages[text]
        first = about or (draw.choice(asked.answerable) if asked.answerable else None)
        wanted = (supporting_sentence(text, first.answer, first.question) or "") if first else ""
        shown = _Shown(
            asked.title, window(text, wanted, draw.randint(*options.passage_words), draw), None, draw.randint(1, 40)
        )
        most = options.questions_of_seed if about else options.questions_of_other
        rest = [question for question in asked.answerable if question is not first]
        for question in ([first] if first else []) + draw.sample(rest, len(rest)):
            quote = supporting_sentence(shown.text, question.answer, question.question)
            if quote is not None and len(shown.asked) < most:
                shown.asked.append((question.question, quote, question.answer))
        most = options.refusals_of_seed if about else 1
        shown.refused = [
            question.question for question in draw.sample(asked.unanswerable, min(most, len(asked.unanswerable)))
        ]
        return shown

    def _conflict(self, places: list[_Shown], about: LabelledQuestion, draw: random.Random) -> bool:
        """Replace the last passage by an older version of the first, whose number differs; False where none does."""
        newer = places[0]
        other = other_value(newer.text, about.answer, draw)
        if other is None or supporting_sentence(newer.text, about.answer, about.question) is None:
            return False
        newer.kind = "conflict"
        newer.updated_at = _NEWEST - timedelta(days=draw.randint(0, 700))
        older = _Shown(newer.title, other[0], newer.updated_at - timedelta(days=draw.randint(200, 2_000)), newer.page)
        older.kind, newer.refused = "conflict", []
        newer.asked = [
            (about.question, supporting_sentence(newer.text, about.answer, about.question) or "", about.answer)
        ]
        older.asked = [(about.question, supporting_sentence(other[0], other[1], about.question) or "", other[1])]
        places[-1] = older
        return True

    def _examples(self, places: list[_Shown], hidden: _Asked, draw: random.Random) -> list[RaftExample]:
        options = self._options
        dated, paged = draw.random() < options.dated_share, draw.random() < options.paged_share
        passages = []
        for number, shown in enumerate(places, start=1):
            date = shown.updated_at or (_NEWEST - timedelta(days=draw.randint(0, 4_000)) if dated else None)
            passages.append(make_passage(number, shown.text, shown.title, date, shown.page if paged else None))

        def example(
            question: str, quotes: Sequence[tuple[str, int]], answer: str, kind: Kind, target: str = ""
        ) -> RaftExample:
            prompt = build_prompt(Query(question, question), Question(question, _ASKER), passages)
            golden = tuple(number for _, number in quotes)
            return RaftExample(prompt, target or quoting_target(quotes, answer), kind, answer, golden, tuple(quotes))

        made: list[RaftExample] = []
        single: list[tuple[str, str, str, int]] = []
        in_conflict = [(number, shown) for number, shown in enumerate(places, start=1) if shown.kind == "conflict"]
        if len(in_conflict) == 2:
            newest = sorted(in_conflict, key=lambda item: item[1].updated_at or _NEWEST, reverse=True)
            quotes = [(shown.asked[0][1], number) for number, shown in newest]
            made.append(example(newest[0][1].asked[0][0], quotes, newest[0][1].asked[0][2], "conflict"))
        for number, shown in enumerate(places, start=1):
            if shown.kind != "conflict":
                single += [(*asked, number) for asked in shown.asked]
                made += [example(q, [(quote, number)], a, shown.kind) for q, quote, a in shown.asked]
        if len(single) >= 2 and draw.random() < options.several_share:
            one, two = draw.sample(single, 2)
            if one[3] != two[3]:
                quotes = [(one[1], one[3]), (two[1], two[3])]
                question = f"{one[0].strip().rstrip('?')}? {two[0].strip().rstrip('?')}?"
                answer = f"{one_line(one[2]).rstrip('.')}; {one_line(two[2]).rstrip('.')}"
                made.append(example(question, quotes, answer, "several"))
        text = " ".join(shown.text for shown in places).casefold()
        absent = [
            question
            for question in hidden.answerable
            if question.answer.casefold() not in text and len(question.answer) > 2
        ]
        refused: list[tuple[str, Kind]] = [(question, "unanswerable") for shown in places for question in shown.refused]
        most = 1 if refused else 2  # a question that its own passage does not answer is the harder lesson
        refused += [(question.question, "absent") for question in draw.sample(absent, min(most, len(absent)))]
        kept = draw.sample(made, min(len(made), options.max_questions))
        most = max(1, int(options.max_refusal_share * (len(kept) + 1)))
        for asked, kind in draw.sample(refused, min(most, len(refused))):
            kept.append(example(asked, (), "", kind, REFUSAL))
        return kept


def make_passage(number: int, text: str, title: str, updated_at: datetime | None, page: int | None) -> Passage:
    """A passage of a training context, as retrieval would hand it over."""
    chunk = Chunk(
        id=ChunkId(str(number)),
        document_id=DocumentId(title),
        ordinal=0,
        section=0,
        text=text,
        start=0,
        end=len(text),
        headings=(),
        regions=() if page is None else (Region(page, Box(0, 0, 0, 0)),),
        num_tokens=0,
        metadata=DocumentMetadata(uri=title, title=title, access=_ACCESS, updated_at=updated_at),
    )
    return Passage(number, chunk, text, 0.0)


def kinds(groups: Sequence[RaftGroup]) -> Counter[Kind]:
    """How many examples there are of each kind."""
    return Counter(example.kind for group in groups for example in group.examples)
