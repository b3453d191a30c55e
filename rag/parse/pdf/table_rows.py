"""Rows of a table's body: lines that continue the cells of the line above are joined to it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rag.parse.pdf.table_columns import Piece
from rag.parse.pdf.word_lines import is_numeric

_OPEN_END = re.compile(r"(?:[-–—,/&(]|\b(?:and|or|of|the|for|in|to|with|by|on|per|de|et|und|von|der|y|del))$", re.I)


@dataclass(frozen=True, slots=True)
class CellLine:
    """The pieces of one line of a table."""

    pieces: tuple[Piece, ...]
    y0: float
    y1: float

    @property
    def columns(self) -> frozenset[int]:
        return frozenset(column for piece in self.pieces for column in range(piece.first, piece.last + 1))

    def in_column(self, column: int) -> Piece | None:
        return next((piece for piece in self.pieces if piece.first <= column <= piece.last), None)


def group_lines(lines: Sequence[CellLine], rules: Sequence[float], em: float) -> list[list[CellLine]]:
    """The lines of a table's body in rows; `rules` are the heights at which a rule runs across the table."""
    bands: list[list[CellLine]] = []
    for line in lines:
        middle = (line.y0 + line.y1) / 2
        if bands and not any((bands[-1][-1].y0 + bands[-1][-1].y1) / 2 < y <= middle for y in rules):
            bands[-1].append(line)
        else:
            bands.append([line])
    if len(bands) >= 4 and len(bands) >= 0.4 * len(lines) and not any(map(_holds_several_rows, bands)):
        return bands
    limits = _right_limits(lines)
    gap = _row_gap(lines, em)
    rows: list[list[CellLine]] = []
    for band in bands:
        rows.append([band[0]])
        for line in band[1:]:
            if _continues(rows[-1], line, limits, gap, em):
                rows[-1].append(line)
            else:
                rows.append([line])
    return rows


def _holds_several_rows(band: Sequence[CellLine]) -> bool:
    """Whether two lines of a band between rules have numbers in the same two columns."""
    return any(
        sum(
            (below := line.in_column(column)) is not None
            and (above := previous.in_column(column)) is not None
            and is_numeric(above.text)
            and is_numeric(below.text)
            for column in line.columns
        )
        >= 2
        for previous, line in pairwise(band)
    )


def _row_gap(lines: Sequence[CellLine], em: float) -> float:
    """The least gap between two lines that parts rows, where lines inside rows are clearly closer than rows are."""
    gaps = sorted(max(below.y0 - above.y1, -0.5 * em) for above, below in pairwise(lines))
    if len(gaps) < 3:
        return float("inf")
    steps = [(after - before, (after + before) / 2) for before, after in pairwise(gaps)]
    widest, middle = max(steps)
    return middle if widest > 0.25 * em else float("inf")


def _right_limits(lines: Sequence[CellLine]) -> dict[int, float]:
    """How far to the right each column's texts reach."""
    limits: dict[int, float] = {}
    for line in lines:
        for piece in line.pieces:
            if piece.first == piece.last:
                limits[piece.first] = max(limits.get(piece.first, piece.x1), piece.x1)
    return limits


def _continues(row: Sequence[CellLine], line: CellLine, limits: dict[int, float], row_gap: float, em: float) -> bool:
    above = row[-1]
    overlap = min(above.y1, line.y1) - max(above.y0, line.y0)
    if overlap > 0.3 * min(above.y1 - above.y0, line.y1 - line.y0) and not above.columns & line.columns:
        return True
    gap = line.y0 - above.y1
    if gap > 1.2 * em:
        return False
    filled = frozenset(column for part in row for column in part.columns)
    wraps = {column: _wraps(above.in_column(column), line.in_column(column), limits, em) for column in line.columns}
    # Where rows are no farther apart than lines, a name that fills its column may be followed by another name.
    named = wraps.get(0, False) and (row_gap < float("inf") or _goes_on(above.in_column(0), line.in_column(0)))
    if line.columns == {0}:
        return 0 in above.columns and named and gap <= row_gap
    if 0 not in line.columns:
        shared = line.columns & filled
        if not shared:
            return filled == {0} and gap <= row_gap
        texts = [piece for piece in line.pieces if not is_numeric(piece.text)]
        if len(texts) < len(line.pieces):
            # Numbers are another row's, unless a text beside them goes on.
            return bool(texts) and gap <= row_gap and any(wraps[piece.first] for piece in line.pieces)
        return gap <= row_gap or any(wraps.values())
    if filled == {0}:
        return named and gap <= row_gap
    if gap > row_gap or any(is_numeric(piece.text) for piece in line.pieces):
        return False
    return all(wraps.values())


def _wraps(above: Piece | None, below: Piece | None, limits: dict[int, float], em: float) -> bool:
    """Whether a text ends on a line because the next word did not fit, and goes on below."""
    if above is None or below is None or (is_numeric(above.text) and is_numeric(below.text)):
        return False
    if _goes_on(above, below):
        return True
    word = below.words[0]
    fits = above.x1 + 0.3 * em + (word.x1 - word.x0) <= limits.get(above.first, above.x1)
    long = len(above.words) > 1 and len(above.text) >= 14 and not above.text.endswith(":")
    return not fits and long and below.x0 >= above.x0 - 0.3 * em


def _goes_on(above: Piece | None, below: Piece | None) -> bool:
    """Whether the words themselves say that a text goes on below."""
    if above is None or below is None:
        return False
    opened = _OPEN_END.search(above.text) is not None or above.text.count("(") > above.text.count(")")
    return opened or below.text[0].islower() or below.text[0] in "(&"
