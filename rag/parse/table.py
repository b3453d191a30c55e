"""A table whatever its format: cells with spans, written as Markdown, as HTML or as labelled rows, and read back."""

import html
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from rag.parse.content import single_spaced
from rag.sent import Sent

MAX_SPAN = 200  # rows or columns: a larger one is a mistake or an attack, not a table

_PIPE = re.compile(r"(?<!\\)\|")
_RULE_CELL = re.compile(r"\s*:?-+:?\s*")
_HTML_CELL = re.compile(r"<(t[hd])((?:\s[^<>]*)?)>(.*?)</t[hd]>", re.DOTALL)
_HTML_SPAN = re.compile(r"\b(row|col)span=\"(\d{1,9})\"")
_BREAK = re.compile(r"<br\s*/?>")


@dataclass(frozen=True, slots=True)
class TableCell(Sent):
    """One cell. A line break in its text is one that its author meant, not one of the page's width."""

    row: int
    column: int
    text: str
    row_span: int = 1
    column_span: int = 1
    is_header: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Cells in reading order that do not overlap; places of the grid that no cell covers are empty."""

    num_rows: int
    num_columns: int
    cells: tuple[TableCell, ...]

    @property
    def num_header_rows(self) -> int:
        """How many rows from the top on hold headers only."""
        body = [cell.row for cell in self.cells if not cell.is_header and cell.text]
        below = min(body, default=self.num_rows)
        headed = {row for cell in self.cells if cell.is_header for row in range(cell.row, cell.row + cell.row_span)}
        return next((row for row in range(self.num_rows) if row >= below or row not in headed), self.num_rows)

    @property
    def has_spans(self) -> bool:
        return any(cell.row_span > 1 or cell.column_span > 1 for cell in self.cells)

    def grid(self) -> list[list[str]]:
        """The texts by row and column; a cell that spans is repeated wherever it reaches."""
        texts = [[""] * self.num_columns for _ in range(self.num_rows)]
        for cell in self.cells:
            for row, column in _places(cell):
                texts[row][column] = cell.text
        return texts


@dataclass(frozen=True, slots=True)
class TableText:
    """A table as it stands in a text: where each row begins and ends, and which rows are its header."""

    table: Table
    row_spans: tuple[tuple[int, int], ...]  # [start, end) in characters, one for each row of the table
    is_html: bool


def table_of_rows(rows: Sequence[Sequence[str]], num_header_rows: int = 1) -> Table:
    """The rows as a table without spans; short rows are filled up."""
    width = max((len(row) for row in rows), default=0)
    return Table(
        len(rows) if width else 0,
        width,
        tuple(
            TableCell(
                at, column, single_spaced(row[column] if column < len(row) else ""), is_header=at < num_header_rows
            )
            for at, row in enumerate(rows)
            for column in range(width)
        ),
    )


def table_of_flow(rows: Iterable[Iterable[TableCell]]) -> Table:
    """The table of cells that flow as in HTML: each takes the first place of its row that no cell above reaches into.

    Rows and columns of the cells given are not read. Spans are cut to the table, and to MAX_SPAN.
    """
    taken: set[tuple[int, int]] = set()
    placed: list[TableCell] = []
    flowing = [list(row) for row in rows]
    for at, row in enumerate(flowing):
        column = 0
        for cell in row:
            column = next(free for free in count(column) if (at, free) not in taken)
            height = max(1, min(cell.row_span, len(flowing) - at, MAX_SPAN))
            width = max(1, min(cell.column_span, MAX_SPAN))
            width = next((w for w in range(1, width) if (at, column + w) in taken), width)
            moved = replace(
                cell, row=at, column=column, text=single_spaced(cell.text), row_span=height, column_span=width
            )
            taken.update(_places(moved))
            placed.append(moved)
            column += width
    width = max((column + 1 for _, column in taken), default=0)
    return Table(len(flowing) if width else 0, width, tuple(placed))


def compact(table: Table) -> Table:
    """The table without rows and columns that hold no text and only follow from spans or empty cells."""
    rows = sorted({cell.row for cell in table.cells if cell.text})
    columns = sorted({cell.column for cell in table.cells if cell.text})
    cells: list[TableCell] = []
    for cell in table.cells:
        row, end = bisect_left(rows, cell.row), bisect_left(rows, cell.row + cell.row_span)
        column, right = bisect_left(columns, cell.column), bisect_left(columns, cell.column + cell.column_span)
        if end > row and right > column:
            cells.append(replace(cell, row=row, column=column, row_span=end - row, column_span=right - column))
    return Table(len(rows), len(columns), tuple(cells))


def render(table: Table) -> str:
    """The table as Markdown, or as HTML where Markdown can't say it: spans, several header rows, lines in a cell."""
    lines = any("\n" in cell.text for cell in table.cells)
    return render_html(table) if table.has_spans or lines or table.num_header_rows > 1 else render_markdown(table)


def render_markdown(table: Table) -> str:
    """A pipe table, its first row as the header; a cell that spans is repeated, its lines become one.

    Empty in, empty out.
    """
    if not table.num_columns:
        return ""
    first, *others = (_pipe_line(row) for row in table.grid())
    return "\n".join([first, f"|{' --- |' * table.num_columns}", *others])


