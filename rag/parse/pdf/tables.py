"""Tables of a PDF page without rules: told by the gaps between their cells."""

from collections.abc import Sequence
from statistics import mode

from rag.parse.content import render_table
from rag.parse.pdf.reading_order import Row


def table_runs(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """The spans [start, end) of rows that form tables without rules: rows of several cells, close below one another.

    A row of one cell belongs to a table when it stands between such rows: a label, or the rest of a long cell.
    """
    runs: list[tuple[int, int]] = []
    start = end = -1  # of the run that is open; end is behind its last row of several cells
    for at, row in enumerate(rows):
        far = at > 0 and row.box.y0 - rows[at - 1].box.y1 > 2.2 * row.size
        if start >= 0 and (far or at - end >= 3):
            runs.append((start, end))
            start = end = -1
        if len(row.cells) > 1:
            start, end = (at if start < 0 else start), at + 1
    if start >= 0:
        runs.append((start, end))
    return [run for run in runs if _is_table(rows[run[0] : run[1]])]


def _is_table(rows: Sequence[Row]) -> bool:
    several = [len(row.cells) for row in rows if len(row.cells) > 1]
    return len(several) >= 3 or (len(several) == 2 and min(several) >= 3)


def render_rows(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table, each on a line, with cells in the columns that they stand in."""
    columns = _columns(rows)
    table: list[list[str]] = []
    for row in rows:
        cells = [""] * len(columns)
        for cell in row.cells:
            at = max(range(len(columns)), key=lambda column: _overlap(columns[column], (cell.x0, cell.x1)))
            cells[at] = f"{cells[at]} {cell.text}".strip()
        table.append(cells)
    return render_table(table)


def _columns(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """The x-ranges of the columns, by the rows that have the usual number of cells or more."""
    usual = mode(len(row.cells) for row in rows if len(row.cells) > 1)
    spans = sorted((cell.x0, cell.x1) for row in rows if len(row.cells) >= usual for cell in row.cells)
    columns: list[tuple[float, float]] = []
    for x0, x1 in spans:
        if columns and x0 < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], x1))
        else:
            columns.append((x0, x1))
    return columns


def _overlap(first: tuple[float, float], second: tuple[float, float]) -> float:
    """How much two ranges share; below zero, how far apart they are."""
    return min(first[1], second[1]) - max(first[0], second[0])
