"""Lines of a page -> regions in reading order -> rows. Columns of prose are read one by one, tables row by row."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rag.data import Box
from rag.parse.pdf.text_layer import Line, enclosing

_MIN_LINES = 4  # of a column
_MIN_MEAN_CHARACTERS = 18  # of a column's lines; cells of a table hold fewer
_MIN_FILL = 0.55  # median width of a column's lines, as a share of the column
_MAX_CROSSING = 0.4  # share of a region's lines that may run over the gap between columns
_MIN_GUTTER = 5.0  # points
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
class Row:
    """All text of a region at one height, from left to right; prose has one cell a row."""

    cells: tuple[Cell, ...]
    box: Box
    size: float
    bold: bool

    @property
    def text(self) -> str:
        return " ".join(cell.text for cell in self.cells)


def order_regions(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines in groups that are read one after the other; a group has one column of prose, or is a table.

    A gap that prose stands on both sides of splits a page into columns; lines that run over the gap (headings, wide
    figures' captions) part the columns into what stands above them and below them.
    """
    gutter = _find_gutter(lines)
    if gutter is None:
        return [list(lines)] if lines else []
    left_edge, right_edge = gutter
    middle = (left_edge + right_edge) / 2
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
            left = [side for side in band if side.box.x1 <= middle]
            right = [side for side in band if side.box.x1 > middle]
            regions += order_regions(left) + order_regions(right)
        if line is not None:
            pending.append(line)
        above = below
    return [*regions, pending] if pending else regions


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
        return Row((Cell(line.text, line.box.x0, line.box.x1),), line.box, line.size, line.bold)
    lines.sort(key=lambda line: line.box.x0)
    box = enclosing([line.box for line in lines])
    size = max(lines, key=lambda line: len(line.text)).size
    cells: list[Cell] = []
    for line in lines:
        last = cells[-1] if cells else None
        gap = line.box.x0 - last.x1 if last else 0.0
        apart = _CURRENCY.match(line.text) or (last and _NUMBER.fullmatch(last.text) and _NUMBER.fullmatch(line.text))
        close = gap < (0.4 if apart else _CELL_GAP) * size
        opened = last and (_OPENERS.fullmatch(last.text) or (len(cells) == 1 and _MARKERS.fullmatch(last.text)))
        if last and (close or opened or _CLOSERS.fullmatch(line.text)):
            glued = gap < 0.12 * size or _OPENERS.fullmatch(last.text) or _CLOSERS.fullmatch(line.text)
            rtl = _RTL.search(line.text) is not None
            first, second = (line.text, last.text) if rtl else (last.text, line.text)
            cells[-1] = Cell(f"{first}{'' if glued else ' '}{second}", last.x0, max(last.x1, line.box.x1))
        else:
            cells.append(Cell(line.text, line.box.x0, line.box.x1))
    return Row(tuple(cells), box, size, all(line.bold for line in lines))


def _middle(line: Line) -> float:
    return (line.box.y0 + line.box.y1) / 2


def _crosses(line: Line, x: float) -> bool:
    return line.box.x0 < x - 1.0 and line.box.x1 > x + 1.0


def _find_gutter(lines: Sequence[Line]) -> tuple[float, float] | None:
    """The gap between two columns of prose that the fewest lines run over; None where there are no two columns."""
    if len(lines) < 2 * _MIN_LINES:
        return None
    left = min(line.box.x0 for line in lines)
    width = max(line.box.x1 for line in lines) - left
    num_bins = int(width / 2) + 1
    steps = [0] * (num_bins + 2)  # how many lines begin or end at each 2 points
    for line in lines:
        steps[int((line.box.x0 - left) / 2)] += 1
        steps[int((line.box.x1 - left) / 2) + 1] -= 1
    covered: list[int] = []
    total = 0
    for step in steps[:num_bins]:
        total += step
        covered.append(total)
    inner = range(num_bins // 6, num_bins - num_bins // 6)
    fewest = min((covered[at] for at in inner), default=len(lines))
    if fewest > _MAX_CROSSING * len(lines):
        return None
    candidates: list[tuple[int, int]] = []
    begin = None
    for at in [*inner, num_bins]:
        empty = at < num_bins and covered[at] <= fewest
        if empty and begin is None:
            begin = at
        elif not empty and begin is not None:
            candidates.append((begin, at if at < num_bins else inner[-1] + 1))
            begin = None
    for start, end in sorted(candidates, key=lambda run: run[0] - run[1]):
        edges = (left + 2 * start, left + 2 * end)
        if edges[1] - edges[0] >= _MIN_GUTTER - 2 and _is_between_columns(lines, edges):
            return edges
    return None


def _is_between_columns(lines: Sequence[Line], gutter: tuple[float, float]) -> bool:
    middle = (gutter[0] + gutter[1]) / 2
    sides = (
        [line for line in lines if line.box.x1 <= middle],
        [line for line in lines if line.box.x0 >= middle],
    )
    for side in sides:
        if len(side) < _MIN_LINES or sum(len(line.text) for line in side) < _MIN_MEAN_CHARACTERS * len(side):
            return False
        width = max(line.box.x1 for line in side) - min(line.box.x0 for line in side)
        if median(line.box.x1 - line.box.x0 for line in side) < _MIN_FILL * width:
            return False
    tops = [min(line.box.y0 for line in side) for side in sides]
    ends = [max(line.box.y1 for line in side) for side in sides]
    return min(ends) - max(tops) > 0