def render_html(table: Table) -> str:
    """An HTML table with each row on a line of its own; `th` for headers. Empty in, empty out."""
    if not table.num_columns:
        return ""
    taken: set[tuple[int, int]] = set()
    starts: dict[tuple[int, int], TableCell] = {}
    for cell in table.cells:
        starts[cell.row, cell.column] = cell
        taken.update(_places(cell))
    lines = ["<table>"]
    header_rows = table.num_header_rows
    for row in range(table.num_rows):
        written: list[str] = []
        for column in range(table.num_columns):
            if (row, column) in starts:
                written.append(_html_cell(starts[row, column]))
            elif (row, column) not in taken:
                written.append("<th></th>" if row < header_rows else "<td></td>")
        lines.append(f"<tr>{''.join(written)}</tr>")
    return "\n".join([*lines, "</table>"])


def labelled_rows(table: Table) -> list[str]:
    """The rows of the body as "Zone: B; Parking fee per day: 12 CHF", without empty cells.

    A label is the column's headers from the top down, each said once; a column without one is named by nothing.
    """
    texts = table.grid()
    num_header_rows = table.num_header_rows
    labels = [_label([texts[row][column] for row in range(num_header_rows)]) for column in range(table.num_columns)]
    repeats = {place for cell in table.cells for place in _places(cell) if place[1] > cell.column}
    rows: list[str] = []
    for at in range(num_header_rows, table.num_rows):
        parts: list[str] = []
        for column, text in enumerate(texts[at]):
            if not text or (at, column) in repeats:
                continue
            said = " ".join(text.split())
            # A form has no header: each value stands behind its name.
            if not labels[column] and parts and parts[-1].endswith(":") and said[-1] != ":":
                parts[-1] += f" {said}"
            else:
                parts.append(f"{labels[column]}: {said}" if labels[column] else said)
        rows.append("; ".join(parts))
    return rows


def repeats_header(table: Table, continued: Table) -> bool:
    """Whether the second table begins with the header rows of the first."""
    header = table.grid()[: table.num_header_rows]
    return bool(header) and [_folded(row) for row in continued.grid()[: len(header)]] == list(map(_folded, header))


def append_rows(table: Table, continued: Table) -> Table:
    """The table with the rows of another below it, without those that repeat its header."""
    dropped = table.num_header_rows if repeats_header(table, continued) else 0
    moved = [
        replace(cell, row=cell.row - dropped + table.num_rows, is_header=False)
        for cell in continued.cells
        if cell.row >= dropped
    ]
    num_rows = table.num_rows + continued.num_rows - dropped
    return Table(num_rows, max(table.num_columns, continued.num_columns), (*table.cells, *moved))


def read_table(text: str) -> TableText | None:
    """The table that `render` wrote, with the place of each row; None for any other text.

    A Markdown row is its line. An HTML row is its line as well; the lines of `<table>` and `</table>` belong to none.
    """
    lines = list(_lines(text))
    if lines and lines[0][2].lstrip().startswith("<table"):
        rows = [(start, end, line) for start, end, line in lines if line.lstrip().startswith("<tr")]
        table = table_of_flow([_read_html_cell(match) for match in _HTML_CELL.finditer(line)] for _, _, line in rows)
        return TableText(table, tuple((start, end) for start, end, _ in rows), True) if table.num_rows else None
    if len(lines) < 2 or not all("|" in line for _, _, line in lines):
        return None
    if not all(_RULE_CELL.fullmatch(cell) for cell in _pipe_cells(lines[1][2])):
        return None
    rows = [lines[0], *lines[2:]]
    return TableText(
        table_of_rows([_pipe_cells(line) for _, _, line in rows]), tuple((start, end) for start, end, _ in rows), False
    )


def _places(cell: TableCell) -> Iterator[tuple[int, int]]:
    for row in range(cell.row, cell.row + cell.row_span):
        for column in range(cell.column, cell.column + cell.column_span):
            yield row, column


def _folded(row: Sequence[str]) -> list[str]:
    return ["".join(text.split()).lower() for text in row]


def _label(headers: Sequence[str]) -> str:
    said: list[str] = []
    for header in headers:
        text = " ".join(header.split()).rstrip(":")
        if text and (not said or said[-1] != text):
            said.append(text)
    return " ".join(said)


def _pipe_line(texts: Sequence[str]) -> str:
    escaped = (text.replace("|", "\\|").replace("\n", " ") for text in texts)
    return f"| {' | '.join(escaped)} |"


def _pipe_cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _PIPE.split(inner)]


def _html_cell(cell: TableCell) -> str:
    name = "th" if cell.is_header else "td"
    rows = f' rowspan="{cell.row_span}"' if cell.row_span > 1 else ""
    columns = f' colspan="{cell.column_span}"' if cell.column_span > 1 else ""
    text = html.escape(cell.text, quote=False).replace("\n", "<br>")
    return f"<{name}{rows}{columns}>{text}</{name}>"


def _read_html_cell(match: re.Match[str]) -> TableCell:
    spans = {name: int(value) for name, value in _HTML_SPAN.findall(match[2])}
    text = "\n".join(html.unescape(part) for part in _BREAK.split(match[3]))
    return TableCell(0, 0, text, spans.get("row", 1), spans.get("col", 1), match[1] == "th")


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and text of each line that is not blank."""
    start = 0
    for line in text.split("\n"):
        if line.strip():
            yield start, start + len(line), line
        start += len(line) + 1
