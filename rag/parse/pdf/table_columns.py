"""Columns of a table told by its white space: rivers that run down between the texts of its lines."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from rag.parse.pdf.word_lines import Spacing, Word, WordLine, is_numeric, runs_of

_NUMBER_GAP = 0.15  # em: numbers farther apart than this may be two cells; those of "June 25, 2022" are one text
_RIVER = 0.75  # em: a river as wide as this at its narrowest parts columns
_USUAL_RIVER = 0.9  # em: or as wide as this on half of its lines
_USUAL_NUMBER_RIVER = 0.5  # em: or as this between numbers
_WIDE_RIVER = 1.5  # spaces: and in any case wider than the space between two words
_CROSSING = 0.12  # share of the lines that may run over a river
_TITLES = 0.35  # or this share, where all of them begin at the table's left: titles of groups of rows
_SAME_START = 0.3  # em
_MIN_SIDE = 3  # lines that a column cut off by such a river must have


@dataclass(frozen=True, slots=True)
class Piece:
    """Words of one line that read as one text, and the columns [first, last] that they reach over."""

    words: tuple[Word, ...]
    first: int
    last: int

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def x0(self) -> float:
        return self.words[0].x0

    @property
    def x1(self) -> float:
        return self.words[-1].x1

    @property
    def y0(self) -> float:
        return min(word.y0 for word in self.words)

    @property
    def y1(self) -> float:
        return max(word.y1 for word in self.words)


def phrases(line: WordLine, spacing: Spacing) -> list[tuple[Word, ...]]:
    """The line's words in runs; numbers are parted where prose would not be."""
    parts: list[tuple[Word, ...]] = []
    number_gap = _NUMBER_GAP * spacing.em
    for run in runs_of(line.words, spacing.phrase_gap):
        start = 0
        for at, (left, right) in enumerate(pairwise(run), start=1):
            apart = right.x0 - left.x1 > number_gap
            if apart and is_numeric(left.text) and is_numeric(right.text) and not left.text.endswith(","):
                parts.append(run[start:at])
                start = at
        parts.append(run[start:])
    return parts


def find_separators(lines: Sequence[WordLine], spacing: Spacing, forced: Sequence[float]) -> list[float]:
    """The x of each boundary between two columns, from the left; `forced` are those that rules draw."""
    every = [phrases(line, spacing) for line in lines]
    rows = [row for row in every if len(row) > 1] or every
    alone = [row[0] for row in every if len(row) == 1]
    edges = [float("-inf"), *forced, float("inf")]
    found: list[float] = list(forced)
    for left, right in pairwise(edges):
        inside = [[run for run in row if left <= (run[0].x0 + run[-1].x1) / 2 < right] for row in rows]
        found += _separators([row for row in inside if row], alone, spacing)
    return sorted(found)


def cut_line(line: WordLine, separators: Sequence[float], spacing: Spacing) -> list[Piece]:
    """The line's texts with their columns; a phrase that runs over a separator stays whole."""
    groups: list[list[Word]] = []
    for word in line.words:
        if not groups:
            groups.append([word])
            continue
        last = groups[-1][-1]
        gap = word.x0 - last.x1
        parted = any((last.x0 + last.x1) / 2 < x <= (word.x0 + word.x1) / 2 for x in separators)
        numbers = is_numeric(last.text) or is_numeric(word.text)
        if parted and gap > (_NUMBER_GAP * spacing.em if numbers else max(0.45 * spacing.em, 1.4 * spacing.space)):
            groups.append([word])
        else:
            groups[-1].append(word)
    return [_piece(group, separators, spacing) for group in groups]


def _piece(words: Sequence[Word], separators: Sequence[float], spacing: Spacing) -> Piece:
    x0, x1 = words[0].x0, max(word.x1 for word in words)
    margin = min(0.5 * spacing.em, (x1 - x0) / 4)
    first = sum(x <= x0 + margin for x in separators)
    last = sum(x < x1 - margin for x in separators)
    return Piece(tuple(words), first, max(first, last))


