"""The tables of a PDF page: those inside grids of rules, those between rules across the page, and those without any."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import pymupdf

from rag.data import Box
from rag.parse.pdf.rulings import (
    Rulings,
    connected_grids,
    grid_box,
    grid_table,
    is_regular,
    may_hold_grid,
    page_rulings,
    with_header,
    without_underlines,
)
from rag.parse.pdf.table_areas import (
    CAPTION,
    LONG,
    row_runs,
    rule_groups,
    ruled_areas,
    with_header_above,
    with_row_names,
    with_rows_below,
)
from rag.parse.pdf.table_columns import phrases
from rag.parse.pdf.table_structure import table_from_words
from rag.parse.pdf.text_layer import Line, PageText
from rag.parse.pdf.word_lines import (
    Word,
    WordLine,
    is_value,
    lines_of,
    page_words,
    prose_zones,
    spacing_of,
    words_between,
    words_in,
    words_outside,
)
from rag.parse.table import Table, TableCell

_LOOSE = 5.0  # heights of a line for each line of text in a grid
_NEAR = 12.0  # em to the right of a grid,
_FAR_NAMES = 40.0  # and to its left, where the names of rows may stand far off
_SENTENCE = 6  # words
_FEW = 5  # words that may be a cell's
_MIN_LEVEL = 0.5  # share of a grid's lines with a text beside them
_MIN_HELD = 0.4  # share of a grid's rows that hold text
_MIN_TEXT_SHARE = 0.03  # of a grid's area
_CURVE = 15.0  # points: a smaller path is an ornament, or a letter
_NOTE = re.compile(r"(?:notes?|sources?|quelle|fuente|fonte|nota|\*|†|\(\*\)|\(?[a-z1-9]\)\s)", re.IGNORECASE)
_SPACES = "   "


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table and its place in the reading frame."""

    box: Box
    table: Table
    is_continued: bool = False  # its rows stand in the table of an earlier page, which it continues


def find_tables(page: pymupdf.Page, text: PageText) -> list[FoundTable]:
    """The tables of the page from top to bottom."""
    if not text.lines:
        return []
    spread = _side_by_side(text.lines)
    if not spread and not may_hold_grid(text):
        return []
    rules, grounds = page_rulings(page, text)
    grids = connected_grids(rules)
    ground_grids = connected_grids(grounds)
    if not grids and not ground_grids and not spread:
        return []
    words = page_words(page, text)
    found: list[FoundTable] = []
    plots: list[Box] = []
    places = list(map(grid_box, grids))
    if ground_grids:
        ground_grids = _without_shading(ground_grids, rules.outside(places), words, text.frame)
    for grid in [*grids, *ground_grids]:
        box = _below_prose(grid_box(grid), words)
        if any(_overlaps(box, other) for other in [*plots, *(table.box for table in found)]):
            continue
        inside = words_in(words, box)
        if not inside:
            continue
        lines = lines_of(inside)
        if _is_plot(grid, box, inside, lines, text):
            plots.append(box)
            continue
        is_drawn = grid in grids
        others = [place for other, place in zip(grids, places, strict=True) if other is not grid] if is_drawn else []
        if _is_part(box, lines, words, others, _MIN_LEVEL if is_drawn else 0.0):
            continue
        table = grid_table(grid, inside) or table_from_words(inside, grid)
        if table is not None:
            found.append(_with_names_above(FoundTable(box, _without_asides(table)), grid, words))
    words = words_outside(words, [*plots, *(table.box for table in found)])
    rules = without_underlines(rules.outside(plots), words)
    for group in rule_groups(rules.outside([table.box for table in found]).across, text.frame):
        for area in ruled_areas(group, words):
            box = with_header_above(with_row_names(_below_prose(area, words), words), words, rules)
            box = with_row_names(with_rows_below(box, words), words)  # the rules may part the header alone
            inside = words_in(words, box)
            table = table_from_words(inside, rules.within(box))
            if table is not None:
                found.append(FoundTable(box, table))
                words = words_outside(words, [box])
    if spread:
        rules = rules.outside([table.box for table in found])
        for zone in prose_zones(lines_of(words)):
            found += [table for table in _unruled(zone, rules, text.frame) if not _has_curves(table.box, text)]
    return sorted(found, key=lambda table: (table.box.y0, table.box.x0))


