"""Lines of a page -> regions in reading order -> rows. Columns of prose are read one by one, tables row by row."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median

from rag.data import Box
from rag.parse.pdf.text_layer import Line, enclosing

_MIN_LINES = 4  # of a column
_MIN_MEAN_CHARACTERS = 16  # of a column's rows; cells of a table hold fewer
_MIN_FILL = 0.5  # median width of a column's lines, as a share of the column
_MAX_CROSSING = 0.25  # share of a region's lines that may run over the gap between columns
_FEW_CROSSING = 0.08  # share of a region's lines over a gutter that needs no better one
_MAX_CUTS = 6  # gaps over the whole width that are tried, the largest first
_MIN_BAND_GAP = 0.5  # of the font size, between two parts of a page
_MIN_GUTTER = 5.0  # points
_OVERHANG = 1.0  # points that a line may reach into a gutter
_CELL_GAP = 1.2  # in font sizes: a wider gap inside a row separates cells
_CURRENCY = re.compile(r"[$€£¥]\s?")
_NUMBER = re.compile(r"[$€£¥]?\(?[-–—]?\d[\d,.]*\)?%?|[-–—]")  # two of them are two cells, however close
# Signs that belong to what follows them: anywhere in a row, and at its beginning (where "(10)" is no negative number).
_OPENERS = re.compile(r"[$€£¥(]")
_MARKERS = re.compile(r"[-•●▪◦‣·–○■□➢✓*]|\(?(?:\d{1,2}|[a-zA-Z]|[ivx]{2,4})[.)]")
_CLOSERS = re.compile(r"[)%]{1,2}")  # belong to what precedes
_RTL = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


@dataclass(frozen=True, slots=True)
class Cell:
    """Text between two wide gaps of a row."""

    text: str
    x0: float
    x1: float


@dataclass(frozen=True, slots=True)
class Look:
    """What the letters of most of a row look like, their size and weight aside."""

    font: str = ""
    color: int = 0
    italic: bool = False


PLAIN = Look()


@dataclass(frozen=True, slots=True)
class Row:
    """All text of a region at one height, from left to right; prose has one cell a row."""

    cells: tuple[Cell, ...]
    box: Box
    size: float
    bold: bool
    look: Look = PLAIN
    monospaced: bool = False  # all of it but a line number
    lines: tuple[Line, ...] = ()  # what it was made of, from left to right

    is_rtl: bool = False  # read from right to left

    @property
    def text(self) -> str:
        return " ".join(cell.text for cell in (reversed(self.cells) if self.is_rtl else self.cells))


def order_regions(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines in groups that are read one after the other; a group has one column of prose, or is a table.

    A gap that prose stands on both sides of splits a page into columns; lines that run over the gap (headings, wide
    figures' captions) part the columns into what stands above them and below them. A page whose parts have columns of
    different widths is cut between the parts first.
    """
    if not lines:
        return []
    gutter = _find_gutter(lines)
    if gutter is None or gutter.num_crossing > _FEW_CROSSING * len(lines):
        if parts := _cut_across(lines, gutter):
            return [region for part in parts for region in order_regions(part)]
        if gutter is None:
            return [list(lines)]
    middle = gutter.middle
    crossing = sorted((line for line in lines if _crosses(line, middle)), key=lambda line: line.box.y0)
    heights = [_middle(line) for line in crossing]
    regions: list[list[Line]] = []
    pending: list[Line] = []  # crossing lines with nothing between them
    sides = [line for line in lines if not _crosses(line, middle)]
    above = float("-inf")
    for line, below in zip([*crossing, None], [*heights, float("inf")], strict=True):
        band = [side for side in sides if above <= _middle(side) < below]
        if band:
            if pending:
                regions.append(pending)
                pending = []
            left = [side for side in band if side.box.x1 <= middle + _OVERHANG]
            right = [side for side in band if side.box.x1 > middle + _OVERHANG]
            regions += order_regions(left) + order_regions(right)
        if line is not None:
            pending.append(line)
        above = below
    return [*regions, pending] if pending else regions


def has_columns(lines: Sequence[Line]) -> bool:
    """Whether prose stands in two columns or more on some part of the page."""
    return _find_gutter(lines) is not None


