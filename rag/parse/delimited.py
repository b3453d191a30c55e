"""CSV and TSV -> one table. What separates the cells is told by the text, not by the name alone."""

import csv
import io
import re
from collections import Counter
from itertools import islice

from rag.data import Block
from rag.parse.content import ParsedContent
from rag.parse.table import render, table_of_rows

_DELIMITERS = ",;\t|"
_SAMPLE_ROWS = 200
_NUMBER = re.compile(r"[-+(]?[$€£]?\d[\d.,' ]*%?\)?|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([ T].*)?")


def parse_delimited(text: str, delimiter: str = "") -> ParsedContent:
    """The rows as a table, the first as its header where it looks like one. Raises ValueError for a broken quotation.

    The delimiter is detected where none is given. A first line "sep=;" says it, as Excel writes.
    """
    stated = re.match(r"sep=(.)\n", text)
    if stated:
        delimiter, text = stated[1], text[stated.end() :]
    rows = read_rows(text, delimiter or detect_delimiter(text))
    if not rows:
        return ParsedContent(())
    return ParsedContent((Block("table", render(table_of_rows(rows, 1 if has_header(rows) else 0))),))


def read_rows(text: str, delimiter: str) -> list[list[str]]:
    """The rows that hold anything. Raises ValueError where a quotation does not end or a cell is too large."""
    csv.field_size_limit(1 << 24)
    try:
        # Not strict: a quotation mark inside an unquoted cell (5" screws) is part of the text.
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise ValueError(f"not readable as a table: {error}") from error
    return [row for row in rows if any(cell.strip() for cell in row)]


def detect_delimiter(text: str) -> str:
    """The sign that cuts most of the rows into the same number of cells, and into more than one."""
    sample = list(islice(io.StringIO(text, newline=""), _SAMPLE_ROWS))
    scores: dict[str, tuple[float, int]] = {}
    for delimiter in _DELIMITERS:
        try:
            widths = Counter(len(row) for row in csv.reader(sample, delimiter=delimiter) if row)
        except csv.Error:
            continue
        width, count = max(widths.items(), key=lambda item: (item[1], item[0]), default=(1, 0))
        scores[delimiter] = (count / max(widths.total(), 1) if width > 1 else 0.0, width)
    return max(scores, key=lambda delimiter: scores[delimiter], default=",")


def has_header(rows: list[list[str]]) -> bool:
    """Whether the first row names columns: full, each name once, and no number or date among them."""
    names = [cell.strip() for cell in rows[0]]
    return (
        len(rows) > 1
        and all(names)
        and len(set(names)) == len(names)
        and not any(_NUMBER.fullmatch(name) for name in names)
    )