def _without_shading(grids: Sequence[Rulings], rules: Rulings, words: Sequence[Word], frame: Box) -> list[Rulings]:
    """The grids of coloured grounds that are no part of a table between rules across the page.

    Where cells are shaded by their values, or every other row is, the rules say where the table begins and ends.
    """
    groups = rule_groups(without_underlines(rules, words).across, frame)
    areas = [area for group in groups for area in ruled_areas(group, words)]
    return [grid for grid in grids if not any(_goes_beyond(area, grid_box(grid), words) for area in areas)]


def _goes_beyond(area: Box, box: Box, words: Sequence[Word]) -> bool:
    """Whether the area holds the box, and lines above it."""
    if not (area.x0 <= box.x0 + 4 and box.x1 - 4 <= area.x1 and area.y0 < box.y0 and box.y1 - 4 <= area.y1):
        return False
    return bool(words_in(words, replace(area, y1=box.y0)))


def _is_plot(grid: Rulings, box: Box, words: Sequence[Word], lines: Sequence[WordLine], text: PageText) -> bool:
    """Whether a grid, with the words inside it and their lines, is that of a plot: hardly any text, or curves."""
    if not is_regular(grid):
        return True
    # Lines of text with several times their height between any two are labels.
    height = median(line.y1 - line.y0 for line in lines)
    if len(lines) * _LOOSE * height < box.y1 - box.y0:
        return True
    bands = [(upper.at, lower.at) for upper, lower in pairwise(grid.across) if lower.at - upper.at > 0.6 * height]
    held = sum(any(top < (line.y0 + line.y1) / 2 < bottom for line in lines) for top, bottom in bands)
    if held < _MIN_HELD * len(bands):
        return True
    inked = sum((word.x1 - word.x0) * (word.y1 - word.y0) for word in words)
    return inked < _MIN_TEXT_SHARE * (box.x1 - box.x0) * (box.y1 - box.y0) or _has_curves(box, text)


def _below_prose(box: Box, words: Sequence[Word]) -> Box:
    """The box without a sentence at its top that leads up to the table."""
    lines = lines_of(words_in(words, box))
    if len(lines) < 2:
        return box
    spacing = spacing_of(lines)
    for line in lines[:-1]:
        if len(phrases(line, spacing)) > 1 or not (
            len(line.words) >= _SENTENCE and (len(line.text) >= LONG or line.text[-1] in ".:")
        ):
            break
        box = replace(box, y0=line.y1)
    return box


def _is_part(box: Box, lines: Sequence[WordLine], words: Sequence[Word], grids: Sequence[Box], share: float) -> bool:
    """Whether more than the share of a grid's lines go on beside it: grounds and underlines may mark off a part.

    What lies in another of the grids is beside none.
    """
    em = spacing_of(lines).em
    beside = [
        word
        for word in words_between(words, box.y0, box.y1)
        if box.y0 < (word.y0 + word.y1) / 2 < box.y1
        and (box.x0 - _FAR_NAMES * em < word.x1 <= box.x0 + 1 or box.x1 - 1 <= word.x0 < box.x1 + _NEAR * em)
    ]
    beside = words_outside(beside, grids)
    others = [line for line in lines_of(beside) if len(line.words) <= _FEW or is_value(line.text)]
    middles = [(line.y0 + line.y1) / 2 for line in others]
    level = sum(any(abs((line.y0 + line.y1) / 2 - y) < 0.4 * em for y in middles) for line in lines)
    return level > share * len(lines)