def with_initials(lines: Sequence[Line]) -> list[Line]:
    """The lines with an initial that is drawn large, over several lines, put before the text that it begins."""
    joined = list(lines)
    for initial in lines:
        if len(initial.text) != 1 or not initial.text.isalpha():
            continue
        box = initial.box
        beside = [
            line
            for line in joined
            if 0 < line.box.x0 - box.x1 + 2.0 < 0.6 * initial.size
            and line.size < initial.size / 1.8
            and box.y0 - line.size < line.box.y0 < box.y1
        ]
        first = min(beside, key=lambda line: line.box.y0, default=None)
        if first is None or not first.text[:1].isalpha():
            continue
        whole = replace(first, text=initial.text + first.text, box=replace(first.box, x0=box.x0))
        joined = [whole if line is first else line for line in joined if line is not initial]
    return joined


def group_rows(lines: Sequence[Line]) -> list[Row]:
    """The rows of one region from top to bottom."""
    rows: list[list[Line]] = []
    top = bottom = 0.0
    for line in sorted(lines, key=lambda line: (line.box.y0 + line.box.y1, line.box.x0)):
        overlap = min(bottom, line.box.y1) - max(top, line.box.y0)
        if rows and overlap >= 0.5 * min(bottom - top, line.box.y1 - line.box.y0):
            rows[-1].append(line)
            if line.box.y1 - line.box.y0 > bottom - top:
                top, bottom = line.box.y0, line.box.y1
        else:
            rows.append([line])
            top, bottom = line.box.y0, line.box.y1
    return [_row(row) for row in rows]


def _row(lines: list[Line]) -> Row:
    if len(lines) == 1:
        line = lines[0]
        cell = Cell(line.text, line.box.x0, line.box.x1)
        return Row((cell,), line.box, line.size, line.bold, _look(line), line.monospaced, (line,))
    lines.sort(key=lambda line: line.box.x0)
    box = enclosing(line.box for line in lines)
    longest = max(lines, key=lambda line: len(line.text))
    size = longest.size
    numbered = lines[0].text.isdecimal() and lines[0].box.x1 < lines[1].box.x0
    monospaced = all(line.monospaced for line in (lines[1:] if numbered else lines))
    is_rtl = 2 * sum(len(line.text) for line in lines if _RTL.search(line.text)) > sum(len(line.text) for line in lines)
    cells: list[Cell] = []
    for line in lines:
        last = cells[-1] if cells else None
        gap = line.box.x0 - last.x1 if last else 0.0
        apart = _CURRENCY.match(line.text) or (last and _NUMBER.fullmatch(last.text) and _NUMBER.fullmatch(line.text))
        close = gap < (0.4 if apart else _CELL_GAP) * size
        opened = last and (_OPENERS.fullmatch(last.text) or (len(cells) == 1 and _MARKERS.fullmatch(last.text)))
        if last and (close or opened or _CLOSERS.fullmatch(line.text)):
            glued = gap < 0.12 * size or _OPENERS.fullmatch(last.text) or _CLOSERS.fullmatch(line.text)
            first, second = (line.text, last.text) if is_rtl else (last.text, line.text)
            cells[-1] = Cell(f"{first}{'' if glued else ' '}{second}", last.x0, max(last.x1, line.box.x1))
        else:
            cells.append(Cell(line.text, line.box.x0, line.box.x1))
    bold = all(line.bold for line in lines)
    return Row(tuple(cells), box, size, bold, _look(longest), monospaced, tuple(lines), is_rtl)


def _look(line: Line) -> Look:
    return Look(line.font, line.color, line.italic)


def _middle(line: Line) -> float:
    return (line.box.y0 + line.box.y1) / 2


def _crosses(line: Line, x: float) -> bool:
    return line.box.x0 < x - _OVERHANG and line.box.x1 > x + _OVERHANG


@dataclass(frozen=True, slots=True)
class _Gutter:
    """A gap between two columns."""

    left: float
    right: float
    num_crossing: int

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


