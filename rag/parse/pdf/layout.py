"""Rows of a page -> pieces of layout: paragraphs, lists, code and captions, not yet told apart from headings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rag.data import BlockKind, Box
from rag.parse.pdf.code import code_runs, render_rows_of_code
from rag.parse.pdf.reading_order import PLAIN, Look, Row
from rag.parse.pdf.text_layer import enclosing

_BULLET = re.compile(r"([•●▪◦‣·○■□➢✓❖–—*-])\s+(?=\S)")
_NUMBER = re.compile(r"(?:\(?(?:\d{1,3}|[a-z]|[ivx]{2,4})[.)]|\[\d{1,3}\])\s+(?=\S)")
_SENTENCE_END = (".", ":", "!", "?", ";", "。", "！", "？")
_HYPHENATED = re.compile(r"[^\W\d_]-$")
_NO_WORD = re.compile(r"[^\w-]")
_WORD = re.compile(r"\w+(?:-\w+)*(?!\w*-$)")
_CAPTION = re.compile(
    r"(?i:fig(?:ure|\.)?|table|tab\.|figura|tabla|abb(?:ildung|\.)|tabelle|tableau|рис(?:унок|\.)|таблица|图|表|listing"
    r"|algorithm|exhibit|chart)\s*(?:[A-Z]?\.?\d{1,3}(?:[.-]\d{1,3})?|[IVX]{1,6}|[A-Z])\s*(?:[.:|)–—-]|\s[A-Z]|$)"
)
_MAX_INDENT = 12  # levels of a nested list


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that belong together."""

    kind: BlockKind
    lines: tuple[str, ...]  # of prose: joined later, when the document's words are known
    box: Box
    size: float
    bold: bool
    look: Look = PLAIN
    lead: str = ""  # the bold words that it begins with, where others follow on the same line
    ends_open: bool = False  # its last row fills the column and ends no sentence: what follows may go on with it


def pieces_of(rows: Sequence[Row], with_code: bool = True) -> list[Piece]:
    """The pieces of one region in order; `with_code` where a monospaced font sets code apart."""
    for at, row in enumerate(rows):
        if any(line.is_equation for line in row.lines):
            formula = Piece("equation", (row.text,), row.box, row.size, False)
            return [*pieces_of(rows[:at], with_code), formula, *pieces_of(rows[at + 1 :], with_code)]
    if not with_code:
        return _prose(rows)
    pieces: list[Piece] = []
    done = 0
    for start, end in code_runs(rows):
        pieces += _prose(rows[done:start])
        run = rows[start:end]
        box = enclosing(row.box for row in run)
        pieces.append(Piece("code", (render_rows_of_code(run),), box, run[0].size, False))
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
        elif _HYPHENATED.search(text[-2:]) and line[:1].islower():
            before = _NO_WORD.split(text.rsplit(" ", 1)[-1])[-1]
            after = re.match(r"\w*", line)
            rest = after[0] if after else ""
            whole, hyphenated = (before[:-1] + rest).lower(), (before + rest).lower()
            text = text + line if hyphenated in words and whole not in words else text[:-1] + line
        elif text.endswith("/") and "://" in text.rsplit(" ", 1)[-1]:
            text += line
        else:
            text = f"{text} {line}" if text else line
    return text.replace("\u00ad", "")


def words_of(rows: Sequence[Row]) -> set[str]:
    """The words of the rows in lower case, with inner hyphens; the last of a row only where it is whole."""
    return {word for row in rows for word in _WORD.findall(row.text.lower())}


def _is_caption(text: str) -> bool:
    """Whether the text begins as the caption of a figure or table does: "Figure 3:", "Table II."."""
    return _CAPTION.match(text) is not None


def whole_piece(kind: BlockKind, rows: Sequence[Row]) -> Piece:
    """All rows as one piece of a kind that is known."""
    return replace(_piece(kind, rows, 0.0), ends_open=False)


def begins_item(piece: Piece) -> bool:
    """Whether the text begins with the sign or number of a list's item."""
    return bool(_BULLET.match(piece.lines[0]) or _NUMBER.match(piece.lines[0]))


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
        pieces += _list(in_list, right)
        in_list = []
        pieces.append(_piece("caption" if _is_caption(group[0].text) else "paragraph", group, right))
    return pieces + _list(in_list, right)


def _begins_piece(group: Sequence[Row], row: Row, usual_gap: float, left: float, right: float) -> bool:
    above = group[-1]
    gap = row.box.y0 - above.box.y1
    if _marker(row) or (_is_caption(row.text) and (above.text.endswith(_SENTENCE_END) or gap > 0.3 * row.size)):
        return True
    if gap > max(usual_gap, 0.0) + 0.45 * row.size or gap < -3 * row.size:
        return True
    ends_short = above.box.x1 < right - 0.25 * (right - left)
    if abs(row.size - above.size) > 0.6:
        return True
    if row.bold != above.bold:
        # One bold row inside a paragraph does not end it; a change at its beginning does.
        return len(group) == 1 or row.bold
    if row.look != above.look and (ends_short or above.text.endswith(_SENTENCE_END)):
        return True
    if _marker(group[0]):
        return row.box.x0 < group[0].box.x0 - 1.0
    indented = row.box.x0 > above.box.x0 + 0.8 * row.size and len(group) > 1
    return (ends_short or indented) and above.text.endswith(_SENTENCE_END)


def _marker(row: Row) -> re.Match[str] | None:
    return _BULLET.match(row.text) or _NUMBER.match(row.text)


def _list(groups: Sequence[Sequence[Row]], right: float) -> list[Piece]:
    """The items as one list; a single numbered line is more often a heading or a footnote than a list."""
    if not groups:
        return []
    if len(groups) == 1 and not _BULLET.match(groups[0][0].text):
        return [_piece("paragraph", groups[0], right)]
    indents = _levels([group[0].box.x0 for group in groups])
    items: list[str] = []
    for group, level in zip(groups, indents, strict=True):
        lines = [row.text for row in group]
        items.append("\n".join(["  " * level + _BULLET.sub("- ", lines[0], count=1), *lines[1:]]))
    rows = [row for group in groups for row in group]
    box = enclosing(row.box for row in rows)
    return [Piece("list", tuple(items), box, rows[0].size, False, rows[0].look, ends_open=_is_open(rows[-1], right))]


def _levels(lefts: Sequence[float]) -> list[int]:
    """How deep each item of a list is nested, by where it begins."""
    places: list[float] = []
    for left in sorted(lefts):
        if not places or left - places[-1] > 6.0:
            places.append(left)
    return [min(sum(place < left - 3.0 for place in places), _MAX_INDENT) for left in lefts]


def _piece(kind: BlockKind, rows: Sequence[Row], right: float) -> Piece:
    box = enclosing(row.box for row in rows)
    longest = max(rows, key=lambda row: len(row.text))
    bold = all(row.bold for row in rows)
    return Piece(
        kind,
        tuple(row.text for row in rows),
        box,
        longest.size,
        bold,
        longest.look,
        rows[0].lines[0].lead if rows[0].lines else "",
        _is_open(rows[-1], right),
    )


def _is_open(row: Row, right: float) -> bool:
    return not row.text.endswith(_SENTENCE_END) and row.box.x1 > right - 3 * row.size
