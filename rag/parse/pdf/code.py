"""Code listings of a PDF page: rows in a monospaced font, with their indentation, without their line numbers."""

from collections.abc import Sequence

from rag.parse.content import render_code
from rag.parse.pdf.reading_order import Row
from rag.parse.pdf.text_layer import Line

_MAX_GAP = 2.5  # font sizes between two rows of one listing
_MAX_INDENT = 80  # characters


def code_runs(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """The spans [start, end) of rows that form listings: monospaced rows, and numbered empty ones between them."""
    runs: list[tuple[int, int]] = []
    start = -1
    for at, row in enumerate(rows):
        near = at > 0 and row.box.y0 - rows[at - 1].box.y1 <= _MAX_GAP * row.size
        if start >= 0 and not (near and _continues(row)):
            runs.append((start, at))
            start = -1
        if start < 0 and (row.monospaced or _is_number(row)):
            start = at
    if start >= 0:
        runs.append((start, len(rows)))
    return [run for run in runs if any(row.monospaced for row in rows[run[0] : run[1]])]


def render_rows_of_code(rows: Sequence[Row]) -> str:
    """The listing between fences. Numbers of lines are left out, and a numbered line that was wrapped is one again."""
    listings = [[line for line in row.lines if line.monospaced] for row in rows]
    numbers = [_number(row) for row in rows]
    numbered = sum(number >= 0 for number in numbers) > len(rows) / 3
    inked = [lines for lines in listings if lines]
    left = min(line.box.x0 for lines in inked for line in lines)
    right = _right_edge([lines[-1] for lines in inked])
    written: list[str] = []
    ends_full = False
    for lines, number in zip(listings, numbers, strict=True):
        text = _spaced(lines, left)
        wraps = numbered and number < 0 and written
        if wraps:
            written[-1] += f"{'' if ends_full else ' '}{text.strip()}"
        else:
            written.append(text)
        ends_full = bool(lines) and lines[-1].box.x1 > right - 0.6 * _pitch(lines[-1])
    return render_code("\n".join(written).strip("\n"))


def without_code(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines without those of listings and without the numbers beside them."""
    listed = sorted((line for line in lines if line.monospaced), key=lambda line: line.box.y0)
    if not listed:
        return tuple(lines)
    prose = [line for line in lines if not line.monospaced and not line.text.isdecimal()]
    taken = {id(line) for line in listed if not any(_is_beside(line, other) for other in prose)}
    kept = [line for line in listed if id(line) in taken]
    numbers = [line for line in lines if line.text.isdecimal() and not line.monospaced]
    taken |= {id(line) for line in numbers if any(_is_beside(line, other) for other in kept)}
    return tuple(line for line in lines if id(line) not in taken)


def _is_beside(line: Line, other: Line) -> bool:
    shared = min(line.box.y1, other.box.y1) - max(line.box.y0, other.box.y0)
    return shared > 0.5 * min(line.box.y1 - line.box.y0, other.box.y1 - other.box.y0)


def _continues(row: Row) -> bool:
    return row.monospaced or _is_number(row)


def _is_number(row: Row) -> bool:
    """Whether the row is the number of an empty line."""
    return len(row.lines) == 1 and row.lines[0].text.isdecimal() and len(row.lines[0].text) <= 4


def _number(row: Row) -> int:
    first = row.lines[0] if row.lines else None
    if first is None or not first.text.isdecimal() or (first.monospaced and len(row.lines) == 1):
        return -1
    return -1 if first.monospaced and not _is_apart(row.lines) else int(first.text)


def _is_apart(lines: Sequence[Line]) -> bool:
    return len(lines) > 1 and lines[1].box.x0 - lines[0].box.x1 > 0.8 * lines[0].size


def _spaced(lines: Sequence[Line], left: float) -> str:
    """The lines of one row with as many spaces before each as its place asks for."""
    text = ""
    for line in lines:
        column = round((line.box.x0 - left) / _pitch(line))
        text += " " * min(max(column - len(text), 1 if text else 0), _MAX_INDENT) + line.text
    return text


def _right_edge(last: Sequence[Line]) -> float:
    """Where lines are cut off: the end of the longest, if another one ends there too."""
    ends = sorted((line.box.x1 for line in last), reverse=True)
    return ends[0] if len(ends) > 1 and ends[0] - ends[1] < 0.5 * _pitch(last[0]) else float("inf")


def _pitch(line: Line) -> float:
    """The width of one character."""
    return max((line.box.x1 - line.box.x0) / max(len(line.text), 1), 1.0)
