"""The header of a table that has no grid: which lines it takes, and which columns each of its cells stands above."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from rag.parse.pdf.rulings import Rule, Rulings
from rag.parse.pdf.table_columns import Piece
from rag.parse.pdf.table_rows import CellLine
from rag.parse.pdf.word_lines import is_value, join_text
from rag.parse.table import TableCell

_YEAR = re.compile(r"[(’']?(?:1[89]|20)\d\d[)*]?(?:[-–/]\d{2,4})?|Q[1-4]")
_MAX_LINES = 8
_MIN_DATA = 0.4  # share of the lines that hold numbers, in a table of numbers
_UNCOVERED = 1.2  # cost of a column under no cell, in em of a cell that stands off its columns' middle
_LINE_GAP = 0.6  # em between two lines of one name
_SAME_PLACE = 0.2  # em
Extents = Sequence[tuple[float, float]]  # of the columns' texts, from the left


@dataclass(slots=True)
class _Draft:
    first: int
    last: int
    level: int
    pieces: list[Piece] = field(default_factory=list)


def count_header_lines(lines: Sequence[CellLine], rules: Sequence[float]) -> int:
    """How many lines from the top on are header; `rules` are the heights at which a rule runs across the table."""
    numeric = [_is_data(line) for line in lines]
    first_data = next((at for at, is_data in enumerate(numeric) if is_data), len(lines))
    has_data = sum(numeric) >= _MIN_DATA * len(lines)
    ruled = 0
    for y in rules:
        above = sum((line.y0 + line.y1) / 2 < y for line in lines)
        # A rule below a title that stands over all columns leaves the names of the columns still to come.
        names = any(len(line.pieces) > 1 for line in lines[ruled:above])
        if 0 < above < len(lines) and above <= _MAX_LINES and above <= first_data and names and (has_data or not ruled):
            ruled = above
    if ruled:
        return ruled
    if not has_data or first_data > _MAX_LINES:
        return 1 if len(lines) > 1 and len(lines[0].pieces) > 1 else 0
    header = first_data
    while header > 1 and lines[header - 1].columns == {0} and any(len(line.pieces) > 1 for line in lines[: header - 1]):
        header -= 1
    return header


def header_cells(
    lines: Sequence[CellLine], extents: Extents, rulings: Rulings, em: float
) -> tuple[int, list[TableCell]]:
    """The number of header rows and their cells; the rulings are all those in the table's area."""
    rules = rulings.across
    drafts: list[_Draft] = []
    open_at: list[_Draft | None] = [None] * len(extents)
    for line in lines:
        if (draft := _goes_on(line, open_at, rules, em)) is not None:
            draft.pieces.append(line.pieces[0])
            continue
        for piece, (first, last) in zip(line.pieces, _columns_of(line, extents, rulings, em), strict=True):
            above = {id(draft): draft for draft in open_at[first : last + 1] if draft}
            over = open_at[first]
            if over and (over.first, over.last) == (first, last) and not _ruled_between(over, piece, rules):
                over.pieces.append(piece)
                continue
            level = max((draft.level + 1 for draft in above.values()), default=0)
            draft = _Draft(first, last, level, [piece])
            drafts.append(draft)
            open_at[first : last + 1] = [draft] * (last - first + 1)
    num_rows = max((draft.level + 1 for draft in drafts), default=0)
    cells: list[TableCell] = []
    for draft in drafts:
        below = [
            other.level
            for other in drafts
            if other.level > draft.level and other.first <= draft.last and other.last >= draft.first
        ]
        row_span = min(below, default=num_rows) - draft.level
        text = join_text([piece.text for piece in draft.pieces])
        cells.append(TableCell(draft.level, draft.first, text, row_span, draft.last - draft.first + 1, is_header=True))
    return num_rows, cells


def _is_data(line: CellLine) -> bool:
    """Whether numbers stand in half of the columns behind the first or more; years and ordinals name columns."""
    values = [piece.text for piece in line.pieces if piece.first > 0]
    numbers = sum(is_value(text) and not _YEAR.fullmatch(text) for text in values)
    ordinals = [int(text) for text in values if text.isdecimal() and len(text) < 3]
    counting = len(ordinals) == len(values) > 2 and all(right == left + 1 for left, right in pairwise(ordinals))
    return numbers > 0 and 2 * numbers >= len(values) and not counting


def _goes_on(line: CellLine, open_at: Sequence[_Draft | None], rules: Sequence[Rule], em: float) -> _Draft | None:
    """The name of one column that a text alone on its line goes on with: it begins where that name's last line does."""
    piece = line.pieces[0]
    draft = open_at[piece.first] if len(line.pieces) == 1 and piece.first < len(open_at) else None
    if draft is None or draft.first != draft.last or _ruled_between(draft, piece, rules):
        return None
    above = draft.pieces[-1]
    close = piece.y0 - above.y1 < _LINE_GAP * em
    return draft if close and abs(piece.x0 - above.x0) < _SAME_PLACE * em else None


def _ruled_between(draft: _Draft, piece: Piece, rules: Sequence[Rule]) -> bool:
    above = draft.pieces[-1]
    top, bottom = (above.y0 + above.y1) / 2, (piece.y0 + piece.y1) / 2
    x = (piece.x0 + piece.x1) / 2
    return any(top < rule.at < bottom and rule.start <= x <= rule.end for rule in rules)


