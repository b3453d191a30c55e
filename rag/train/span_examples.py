"""What the extractive reader learns from: passages that hold an answer, and such that look right and do not.

labelled questions -> the passage around the answer; passages that search finds for the question and that lack it;
questions that their own passage does not answer; cells of tables, asked for by their row and column.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rag.evaluate.generation import normal_answer
from rag.train.labelled import LabelledQuestion
from rag.train.negatives import MiningOptions, PassagePool
from rag.train.pairs import TrainingPair

HELD_OUT = 0.5  # of the documents, by `rag.train.labelled.held_out`: the reader never learns from them
_WINDOW = 900  # characters of a passage around its answer
_WITH_TITLE = 0.7  # share of the passages that are read below their title
_SHOWN_ROWS, _MAX_CELL_WORDS, _MAX_KEY_WORDS = 8, 12, 8
_ASKING = (
    "What is the {column} of {row}?",
    "What is the {column} for {row}?",
    "{column} for {row}?",
    "Which {column} does {row} have?",
    "I need the {column} of {row}.",
)
_SEPARATOR = re.compile(r"\s*\|?[\s:|-]*-[\s:|-]*\|[\s:|-]*")
_LINK, _EMPHASIS = re.compile(r"\[([^\]]*)\]\([^)]*\)"), " *`"


@dataclass(frozen=True, slots=True)
class SpanExample:
    """A question, and where its answer stands in the passage; None where it does not."""

    question: str
    above: str  # title or heading
    passage: str
    answer: tuple[int, int] | None  # (start, end) in the passage


@dataclass(frozen=True, slots=True)
class MinedQuestion:
    """An answerable question with passages that search finds for it and that do not hold the answer."""

    question: LabelledQuestion
    negatives: tuple[tuple[str, str], ...]  # (title, passage), the best first


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a document, below its heading."""

    heading: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SpanData:
    """Everything that examples are drawn from."""

    answerable: Sequence[MinedQuestion]
    unanswerable: Sequence[LabelledQuestion] = ()
    tables: Sequence[Table] = ()

    def draw(
        self, seed: int, negatives: float = 0.6, unanswerable: float = 0.6, table_questions: int = 1_200
    ) -> list[SpanExample]:
        """The examples of one epoch, shuffled: each answerable question once, a negative for a share of them, a share
        of the unanswerable ones, and so many questions about tables."""
        drawn = random.Random(seed)
        found = []
        for one in self.answerable:
            asked = one.question
            found.append(positive(asked, asked.title if drawn.random() < _WITH_TITLE else "", drawn))
            if one.negatives and drawn.random() < negatives:
                title, passage = drawn.choice(one.negatives)
                found.append(SpanExample(asked.question, title, window(passage, None, drawn)[0], None))
        found += [
            SpanExample(asked.question, asked.title, window(asked.passage, None, drawn)[0], None)
            for asked in self.unanswerable
            if drawn.random() < unanswerable
        ]
        found += table_examples(self.tables, table_questions, drawn)
        drawn.shuffle(found)
        return found


def dev_questions(data: SpanData, count: int, drawn: random.Random) -> list[list[SpanExample]]:
    """So many questions with the passages of each: the one that answers and some that do not; of every second question
    only those that do not."""
    asked = [one for one in data.answerable if one.negatives]
    found = []
    for number, one in enumerate(drawn.sample(asked, min(count, len(asked)))):
        shown = [positive(one.question, one.question.title, drawn)] if number % 2 == 0 else []
        shown += [
            SpanExample(one.question.question, title, window(passage, None, drawn)[0], None)
            for title, passage in one.negatives[:3]
        ]
        found.append(shown)
    return found


def mine(
    questions: Sequence[LabelledQuestion], pool: PassagePool, titles: Mapping[str, str], options: MiningOptions
) -> Iterator[MinedQuestion]:
    """The questions whose answer stands in their passage, with what search finds that lacks it. The pool holds the
    passages of all of them; `titles` names those that have one."""
    pairs = [TrainingPair(q.question, q.passage, q.source, q.document, q.passage) for q in questions]
    kept = [place for place, q in enumerate(questions) if q.answer and q.answer in q.passage]
    rows = pool.rows(pairs)
    by_question = {
        (example.question, example.positive.text): example.negatives
        for example in pool.draw([pairs[place] for place in kept], rows, options)
    }
    for place in kept:
        asked = questions[place]
        answer = f" {normal_answer(asked.answer)} "
        texts = [passage.text for passage in by_question.get((asked.question, asked.passage), ())]
        lacking = [text for text in texts if answer not in f" {normal_answer(text)} "]
        yield MinedQuestion(asked, tuple((titles.get(text, ""), text) for text in lacking))