def _separators(
    rows: Sequence[Sequence[tuple[Word, ...]]], alone: Sequence[tuple[Word, ...]], spacing: Spacing
) -> list[float]:
    """The middles of the rivers between the runs of the rows; runs alone on their line narrow a river they end in."""
    spans = sorted((run[0].x0, max(word.x1 for word in run)) for row in rows for run in row)
    columns: list[tuple[float, float]] = []
    for x0, x1 in spans:
        if columns and x0 <= columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], x1))
        else:
            columns.append((x0, x1))
    columns = [
        part for at, column in enumerate(columns) for part in _split_column(rows, column, spacing, is_first=at == 0)
    ]
    kept = columns[:1]
    for column in columns[1:]:
        if _is_river(rows, kept[-1], column, spacing):
            kept.append(column)
        else:
            kept[-1] = (kept[-1][0], column[1])
    ends = [(run[0].x0, run[-1].x1) for run in alone]
    return [
        (max([left[1], *(x1 for x0, x1 in ends if left[0] - 1 <= x0 <= left[1] and x1 < right[0])]) + right[0]) / 2
        for left, right in pairwise(kept)
    ]


def _split_column(
    rows: Sequence[Sequence[tuple[Word, ...]]], column: tuple[float, float], spacing: Spacing, *, is_first: bool
) -> list[tuple[float, float]]:
    """The column in the parts that it falls into if a few runs that hold it together are taken for spanning cells."""
    runs = [run for row in rows for run in row if column[0] <= run[0].x0 <= column[1]]
    num_rows = sum(any(column[0] <= run[0].x0 <= column[1] for run in row) for row in rows)
    tolerated = max(int(_CROSSING * num_rows), 1 if num_rows >= 5 else 0)
    if not tolerated:
        return [column]
    starts = sorted(run[0].x0 for run in runs)
    titles = [run for run in runs if is_first and run[0].x0 - starts[0] <= _SAME_START * spacing.em]
    ends = sorted(max(word.x1 for word in run) for run in runs)
    points = sorted({*starts, *ends})
    best: tuple[float, float] | None = None
    for left, right in pairwise(points):
        middle = (left + right) / 2
        before = bisect_right(ends, middle)
        after = len(starts) - bisect_left(starts, middle)
        crossing = len(runs) - before - after
        are_titles = sum(max(word.x1 for word in run) > middle for run in titles) == crossing
        most = max(tolerated, _TITLES * num_rows) if are_titles else tolerated
        if crossing <= most and min(before, after) >= max(_MIN_SIDE, 2 * crossing):
            if best and best[1] >= left:
                best = (best[0], right)
            elif not best or right - left > best[1] - best[0]:
                best = (left, right)
    if best is None or best[1] - best[0] < _river(spacing):
        return [column]
    left_part, right_part = (column[0], best[0]), (best[1], column[1])
    return [
        *_split_column(rows, left_part, spacing, is_first=is_first),
        *_split_column(rows, right_part, spacing, is_first=False),
    ]


def _is_river(
    rows: Sequence[Sequence[tuple[Word, ...]]], left: tuple[float, float], right: tuple[float, float], spacing: Spacing
) -> bool:
    if right[0] - left[1] >= _river(spacing):
        return True
    gaps: list[float] = []
    numbers = 0
    for row in rows:
        for before, after in pairwise(row):
            if left[0] <= before[0].x0 <= left[1] and right[0] <= after[0].x0 <= right[1]:
                gaps.append(after[0].x0 - before[-1].x1)
                numbers += is_numeric(before[-1].text) and is_numeric(after[0].text)
    if not gaps:
        return right[0] - left[1] >= max(0.3 * spacing.em, _WIDE_RIVER * spacing.space)
    usual = (_USUAL_NUMBER_RIVER if 2 * numbers > len(gaps) else _USUAL_RIVER) * spacing.em
    return median(gaps) >= max(usual, _WIDE_RIVER * spacing.space)


def _river(spacing: Spacing) -> float:
    return max(_RIVER * spacing.em, _WIDE_RIVER * spacing.space)