def _columns_of(line: CellLine, extents: Extents, rulings: Rulings, em: float) -> list[tuple[int, int]]:
    """The columns [first, last] that each piece of a header line stands above."""
    ranges = [
        _between_rules(piece, extents, rulings.down) or _above_rule(piece, extents, rulings.across, em)
        for piece in line.pieces
    ]
    known = [found for found in ranges if found]
    if not _disjoint(known):
        ranges = [None] * len(ranges)
    elif len(known) == len(ranges):
        return known
    return _partition(line.pieces, ranges, extents, em)


def _between_rules(piece: Piece, extents: Extents, down: Sequence[Rule]) -> tuple[int, int] | None:
    """The columns between the two rules beside the piece; None where none runs down past its line."""
    y, x = (piece.y0 + piece.y1) / 2, (piece.x0 + piece.x1) / 2
    beside = [rule.at for rule in down if rule.start <= y <= rule.end and not piece.x0 + 2 < rule.at < piece.x1 - 2]
    left = max((at for at in beside if at <= x), default=float("-inf"))
    right = min((at for at in beside if at > x), default=float("inf"))
    inner = [at for at in (left, right) if extents[0][0] < at < extents[-1][1]]
    under = [at for at, (x0, x1) in enumerate(extents) if left < (x0 + x1) / 2 < right]
    return (under[0], under[-1]) if inner and under else None


def _above_rule(piece: Piece, extents: Extents, across: Sequence[Rule], em: float) -> tuple[int, int] | None:
    """The columns above the shortest rule that runs below the piece, if it does not run across the table."""
    left, right = extents[0][0], extents[-1][1]
    found: tuple[int, int] | None = None
    for rule in across:
        near = -0.6 * em <= rule.at - piece.y1 <= 1.2 * em
        holds = rule.start - em <= piece.x0 and piece.x1 <= rule.end + em
        if near and holds and rule.end - rule.start < 0.9 * (right - left):
            under = [at for at, (x0, x1) in enumerate(extents) if rule.start - em <= (x0 + x1) / 2 <= rule.end + em]
            if under and (found is None or under[-1] - under[0] < found[1] - found[0]):
                found = (under[0], under[-1])
    return found


def _disjoint(ranges: Sequence[tuple[int, int]]) -> bool:
    return all(left[1] < right[0] for left, right in pairwise(ranges))


def _partition(
    pieces: Sequence[Piece], known: Sequence[tuple[int, int] | None], extents: Extents, em: float
) -> list[tuple[int, int]]:
    """The columns shared out among the pieces, each group of columns with its middle as near to its piece as can be."""
    num, count = len(extents), len(pieces)
    infinite = float("inf")
    under = [_columns_under(piece, extents) for piece in pieces]
    best = [[infinite] * (count + 1) for _ in range(num + 1)]
    choice: dict[tuple[int, int], tuple[int, bool]] = {}
    best[0][0] = 0.0
    for end in range(1, num + 1):
        for used in range(count + 1):
            if best[end - 1][used] + _UNCOVERED < best[end][used]:
                best[end][used] = best[end - 1][used] + _UNCOVERED
                choice[end, used] = (end - 1, False)
            if not used:
                continue
            for start in range(end):
                cost = best[start][used - 1]
                if cost == infinite:
                    continue
                cost += _misfit(pieces[used - 1], known[used - 1], start, end - 1, extents, under[used - 1], em)
                if cost < best[end][used]:
                    best[end][used] = cost
                    choice[end, used] = (start, True)
    if best[num][count] == infinite:
        return [(piece.first, min(piece.last, num - 1)) for piece in pieces]
    ranges: list[tuple[int, int]] = []
    end, used = num, count
    while end:
        start, covers = choice[end, used]
        if covers:
            ranges.append((start, end - 1))
            used -= 1
        end = start
    return ranges[::-1]


def _columns_under(piece: Piece, extents: Extents) -> list[int]:
    """For each column, and behind the last, how many of those before it lie under the piece."""
    x0, x1 = piece.x0, piece.x1
    lies = (min(right, x1) - max(left, x0) > 0.3 * min(right - left, x1 - x0) for left, right in extents)
    return list(accumulate(lies, initial=0))


def _misfit(
    piece: Piece,
    known: tuple[int, int] | None,
    first: int,
    last: int,
    extents: Extents,
    under: Sequence[int],
    em: float,
) -> float:
    """How badly a piece of a header fits above the columns [first, last]; `under` counts those that it lies above."""
    if known is not None:
        return 0.0 if known == (first, last) else 100.0
    x0, x1 = extents[first][0], extents[last][1]
    missed = under[-1] - (under[last + 1] - under[first])
    middle = abs((x0 + x1) / 2 - (piece.x0 + piece.x1) / 2) / em
    if first == last:
        middle = min(middle, abs(x0 - piece.x0) / em, abs(x1 - piece.x1) / em)
    outside = max(0.0, min(abs(x0 - piece.x1), abs(piece.x0 - x1))) / em if piece.x1 < x0 or piece.x0 > x1 else 0.0
    return middle + 3.0 * missed + 2.0 * outside + 0.1 * (last - first)