def _has_curves(box: Box, text: PageText) -> bool:
    """Whether a drawn path that is neither a line nor a rectangle lies in the box."""
    for vector in text.vectors:
        place = vector.box
        if not vector.is_rectangle and place.x1 - place.x0 > _CURVE and place.y1 - place.y0 > _CURVE:
            x, y = (place.x0 + place.x1) / 2, (place.y0 + place.y1) / 2
            if box.x0 < x < box.x1 and box.y0 < y < box.y1:
                return True
    return False


def _with_names_above(found: FoundTable, grid: Rulings, words: Sequence[Word]) -> FoundTable:
    """The table with a line of column names that stands right above its grid, each name over a column of its own."""
    box, table = found.box, found.table
    near = [w for w in words if box.x0 < (w.x0 + w.x1) / 2 < box.x1 and w.y1 <= box.y0 + 2 and w.y1 > box.y0 - 30]
    if not near or table.has_spans:
        return found
    line = lines_of(near)[-1]
    spacing = spacing_of([line])
    edges = [rule.at for rule in grid.down]
    names = phrases(line, spacing)
    columns = [sum(at <= (run[0].x0 + run[-1].x1) / 2 for at in edges) - 1 for run in names]
    if (
        box.y0 - line.y1 > 1.2 * spacing.em
        or len(edges) != table.num_columns + 1
        or len(names) < 2
        or len(set(columns)) < len(columns)
        or len(names) < 0.6 * table.num_columns
        or any(is_value(" ".join(word.text for word in run)) for run in names)
        or CAPTION.match(line.text)
    ):
        return found
    head = [
        TableCell(0, column, " ".join(word.text for word in run), is_header=True)
        for column, run in zip(columns, names, strict=True)
    ]
    body = [replace(cell, row=cell.row + 1, is_header=False) for cell in table.cells]
    return FoundTable(replace(box, y0=line.y0), Table(table.num_rows + 1, table.num_columns, (*head, *body)))


def _without_asides(table: Table) -> Table:
    """The table without a caption in its first row, or a note in its last, that stand over all its columns."""
    first, last = 0, table.num_rows
    whole = {
        cell.row: cell.text
        for cell in table.cells
        if cell.text and cell.column_span == table.num_columns and cell.row_span == 1
    }
    while first in whole and CAPTION.match(whole[first]):
        first += 1
    while last - 1 in whole and _NOTE.match(whole[last - 1]):
        last -= 1
    if last - first < 2 or last - first == table.num_rows:
        return table
    cells = tuple(replace(cell, row=cell.row - first) for cell in table.cells if first <= cell.row < last)
    return with_header(Table(last - first, table.num_columns, cells))


def _side_by_side(lines: Sequence[Line]) -> bool:
    """Whether enough lines stand beside others, or hold wide gaps, for a table without a grid.

    Two long texts beside one another are columns of prose. This decides for most pages that they need no more work.
    """
    rows: dict[int, list[str]] = {}
    for line in lines:
        rows.setdefault(round((line.box.y0 + line.box.y1) / 4), []).append(line.text)
    found = 0
    for texts in rows.values():
        if len(texts) == 1:
            found += _SPACES in texts[0]
        else:
            long = [text for text in texts if len(text) >= LONG]
            found += len(texts) > 2 or not long or (len(long) == 1 and any(is_value(text) for text in texts))
    return found > 1


def _unruled(lines: Sequence[WordLine], rules: Rulings, frame: Box) -> list[FoundTable]:
    spacing = spacing_of(lines)
    found: list[FoundTable] = []
    for start, end in row_runs(lines, spacing, frame):
        held = [word for line in lines[start:end] for word in line.words]
        box = _box(held)
        table = table_from_words(held, rules.within(box))
        if table is not None:
            found.append(FoundTable(box, table))
    return found


def _overlaps(one: Box, other: Box) -> bool:
    return min(one.x1, other.x1) - max(one.x0, other.x0) > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1


def _box(words: Sequence[Word]) -> Box:
    return Box(
        min(word.x0 for word in words), min(word.y0 for word in words),
        max(word.x1 for word in words), max(word.y1 for word in words),
    )  # fmt: skip