def _cut_across(lines: Sequence[Line], gutter: _Gutter | None) -> tuple[list[Line], list[Line]] | None:
    """The lines above and below a gap over the whole width, where that lets fewer lines run over gutters."""
    in_order = sorted(lines, key=lambda line: line.box.y0)
    gaps: list[tuple[float, int]] = []
    bottom = in_order[0].box.y1
    for at, line in enumerate(in_order[1:], start=1):
        if line.box.y0 - bottom > _MIN_BAND_GAP * line.size and min(at, len(lines) - at) >= _MIN_LINES:
            gaps.append((line.box.y0 - bottom, at))
        bottom = max(bottom, line.box.y1)
    cuts: list[tuple[int, int]] = []  # crossing lines, place of the cut
    for _, at in sorted(gaps, reverse=True)[:_MAX_CUTS]:
        gutters = [found for part in (in_order[:at], in_order[at:]) if (found := _find_gutter(part))]
        if gutters:
            cuts.append((sum(found.num_crossing for found in gutters), at))
    fewest = min(cuts, default=(0, 0))[0]
    if not cuts or (gutter is not None and fewest > gutter.num_crossing / 2):
        return None
    # The widest gap of those that are about as good.
    at = next(at for num_crossing, at in cuts if num_crossing <= fewest + 0.05 * len(lines))
    return in_order[:at], in_order[at:]


def _find_gutter(lines: Sequence[Line]) -> _Gutter | None:
    """The gap between two columns of prose that the fewest lines run over; None where there are no two columns."""
    if len(lines) < 2 * _MIN_LINES:
        return None
    starts, ends = [line.box.x0 for line in lines], [line.box.x1 for line in lines]
    left = min(starts)
    num_bins = int((max(ends) - left) / 2) + 1
    steps = [0] * (num_bins + 2)  # how many lines begin or end at each 2 points
    for x0, x1 in zip(starts, ends, strict=True):
        steps[int((x0 - left) / 2)] += 1
        steps[int((x1 - left) / 2) + 1] -= 1
    covered = list(accumulate(steps[:num_bins]))
    inner = range(num_bins // 7, num_bins - num_bins // 7)
    fewest = min(covered[inner.start : inner.stop], default=len(lines))
    if fewest > _MAX_CROSSING * len(lines):
        return None
    candidates: list[tuple[int, int]] = []  # [start, end)
    for at in inner:
        if covered[at] > fewest:
            continue
        if candidates and candidates[-1][1] == at:
            candidates[-1] = (candidates[-1][0], at + 1)
        else:
            candidates.append((at, at + 1))
    by_middle: list[Line] = []
    for start, end in sorted(candidates, key=lambda run: run[0] - run[1]):
        edges = (left + 2 * start, left + 2 * end)
        if edges[1] - edges[0] >= _MIN_GUTTER - 2:
            by_middle = by_middle or sorted(lines, key=_middle)
            if _is_between_columns(by_middle, edges):
                return _Gutter(*edges, fewest)
    return None


def _is_between_columns(lines: Sequence[Line], gutter: tuple[float, float]) -> bool:
    """Whether prose stands on both sides; the lines are in the order of their middles."""
    middle = (gutter[0] + gutter[1]) / 2
    beside = (
        [line for line in lines if line.box.x1 <= middle + _OVERHANG],
        [line for line in lines if line.box.x0 >= middle - _OVERHANG],
    )
    # Most places are told here, before rows are made of the lines.
    least = _MIN_LINES * _MIN_MEAN_CHARACTERS
    if any(len(side) < _MIN_LINES or sum([len(line.text) for line in side]) < least for side in beside):
        return False
    sides: list[list[_Extent]] = []
    for side in beside:
        rows = _row_extents(side)
        sides.append(rows)
        if len(rows) < _MIN_LINES or sum(row.num_characters for row in rows) < _MIN_MEAN_CHARACTERS * len(rows):
            return False
        width = max(row.x1 for row in rows) - min(row.x0 for row in rows)
        if median(row.x1 - row.x0 for row in rows) < _MIN_FILL * width:
            return False
    tops = [rows[0].y for rows in sides]
    ends = [rows[-1].y for rows in sides]
    return min(ends) - max(tops) > 0


@dataclass(slots=True)
class _Extent:
    """All lines of one side at one height."""

    y: float
    x0: float
    x1: float
    num_characters: int


def _row_extents(lines: Iterable[Line]) -> list[_Extent]:
    """The rows of lines that are in the order of their middles."""
    rows: list[_Extent] = []
    row: _Extent | None = None
    for line in lines:
        box = line.box
        y = (box.y0 + box.y1) / 2
        if row is not None and y - row.y < 0.5 * line.size:
            row.x0, row.x1 = min(row.x0, box.x0), max(row.x1, box.x1)
            row.num_characters += len(line.text)
        else:
            row = _Extent(y, box.x0, box.x1, len(line.text))
            rows.append(row)
    return rows
