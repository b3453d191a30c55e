"""XLSX -> blocks: each sheet a heading and its tables, with merged cells as spans and values as they are displayed."""

import io
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from openpyxl import load_workbook
from openpyxl.utils.exceptions import InvalidFileException

from rag.config import ParseConfig
from rag.data import Block, RawDocument
from rag.errors import ParseError
from rag.parse.content import ParsedContent
from rag.parse.office.number_format import display_value
from rag.parse.office.package import open_package
from rag.parse.office.properties import core_fields, stated_title
from rag.parse.table import Table, TableCell, compact, render

if TYPE_CHECKING:
    from openpyxl.cell.cell import Cell, MergedCell
    from openpyxl.worksheet.worksheet import Worksheet

_MAX_CELLS = 5_000_000  # of a sheet's used range


def parse_xlsx(raw: RawDocument, config: ParseConfig) -> ParsedContent:
    """The blocks sheet by sheet. Formulas stand as their last result. Hidden sheets, rows and columns are left out,
    with the flag "hidden_text".

    Raises ParseError for a damaged, protected or too large file.
    """
    uri = raw.metadata.uri
    with open_package(uri, raw.content, config.max_unpacked_mb):
        try:
            book = load_workbook(io.BytesIO(raw.content), data_only=True)
        except (InvalidFileException, KeyError) as error:
            raise ParseError(uri, f"damaged: not readable as a workbook ({error})") from error
    blocks: list[Block] = []
    hidden = False
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            hidden = True
            continue
        if sheet.max_row * sheet.max_column > _MAX_CELLS:
            raise ParseError(
                uri, f"too large: sheet {sheet.title} has {sheet.max_row:,} rows and {sheet.max_column:,} columns"
            )
        reader = _Sheet(sheet)
        held = list(reader.blocks())
        hidden = hidden or reader.leaves_out
        if held:
            blocks += [Block("heading", sheet.title, 1), *held]
    return ParsedContent(
        tuple(blocks),
        stated_title(book.properties),
        core_fields(book.properties),
        flags=("hidden_text",) if hidden else (),
    )


class _Sheet:
    """The visible cells of one sheet."""

    def __init__(self, sheet: "Worksheet") -> None:
        self._sheet = sheet
        hidden_rows = {number for number, row in sheet.row_dimensions.items() if row.hidden}
        hidden_columns = {
            number
            for column in sheet.column_dimensions.values()
            if column.hidden
            for number in range(column.min or 0, (column.max or 0) + 1)
        }
        self._rows = [row for row in range(1, sheet.max_row + 1) if row not in hidden_rows]
        self._columns = [column for column in range(1, sheet.max_column + 1) if column not in hidden_columns]
        self.leaves_out = len(self._rows) < sheet.max_row or len(self._columns) < sheet.max_column
        self._spans = {
            (area.min_row, area.min_col): (area.max_row - area.min_row + 1, area.max_col - area.min_col + 1)
            for area in sheet.merged_cells.ranges
        }

    def blocks(self) -> Iterator[Block]:
        """Tables, which empty rows part, with a single cell above or below one as a paragraph."""
        texts = self._texts()
        filled = [any(row) for row in texts]
        for is_filled, numbers in groupby(range(len(texts)), key=lambda at: filled[at]):
            if is_filled:
                yield from self._band(texts, list(numbers))

    def _texts(self) -> list[list[str]]:
        columns = [column - 1 for column in self._columns]
        by_row = {
            row: [_text(cells[column]) for column in columns]
            for row, cells in enumerate(self._sheet.iter_rows(max_col=self._sheet.max_column), start=1)
        }
        return [by_row[row] for row in self._rows if row in by_row]

    def _band(self, texts: list[list[str]], rows: Sequence[int]) -> Iterator[Block]:
        """Rows without an empty one between them: titles above, then one table."""
        start = 0
        while start < len(rows) and sum(map(bool, texts[rows[start]])) == 1:
            start += 1
        if start == len(rows):
            yield Block("paragraph", "\n".join(next(filter(None, texts[row])) for row in rows))
            return
        if start:
            yield Block("paragraph", "\n".join(next(filter(None, texts[row])) for row in rows[:start]))
        yield Block("table", render(self._table(texts, rows[start:])))

    def _table(self, texts: list[list[str]], rows: Sequence[int]) -> Table:
        num_headers = self._num_header_rows(rows)
        covered: set[tuple[int, int]] = set()
        cells: list[TableCell] = []
        for at, row in enumerate(rows):
            for column, text in enumerate(texts[row]):
                if (at, column) in covered:
                    continue
                height, width = self._spans.get((self._rows[row], self._columns[column]), (1, 1))
                height = min(height, len(rows) - at)
                width = sum(self._columns[column] <= other < self._columns[column] + width for other in self._columns)
                covered.update((at + down, column + right) for down in range(height) for right in range(width))
                cells.append(TableCell(at, column, text, height, width, is_header=at < num_headers))
        return compact(Table(len(rows), len(self._columns), tuple(cells)))

    def _num_header_rows(self, rows: Sequence[int]) -> int:
        """The first row, with those that merged cells of it reach down into or stand across more than one column of."""
        if len(rows) < 2:
            return 0
        first = self._rows[rows[0]]
        tallest = max((height for (row, _), (height, _) in self._spans.items() if row == first), default=1)
        is_parted = any(row == first and width > 1 for (row, _), (_, width) in self._spans.items())
        return min(max(tallest, 2 if is_parted else 1), len(rows) - 1)


def _text(cell: "Cell | MergedCell") -> str:
    return display_value(cell.value, cell.number_format or "General").strip() if cell.value is not None else ""
