"""Single facts about a page that a parser's Markdown keeps or loses: what stands there, in what order, in which cell.

The kinds and fields are those of olmOCR-bench. Comparison is that of readers: white space, emphasis and the shape of
quotation marks and dashes don't count, nor do up to `max_diffs` characters.
"""

import html
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rapidfuzz import fuzz

from rag.evaluate.parsing.equations import equations_of, plain_equation
from rag.evaluate.parsing.grids import Grid, grids_of

_EMPHASIS = re.compile(r"(\*\*\*|\*\*|\*|___|__|_)(?=\S)(.+?)(?<=\S)\1")
_BREAK = re.compile(r"<br\s*/?>")
_SAME = str.maketrans("‘’‚‛“”„‟＿–—‑‒−―", "''''\"\"\"\"_------")
_MIN_CELL_SIMILARITY = 0.5  # however short the cell and many the differences allowed
_MAX_REPEATS = 30  # of one run of characters in a row: a parser that got stuck


class Fact(Protocol):
    def holds(self, markdown: str) -> bool:
        """Whether the fact is true of a parser's output."""
        ...


def read_facts(path: Path) -> dict[str, list[Fact]]:
    """The facts of a file of JSON lines, by the PDF that they are about. Raises ValueError for an unknown kind."""
    facts: dict[str, list[Fact]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        facts.setdefault(record["pdf"], []).append(fact_of(record))
    return facts


def fact_of(record: Mapping[str, Any]) -> Fact:  # Any: fields differ by kind
    """The fact that one record states. Raises ValueError for an unknown kind."""
    max_diffs = int(record.get("max_diffs", 0))
    match record["type"]:
        case "present" | "absent":
            wanted = record["type"] == "present"
            return Occurrence(record["text"], wanted, max_diffs, record.get("first_n"), record.get("last_n"))
        case "order":
            return Order(record["before"], record["after"], max_diffs)
        case "table":
            sides = {side: record[side] for side in _SIDES if record.get(side)}
            return TableCell(record["cell"], sides, max_diffs)
        case "math":
            return Equation(record["math"])
        case "baseline":
            return Baseline(record.get("max_length"))
        case other:
            raise ValueError(f"unknown kind of fact: {other!r}")


def normalize(text: str) -> str:
    """The text as it is compared: one space for white space, no emphasis, plain quotation marks and dashes."""
    text = unicodedata.normalize("NFC", html.unescape(_BREAK.sub(" ", text)))
    text = " ".join(_EMPHASIS.sub(r"\2", text).split())
    return text.translate(_SAME)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A string that the output has, or must not have, among its first or last characters where they are given."""

    text: str
    wanted: bool
    max_diffs: int = 0
    first_n: int | None = None
    last_n: int | None = None

    def holds(self, markdown: str) -> bool:
        text = normalize(markdown)
        parts = [text[: self.first_n]] if self.first_n else []
        parts += [text[-self.last_n :]] if self.last_n else []
        where = " ".join(parts) if parts else text
        wanted = normalize(self.text)
        similarity = fuzz.partial_ratio(wanted, where) / 100 if len(where) >= len(wanted) else _ratio(wanted, where)
        return (similarity >= _threshold(wanted, self.max_diffs)) == self.wanted


@dataclass(frozen=True, slots=True)
class Order:
    """Two strings that both occur, the one before the other."""

    before: str
    after: str
    max_diffs: int = 0

    def holds(self, markdown: str) -> bool:
        text = normalize(markdown)
        before = list(_places(normalize(self.before), text, self.max_diffs))
        after = list(_places(normalize(self.after), text, self.max_diffs))
        return bool(before and after) and min(before) < max(after)


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of some table, with what is beside it; headings are anything above it, or to its left."""

    cell: str
    sides: Mapping[str, str]
    max_diffs: int = 0

    def holds(self, markdown: str) -> bool:
        return any(
            all(self._beside(grid, row, column, side) for side in self.sides)
            for grid in grids_of(markdown)
            for row, column in grid.places()
            if self._same(self.cell, grid.text(row, column))
        )

    def _beside(self, grid: Grid, row: int, column: int, side: str) -> bool:
        down, right, far = _SIDES[side]
        texts = grid.texts_beside(row, column, down, right)
        return any(self._same(self.sides[side], text) for text in (texts if far else texts[:1]))

    def _same(self, wanted: str, text: str) -> bool:
        wanted = normalize(wanted)
        return _ratio(wanted, normalize(text)) >= max(_MIN_CELL_SIMILARITY, _threshold(wanted, self.max_diffs))


_SIDES = {  # rows down, columns to the right, whether any distance will do
    "up": (-1, 0, False),
    "down": (1, 0, False),
    "left": (0, -1, False),
    "right": (0, 1, False),
    "top_heading": (-1, 0, True),
    "left_heading": (0, -1, True),
}


@dataclass(frozen=True, slots=True)
class Equation:
    """A formula that the output has as LaTeX, whole or inside a longer one."""

    math: str

    def holds(self, markdown: str) -> bool:
        wanted = plain_equation(self.math)
        return any(wanted in plain_equation(equation) for equation in equations_of(markdown))


@dataclass(frozen=True, slots=True)
class Baseline:
    """The output has letters and does not repeat itself; with `max_length`, at most so many letters and digits."""

    max_length: int | None = None

    def holds(self, markdown: str) -> bool:
        letters = "".join(character for character in markdown if character.isalnum())
        if self.max_length is not None:
            return len(letters) <= self.max_length
        return bool(letters) and not _STUCK.search(normalize(markdown))


_STUCK = re.compile(rf"(.{{1,40}}?)\1{{{_MAX_REPEATS},}}")


def _threshold(wanted: str, max_diffs: int) -> float:
    return 1.0 - max_diffs / max(len(wanted), 1)


def _ratio(wanted: str, text: str) -> float:
    return fuzz.ratio(wanted, text) / 100


def _places(wanted: str, text: str, max_diffs: int, offset: int = 0) -> Iterator[int]:
    """Where the string begins, at every place that resembles it closely enough."""
    if not max_diffs:
        yield from (found.start() for found in re.finditer(re.escape(wanted), text))
        return
    best = fuzz.partial_ratio_alignment(wanted, text, score_cutoff=100 * _threshold(wanted, max_diffs))
    if best is None or len(text) < len(wanted) or best.dest_end <= best.dest_start:
        return
    yield offset + best.dest_start
    yield from _places(wanted, text[: best.dest_start], max_diffs, offset)
    yield from _places(wanted, text[best.dest_end :], max_diffs, offset + best.dest_end)
