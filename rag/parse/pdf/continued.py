"""Tables that run over the end of a page, put together: one header, all rows."""

from collections.abc import Sequence
from dataclasses import replace

from rag.parse.pdf.tables import FoundTable
from rag.parse.pdf.text_layer import Line
from rag.parse.pdf.word_lines import is_value, join_text
from rag.parse.table import Table, TableCell, append_rows, repeats_header

_SAME_SIDES = 0.05  # share of a table's width by which the sides of what continues it may be off


def join_continued(
    pages: Sequence[tuple[Sequence[Line], Sequence[FoundTable]]],
) -> list[tuple[FoundTable, ...]]:
    """Each page's tables; one that continues the table before it lends that its rows and is marked.

    It does so where it has as many columns in the same place and no other text stands between the two. The lines are
    those of each page without its running headers and footers.
    """
    joined: list[list[FoundTable]] = []
    open_at: tuple[int, int] | None = None  # page and place of a table that ends its page
    for at, (lines, tables) in enumerate(pages):
        ordered = sorted(tables, key=lambda table: (table.box.y0, table.box.x0))
        joined.append(ordered)
        if not ordered:
            open_at = None
            continue
        first = ordered[0]
        if open_at and not any(line.box.y1 <= first.box.y0 + 1 for line in lines):
            page, place = open_at
            before = joined[page][place]
            last_part = joined[at - 1][-1]
            if _continues(before, last_part, first):
                joined[page][place] = replace(before, table=_joined(before.table, first.table))
                ordered[0] = replace(first, is_continued=True)
        ends = not any(line.box.y0 >= ordered[-1].box.y1 - 1 for line in lines)
        if not ends:
            open_at = None
        elif not (len(ordered) == 1 and ordered[0].is_continued):
            open_at = (at, len(ordered) - 1)
    return [tuple(tables) for tables in joined]


def _continues(table: FoundTable, last_part: FoundTable, following: FoundTable) -> bool:
    above, below = last_part.box, following.box
    slack = max(6.0, _SAME_SIDES * (above.x1 - above.x0))
    if table.table.num_columns != following.table.num_columns:
        return False
    if repeats_header(table.table, following.table):
        return True
    if abs(above.x0 - below.x0) > slack or abs(above.x1 - below.x1) > slack:
        return False
    return not _has_own_header(table.table, following.table)


def _has_own_header(table: Table, following: Table) -> bool:
    """Whether names stand in the first row where the table above has numbers."""
    rows = table.grid()[table.num_header_rows :]
    first = following.grid()[0]
    valued = [
        column
        for column in range(1, table.num_columns)
        if 2 * sum(is_value(row[column]) for row in rows if row[column]) > sum(bool(row[column]) for row in rows)
    ]
    named = sum(bool(first[column]) and not is_value(first[column]) for column in valued)
    return 2 * named > len(valued) > 0


def _joined(table: Table, following: Table) -> Table:
    """The rows of both; a row that the page's end cuts in two becomes one."""
    whole = append_rows(table, following)
    seam = table.num_rows
    cells = {(cell.row, cell.column): cell for cell in whole.cells}
    rest = [cell for cell in whole.cells if cell.row == seam and cell.text]
    cut = bool(rest) and all(
        cell.column > 0
        and cell.text[0].islower()
        and cell.row_span == 1
        and (above := cells.get((seam - 1, cell.column))) is not None
        and above.column_span == cell.column_span
        and above.text
        for cell in rest
    )
    if not cut or seam <= table.num_header_rows:
        return whole
    added = {cell.column: cell.text for cell in rest}
    kept: list[TableCell] = []
    for cell in whole.cells:
        if cell.row == seam - 1 and cell.column in added:
            kept.append(replace(cell, text=join_text([cell.text, added[cell.column]])))
        elif cell.row != seam:
            kept.append(replace(cell, row=cell.row - (cell.row > seam)))
    return Table(whole.num_rows - 1, whole.num_columns, tuple(kept))
