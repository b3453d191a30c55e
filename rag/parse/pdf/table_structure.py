"""The cells of a table whose columns, or rows, no rules part: by its words, helped by the rules that there are."""

import re
from collections.abc import Sequence
from itertools import pairwise

from rag.parse.pdf.rulings import Rulings
from rag.parse.pdf.table_columns import Piece, cut_line, find_separators
from rag.parse.pdf.table_header import Extents, count_header_lines, header_cells
from rag.parse.pdf.table_rows import CellLine, group_lines
from rag.parse.pdf.word_lines import Spacing, Word, WordLine, is_value, join_text, lines_of, spacing_of
from rag.parse.table import Table, TableCell, compact

_FULL_WIDTH = 0.75  # share of a table's width that a rule which parts its rows covers
_MIN_FILL = 0.35  # share of the places in rows of several texts that hold one
_FULL_HEIGHT = 0.5  # likewise for columns
_LEADER = re.compile(r"(?:\s*[.·_…]){4,}\s*$")
_BULLET = re.compile(r"[•●▪◦‣·○■□➢❖*]|.* [•●▪]")
_LIST_MARK = re.compile(r"[✓–—-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]|[(\[]\d{1,3}[)\]]|\d{1,2}")


def table_from_words(words: Sequence[Word], rules: Rulings) -> Table | None:
    """The table that the words form; None where they have one column, or read as prose, a list or a list of contents.

    The rules are those in its area.
    """
    lines = lines_of(words)
    if len(lines) < 2:
        return None
    spacing = spacing_of(lines)
    em = spacing.em
    left, right = min(word.x0 for word in words), max(word.x1 for word in words)
    top, bottom = lines[0].y0, lines[-1].y1
    forced = _forced(words, rules, top, bottom)
    full = sorted(rule.at for rule in rules.across if rule.end - rule.start >= _FULL_WIDTH * (right - left))
    separators = find_separators(lines, spacing, forced)
    if not separators:
        return None
    cell_lines = _cut(lines, separators, spacing)
    num_header = count_header_lines(cell_lines, full)
    body = lines[num_header:]
    if num_header and len(body) >= 3:
        again = find_separators(body, spacing, forced)
        # As many columns without the header: its names, wider than what they stand above, narrow the rivers rightly.
        if len(again) > len(separators) or (0 < len(again) < len(separators) and num_header > 1):
            separators = again
            cell_lines = _cut(lines, separators, spacing)
            num_header = count_header_lines(cell_lines, full)
    if not _is_tabular(cell_lines, num_header, bool(full)):
        return None
    extents = _extents(cell_lines, num_header, separators, left, right)
    num_rows, cells = header_cells(cell_lines[:num_header], extents, rules, em)
    for row in group_lines(cell_lines[num_header:], full, em):
        cells += _row_cells(row, num_rows, extents, em)
        num_rows += 1
    cells.sort(key=lambda cell: (cell.row, cell.column))
    table = compact(Table(num_rows, len(separators) + 1, tuple(cells)))
    return table if table.num_rows > 1 and table.num_columns > 1 else None


def _forced(words: Sequence[Word], rules: Rulings, top: float, bottom: float) -> list[float]:
    """The rules down that part columns: long ones that run through no word, with words between any two."""
    found: list[float] = []
    edge = float("-inf")
    for rule in sorted(rules.down, key=lambda rule: rule.at):
        if min(rule.end, bottom) - max(rule.start, top) < _FULL_HEIGHT * (bottom - top):
            continue
        if any(word.x0 + 1 < rule.at < word.x1 - 1 and rule.start < word.y0 < rule.end for word in words):
            continue
        if any(edge < (word.x0 + word.x1) / 2 < rule.at for word in words):
            found.append(rule.at)
            edge = rule.at
    if found and not any((word.x0 + word.x1) / 2 > found[-1] for word in words):
        found.pop()
    return found


def _cut(lines: Sequence[WordLine], separators: Sequence[float], spacing: Spacing) -> list[CellLine]:
    return [CellLine(tuple(cut_line(line, separators, spacing)), line.y0, line.y1) for line in lines]


def _extents(
    lines: Sequence[CellLine], num_header: int, separators: Sequence[float], left: float, right: float
) -> Extents:
    """Where the texts of each column begin and end, header cells over several columns aside."""
    edges = [left, *separators, right]
    found: list[tuple[float, float]] = []
    for column, (x0, x1) in enumerate(pairwise(edges)):
        pieces = [p for line in lines[num_header:] for p in line.pieces if p.first == p.last == column]
        pieces = pieces or [p for line in lines for p in line.pieces if p.first == p.last == column]
        found.append((min((p.x0 for p in pieces), default=x0), max((p.x1 for p in pieces), default=x1)))
    return found


