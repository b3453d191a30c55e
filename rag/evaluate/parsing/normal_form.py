"""The form in which two Markdown texts are compared: every pipe table one line of HTML."""

import re
from collections.abc import Sequence
from html import escape

_SEPARATOR_CELL = re.compile(r"[-: ]*")


def with_html_tables(markdown: str) -> str:
    """The text with each pipe table as one line of HTML, its header cells `th`; HTML tables stay as they are.

    A row shorter than the table is filled up with empty cells, a longer one is cut; one of exactly three cells in a
    wider table repeats the one in the middle. Where all header cells are empty, the first row below is the header.
    """
    lines = markdown.split("\n")
    written: list[str] = []
    at = 0
    while at < len(lines):
        if "|" in lines[at] and at + 1 < len(lines) and _is_separator(lines[at + 1]):
            end = at + 2
            while end < len(lines) and "|" in lines[end]:
                end += 1
            written.append(
                _html(_cells(lines[at]), _cells(lines[at + 1]), [_cells(line) for line in lines[at + 2 : end]])
            )
            at = end
        else:
            written.append(lines[at])
            at += 1
    return "\n".join(written)


def _is_separator(line: str) -> bool:
    return "|" in line and "-" in line and all(_SEPARATOR_CELL.fullmatch(cell) for cell in _cells(line))


def _cells(line: str) -> list[str]:
    inner = line.strip()
    inner = inner.removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in inner.split("|")]


def _html(header: Sequence[str], separator: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    width = max(len(header), len(separator))
    rows = [_of_width(row, width) for row in (header, *body)]
    if not any(rows[0]) and len(rows) > 1:
        rows = rows[1:]
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in rows[0])]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows[1:]]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _of_width(row: Sequence[str], width: int) -> list[str]:
    if len(row) == 3 < width:
        return [row[0], *[row[1]] * (width - 2), row[2]]
    return [*row, *[""] * (width - len(row))][:width]
