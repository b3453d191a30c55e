"""The tables of a Markdown text as grids: every cell at each row and column that it covers."""

from collections.abc import Iterator
from dataclasses import dataclass

from bs4 import BeautifulSoup, Tag

from rag.evaluate.parsing.normal_form import with_html_tables

_MAX_SPAN = 200


@dataclass(frozen=True, slots=True)
class Grid:
    """One table: which cell lies at (row, column), and what the cells say."""

    cells: dict[tuple[int, int], int]
    texts: list[str]

    def places(self) -> Iterator[tuple[int, int]]:
        """Every (row, column) that a cell covers."""
        yield from self.cells

    def text(self, row: int, column: int) -> str:
        return self.texts[self.cells[row, column]]

    def texts_beside(self, row: int, column: int, down: int, right: int) -> list[str]:
        """The texts of the other cells in one direction, nearest first, each cell once."""
        here = self.cells[row, column]
        found: list[int] = []
        while (cell := self.cells.get((row := row + down, column := column + right))) is not None:
            if cell != here and cell not in found:
                found.append(cell)
        return [self.texts[cell] for cell in found]


def grids_of(markdown: str) -> list[Grid]:
    """The grid of every pipe and HTML table of the text."""
    soup = BeautifulSoup(with_html_tables(markdown), "lxml")
    return [_grid(table) for table in soup.find_all("table")]


def _grid(table: Tag) -> Grid:
    cells: dict[tuple[int, int], int] = {}
    texts: list[str] = []
    for row, line in enumerate(table.find_all("tr")):
        column = 0
        for cell in line.find_all(["td", "th"]):
            while (row, column) in cells:
                column += 1
            for down in range(_span(cell, "rowspan")):
                for right in range(_span(cell, "colspan")):
                    cells.setdefault((row + down, column + right), len(texts))
            texts.append(cell.get_text())
    return Grid(cells, texts)


def _span(cell: Tag, name: str) -> int:
    value = str(cell.get(name, "1"))
    return max(1, min(int(value), _MAX_SPAN)) if value.isdecimal() else 1
