"""Rows of a page -> pieces of layout: paragraphs, lists and tables, not yet told apart from headings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rag.data import BlockKind, Box
from rag.parse.pdf.reading_order import Row
from rag.parse.pdf.tables import render_rows, table_runs
from rag.parse.pdf.text_layer import enclosing

_BULLET = re.compile(r"([•●▪◦‣·○■□➢✓–—*-])\s+(?=\S)")
_NUMBER = re.compile(r"\(?(?:\d{1,2}|[a-z]|[ivx]{2,4})[.)]\s+(?=\S)")
_SENTENCE_END = (".", ":", "!", "?", ";")
_HYPHENATED = re.compile(r"[^\W\d_]-$")


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that belong together."""

    kind: BlockKind
    lines: tuple[str, ...]  # of prose: joined later, when the document's words are known
    box: Box
    size: float
    bold: bool


def pieces_of(rows: Sequence[Row]) -> list[Piece]:
    """The pieces of one region in order."""
    pieces: list[Piece] = []
    done = 0
    for start, end in table_runs(rows):
        pieces += _prose(rows[done:start])
        run = rows[start:end]
        box = enclosing([row.box for row in run])
        pieces.append(Piece("table", (render_rows(run),), box, run[0].size, False))
        done = end
    return pieces + _prose(rows[done:])


def join_lines(lines: Sequence[str], words: frozenset[str] | set[str]) -> str:
    """The lines as one text. A word cut by a hyphen at a line's end is put together.

    The hyphen stays where the document writes the word with it elsewhere and never without.
    """
    text = ""
    for line in lines:
        if text.endswith("\u00ad"):
            text = text[:-1] + line
        elif _HYPHENATED.search(text) and line[:1].islower():
            before = re.split(r"[^\w-]", text)[-1]
            after = re.match(r"\w*", line)
            rest = after[0] if after else ""
            whole, hyphenated = (before[:-1] + rest).lower(), (before + rest).lower()
            text = text + line if hyphenated in words and whole not in words else text[:-1] + line
        else:
            text = f"{text} {line}" if text else line
    return text.replace("\u00ad", "")


def words_of(rows: Sequence[Row]) -> set[str]:
    """The words of the rows in lower case, with inner hyphens; the last of a row only where it is whole."""
    return {word for row in rows for word in re.findall(r"\w+(?:-\w+)*(?!\w*-$)", row.text.lower())}


def _prose(rows: Sequence[Row]) -> list[Piece]:
    if not rows:
        return []
    right = max(row.box.x1 for row in rows)
    left = min(row.box.x0 for row in rows)
    # The smaller gaps are those inside paragraphs; a few headings and formulas must not stretch them.
    gaps = sorted(below.box.y0 - above.box.y1 for above, below in pairwise(rows))
    usual_gap = min(gaps[len(gaps) * 3 // 10], rows[0].size) if gaps else 0.0
    groups: list[list[Row]] = []
    for row in rows:
        if groups and not _begins_piece(groups[-1], row, usual_gap, left, right):
            groups[-1].append(row)
        else:
            groups.append([row])
    pieces: list[Piece] = []
    in_list: list[list[Row]] = []
    for group in groups:
        if _marker(group[0]):
            in_list.append(group)
            continue
        pieces += _list(in_list)
        in_list = []
        pieces.append(_piece("paragraph", group))
    return pieces + _list(in_list)


def _begins_piece(group: Sequence[Row], row: Row, usual_gap: float, left: float, right: float) -> bool:
    above = group[-1]
    gap = row.box.y0 - above.box.y1
    if _marker(row) or abs(row.size - above.size) > 0.6 or row.bold != above.bold:
        # One bold or small row inside a paragraph does not end it; a change at its beginning does.
        return _marker(row) is not None or abs(row.size - above.size) > 0.6 or len(group) == 1 or row.bold
    if gap > max(usual_gap, 0.0) + 0.45 * row.size or gap < -3 * row.size:
        return True
    if _marker(group[0]):
        return row.box.x0 < group[0].box.x0 - 1.0
    ends_short = above.box.x1 < right - 0.25 * (right - left)
    indented = row.box.x0 > above.box.x0 + 0.8 * row.size and len(group) > 1
    return (ends_short or indented) and above.text.endswith(_SENTENCE_END)


def _marker(row: Row) -> re.Match[str] | None:
    return _BULLET.match(row.text) or _NUMBER.match(row.text)


def _list(groups: Sequence[Sequence[Row]]) -> list[Piece]:
    """The items as one list; a single numbered line is more often a heading or a footnote than a list."""
    if not groups:
        return []
    if len(groups) == 1 and not _BULLET.match(groups[0][0].text):
        return [_piece("paragraph", groups[0])]
    items: list[str] = []
    for group in groups:
        lines = [row.text for row in group]
        items.append("\n".join([_BULLET.sub("- ", lines[0], count=1), *lines[1:]]))
    rows = [row for group in groups for row in group]
    return [Piece("list", tuple(items), enclosing([row.box for row in rows]), rows[0].size, False)]


def _piece(kind: BlockKind, rows: Sequence[Row]) -> Piece:
    box = enclosing([row.box for row in rows])
    return Piece(kind, tuple(row.text for row in rows), box, rows[0].size, all(row.bold for row in rows))