def positive(asked: LabelledQuestion, title: str, drawn: random.Random) -> SpanExample:
    """The passage around the first place at which the answer stands."""
    start = asked.passage.find(asked.answer)
    shown, span = window(asked.passage, (start, start + len(asked.answer)), drawn)
    return SpanExample(asked.question, title, shown, span)


def window(passage: str, span: tuple[int, int] | None, drawn: random.Random) -> tuple[str, tuple[int, int] | None]:
    """At most about `_WINDOW` characters of the passage, with the span where there is one, from the start of a word."""
    if len(passage) <= _WINDOW:
        return passage, span
    latest = len(passage) - _WINDOW
    if span is None:
        start = drawn.randrange(latest)
    else:
        start = max(0, min(span[0] - drawn.randrange(50, _WINDOW - 400), latest))
    start = passage.rfind(" ", 0, start) + 1
    end = start + _WINDOW if span is None else max(start + _WINDOW, span[1])
    return passage[start:end], None if span is None else (span[0] - start, span[1] - start)


# ---------------------------------------------------------------- tables


def tables_of(markdown: str, title: str) -> list[Table]:
    """The pipe tables of a page with a header and at least two rows, each below the heading above it."""
    lines = markdown.splitlines()
    found: list[Table] = []
    heading, at = title, 0
    while at < len(lines) - 2:
        if lines[at].startswith("#"):
            heading = lines[at].strip("# ")
        if "|" not in lines[at] or not _SEPARATOR.fullmatch(lines[at + 1]):
            at += 1
            continue
        header, below = _cells(lines[at]), at + 2
        rows = []
        while below < len(lines) and "|" in lines[below]:
            rows.append(_cells(lines[below]))
            below += 1
        whole = tuple(row for row in rows if len(row) == len(header))
        if len(header) > 1 and all(header) and len(whole) > 1:
            found.append(Table(heading, header, whole))
        at = below
    return found


def _cells(line: str) -> tuple[str, ...]:
    return tuple(_LINK.sub(r"\1", cell).strip(_EMPHASIS) for cell in line.strip().strip("|").split("|"))


def table_examples(tables: Sequence[Table], count: int, drawn: random.Random) -> list[SpanExample]:
    """Questions for a cell by its row and column, a quarter of them also put to another table; about `count`."""
    found: list[SpanExample] = []
    for _ in range(count if tables else 0):
        example = _cell_example(drawn.choice(tables), drawn)
        if example is None:
            continue
        found.append(example)
        if drawn.random() < 0.25 and (other := _cell_example(drawn.choice(tables), drawn)) is not None:
            found.append(SpanExample(example.question, other.above, other.passage, None))
    return found


def _cell_example(table: Table, drawn: random.Random) -> SpanExample | None:
    """A question for a cell of the table; None where that is empty, or no cell that one would ask for."""
    place, column = drawn.randrange(len(table.rows)), drawn.randrange(1, len(table.header))
    row = table.rows[place]
    key, answer = row[0], row[column]
    if not key or not answer or len(answer.split()) > _MAX_CELL_WORDS or len(key.split()) > _MAX_KEY_WORDS:
        return None
    first = max(0, place - drawn.randrange(_SHOWN_ROWS - 2))
    lines = [_row(table.header), *map(_row, table.rows[first : first + _SHOWN_ROWS])]
    before = sum(len(line) + 1 for line in lines[: place - first + 1])
    start = before + len(_row(row[:column])) + 1
    question = drawn.choice(_ASKING).format(column=table.header[column].lower(), row=key)
    return SpanExample(question, table.heading, "\n".join(lines), (start, start + len(answer)))


def _row(cells: Sequence[str]) -> str:
    """`| a | b |`"""
    return f"| {' | '.join(cells)} |"
