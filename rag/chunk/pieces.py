"""A block -> the pieces between which a chunk may begin: table rows, list items, statements of code, sentences.

A piece knows what has to stand above it where it begins a chunk: a table's header rows, the items above a nested one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag.chunk.split import Span, split_block, split_evenly, split_sentences, trimmed
from rag.data import Block
from rag.parse.table import TableText, read_table

_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
_COMMENT = re.compile(r"(?:^|\s)(?:#|//).*$")
_CLOSES = re.compile(r"[)\]}]|(?:end|fi|done|esac|else|elif|elsif|except|finally|catch|then|do)\b|```|~~~")
_GOES_ON = re.compile(r"(?:[\\,(\[{|]|&&|=|->|=>)$")
_INDENT = re.compile(r"[ \t]*")


@dataclass(frozen=True, slots=True)
class Piece:
    """A span of a block's text, in characters of the block, and the text that belongs above it."""

    start: int
    end: int
    context: str = ""


def pieces_of(block: Block) -> list[Piece]:
    """The smallest pieces with which a chunk of the block should begin or end; together they hold all but white space.

    Rows that a cell spans are one piece, and so is a statement with all that is indented below it: `cut_piece` parts
    those that are larger than a chunk.
    """
    match block.kind:
        case "table" if table := read_table(block.text):
            return list(_table_pieces(block.text, table))
        case "list":
            return list(_list_pieces(block.text))
        case "code":
            return [Piece(*span) for span in _statements(block.text, 0, len(block.text))]
        case kind:
            return [Piece(*span) for span in split_block(kind, block.text)]


def cut_piece(block: Block, piece: Piece, num_pieces: int) -> list[Piece]:
    """A piece that is larger than a chunk in smaller ones: rows, inner statements, lines, sentences, else about
    `num_pieces` runs of words. Always more than one where the piece has more than one character."""
    text, start, end = block.text, piece.start, piece.end
    if block.kind == "table" and (table := read_table(text)):
        rows = [at for at, (row_start, row_end) in enumerate(table.row_spans) if start <= row_start and row_end <= end]
        if len(rows) > 1:
            return [_row_piece(text, table, row, start) for row in rows]
    if block.kind == "code" and len(inner := _inner_statements(text, start, end)) > 1:
        return [Piece(*span, piece.context) for span in inner]
    spans = split_sentences(text, start, end)
    if len(spans) < 2:
        spans = split_evenly(text, start, end, max(num_pieces, 2))
    return [Piece(*span, piece.context) for span in spans]


# ---------------------------------------------------------------- tables


def _table_pieces(text: str, table: TableText) -> Iterator[Piece]:
    """The header with the first row, then each further row, or the rows together that a cell spans."""
    first = min(table.table.num_header_rows, len(table.row_spans) - 1)
    tied = {
        row
        for cell in table.table.cells
        for row in range(cell.row + 1, min(cell.row + cell.row_span, len(table.row_spans)))
    }
    starts = [row for row in range(first, len(table.row_spans)) if row == first or row not in tied]
    for row, following in zip(starts, [*starts[1:], len(table.row_spans)], strict=True):
        start = 0 if row == first else table.row_spans[row][0]
        end = table.row_spans[following - 1][1] if following < len(table.row_spans) else len(text)
        if span := trimmed(text, start, end):
            yield Piece(*span, "" if row == first else _header(text, table))


def _row_piece(text: str, table: TableText, row: int, start: int) -> Piece:
    """One row of a piece that begins at `start`; what stands around the rows goes with the first and the last."""
    row_start, row_end = table.row_spans[row]
    in_header = row < table.table.num_header_rows
    if row == 0 and start < row_start:
        row_start = start  # the line that opens the table
    if row + 1 == len(table.row_spans):
        row_end = len(text.rstrip())
    if in_header and not table.is_html:
        row_end = max(row_end, text.find("\n", row_end + 1))  # the rule below the header
    above = sorted(
        {cell.row for cell in table.table.cells if cell.row < row < cell.row + cell.row_span}
        - set(range(table.table.num_header_rows))
    )
    lines = [text[slice(*table.row_spans[at])] for at in above]
    return Piece(row_start, row_end, "" if in_header else "\n".join([_header(text, table), *lines]).strip())


def _header(text: str, table: TableText) -> str:
    """The header rows as they stand in the text, with what opens the table above them; "" where there is no body."""
    num = table.table.num_header_rows
    if not 0 < num < len(table.row_spans):
        return ""
    return text[: table.row_spans[num][0]].strip()


# ---------------------------------------------------------------- lists and code


def _list_pieces(text: str) -> Iterator[Piece]:
    """The items; above a nested one stand the first lines of the items that hold it."""
    above: list[tuple[int, str]] = []  # (indent, first line) of the items around
    for start, end in split_block("list", text):
        line_start = text.rfind("\n", 0, start) + 1
        indent = start - line_start
        above = [(depth, line) for depth, line in above if depth < indent]
        yield Piece(start, end, "\n".join(" " * depth + line for depth, line in above))
        above.append((indent, text[start:end].split("\n", 1)[0]))


def _statements(text: str, start: int, end: int) -> Iterator[Span]:
    """The outermost statements of text[start:end], each with the lines that are indented below it.

    A statement begins on a line that is indented no deeper than the first one, outside brackets, and that neither
    closes nor continues the one before; comments and decorators go with what follows them.
    """
    base: int | None = None
    at = start
    opened, depth = start, 0  # where the statement begins; brackets that are open
    held = goes_on = False  # the lines so far only lead to what follows; the line before is not at its end
    for line in text[start:end].split("\n"):
        stripped = line.strip()
        if stripped:
            indent = len(_INDENT.match(line)[0])  # type: ignore[index]  # the pattern matches every text
            base = indent if base is None else min(base, indent)
            new = indent <= base and depth <= 0 and not goes_on and not held and not _CLOSES.match(stripped)
            if new and at > opened:
                if span := trimmed(text, opened, at):
                    yield span
                opened, depth = at, 0
            bare = _COMMENT.sub("", _STRING.sub('""', line))
            depth = max(0, depth + sum(_BRACKETS.get(character, 0) for character in bare))
            goes_on = _GOES_ON.search(bare.rstrip()) is not None
            held = stripped.startswith(("#", "//", "@", "```", "~~~")) and not stripped.startswith("#!")
        at += len(line) + 1
    if span := trimmed(text, opened, end):
        yield span


def _inner_statements(text: str, start: int, end: int) -> list[Span]:
    """The statements of text[start:end]; those inside it where it is one, and its lines where it holds none."""
    found = list(_statements(text, start, end))
    line_end = text.find("\n", start, end)
    if len(found) > 1 or line_end < 0:
        return found
    inner = list(_statements(text, line_end + 1, end))
    if len(inner) > 1:
        return [(start, line_end), *inner]
    return [(start + at, start + to) for at, to in split_block("code", text[start:end])]