def _row_cells(row: Sequence[CellLine], at: int, extents: Extents, em: float) -> list[TableCell]:
    """The cells of one body row."""
    held: dict[tuple[int, int], list[Piece]] = {}
    alone = len(row) == 1 and len(row[0].pieces) == 1
    taken: dict[int, tuple[int, int]] = {}
    for line in row:
        for piece in line.pieces:
            place = _lone_place(piece, extents, em) if alone else (piece.first, piece.last)
            over = {taken[column] for column in range(place[0], place[1] + 1) if column in taken}
            if over:
                place = min(over)  # the texts of a cell that wraps need not be equally wide
            elif place[0] != place[1] and not alone:
                place = _narrowed(piece, place, row)
            for column in range(place[0], place[1] + 1):
                taken[column] = place
            held.setdefault(place, []).append(piece)
    return [
        TableCell(at, first, join_text([piece.text for piece in pieces]), 1, last - first + 1)
        for (first, last), pieces in held.items()
    ]


def _lone_place(piece: Piece, extents: Extents, em: float) -> tuple[int, int]:
    """The columns of a text that has its line for itself: its own, or those over whose middle it stands."""
    middle = (piece.x0 + piece.x1) / 2
    last = len(extents) - 1
    if piece.first == 0 and abs(piece.x0 - extents[0][0]) <= 2 * em:
        return 0, 0
    for first in (1, 0):
        if first < last and abs((extents[first][0] + extents[last][1]) / 2 - middle) <= 1.5 * em:
            return first, last
    return piece.first, piece.last


def _narrowed(piece: Piece, place: tuple[int, int], row: Sequence[CellLine]) -> tuple[int, int]:
    """The columns without those that other texts of the row stand in."""
    others = {
        column for line in row for other in line.pieces if other is not piece for column in (other.first, other.last)
    }
    first, last = place
    while last > first and last in others:
        last -= 1
    while first < last and first in others:
        first += 1
    return first, last


def _is_tabular(lines: Sequence[CellLine], num_header: int, ruled: bool) -> bool:
    several = [line for line in lines if len(line.pieces) > 1]
    num_columns = 1 + max(piece.last for line in lines for piece in line.pieces)
    if len(several) < (2 if ruled else 3):
        return False
    body = lines[num_header:] or lines
    started = [line for line in lines if 0 in line.columns]  # others go on with a cell of the line above
    pieces = [piece for line in several for piece in line.pieces]
    numbers = sum(is_value(piece.text) for piece in pieces)
    if num_columns == 2:
        marks = [line.pieces[0].text for line in several]
        if sum(_BULLET.fullmatch(text) is not None for text in marks) >= 0.5 * len(marks):
            return False
        if not ruled and sum(_LIST_MARK.fullmatch(text) is not None for text in marks) >= 0.7 * len(marks):
            return False
    if _is_contents(body, num_columns):
        return False
    if len(pieces) < _MIN_FILL * num_columns * len(several):
        return False
    if not ruled:
        values = [piece.text for line in body for piece in line.pieces if piece.first > 0]
        if sum(is_value(text) for text in values) < 0.25 * len(values) and not (
            num_columns > 2 and len(body) > 3 and len(pieces) > 0.8 * num_columns * len(lines)
        ):
            return False
        if len(pieces) < (0.5 if len(several) > 4 else 0.7) * num_columns * len(several):
            return False
        words = sum(len(piece.text) for piece in pieces) / len(pieces)
        if words > 30 and numbers < 0.3 * len(pieces):
            return False
        if len(several) < 0.4 * len(started):
            return False
    elif len(several) < 0.25 * len(started) or (len(lines) < 3 and len(pieces) < 0.7 * num_columns * len(several)):
        return False
    return True


def _is_contents(lines: Sequence[CellLine], num_columns: int) -> bool:
    """Whether the lines end in page numbers that rise, most of them behind a row of dots, or in a long list."""
    ends = [line.pieces[-1].text for line in lines if len(line.pieces) > 1]
    pages = [int(text) for text in ends if text.isdecimal() and len(text) < 5]
    leaders = sum(_LEADER.search(" ".join(p.text for p in line.pieces[:-1])) is not None for line in lines)
    if len(pages) < 0.7 * len(ends) or len(pages) < 3:
        return False
    rising = sum(above <= below for above, below in pairwise(pages)) >= 0.9 * (len(pages) - 1)
    numbers = sum(is_value(piece.text) for line in lines for piece in line.pieces)
    listed = num_columns < 4 and len(pages) > 5 and numbers <= len(ends)
    return rising and (leaders >= 0.5 * len(ends) or listed)
