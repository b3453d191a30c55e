"""Tables of contents: their entries say what the headings are called, and are no text of their own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rag.parse.pdf.headings import Outline, title_key
from rag.parse.pdf.reading_order import Row, group_rows, order_regions
from rag.parse.pdf.text_layer import Line

_LEADER = re.compile(r"(?P<title>.*?\S)?\s*(?:(?:[.·•…_]\s?){4,}|…{2,})\s*(?P<page>\d{1,4}|[ivxlc]{1,7})?")
_ENDS_IN_PAGE = re.compile(r"(?P<title>.*\S)\s+(?P<page>\d{1,4}|[ivxlc]{1,7})")
_NAMES = frozenset(
    ["contents", "tableofcontents", "listoffigures", "listoftables", "inhalt", "inhaltsverzeichnis", "índice",
     "tabladecontenido", "tabladecontenidos", "contenido", "contenidos", "sommaire", "tabledesmatières", "indice",
     "sommario", "содержание", "оглавление", "inhoud", "inhoudsopgave", "conteúdo", "目录", "目次", "목차"]
)  # fmt: skip
_MAX_NAME = 80  # characters, in which letters may be spaced out
_MIN_ENTRIES = 4  # on a page
_MIN_FOUND = 0.5  # share of the entries that come back as lines of their own


@dataclass(frozen=True, slots=True)
class Bookmark:
    """One entry of a PDF's outline."""

    level: int  # from 1
    title: str
    page: int  # from 1; 0 where it is not known


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a table of contents."""

    title: str
    level: int  # from 1, by its indentation


@dataclass(frozen=True, slots=True)
class Contents:
    """What the tables of contents of a document list, and the lines that are no text of the document."""

    entries: tuple[Entry, ...] = ()
    lines: Mapping[int, frozenset[int]] = field(default_factory=dict)  # places in a page's lines, by the page's place


def find_contents(pages: Sequence[Sequence[Line]]) -> Contents:
    """The tables of contents of a document, given each page's lines; nothing where its titles do not come back."""
    entries: list[Entry] = []
    dropped: dict[int, frozenset[int]] = {}
    is_open = False
    for at, lines in enumerate(pages):
        named = any(_is_name(line.text) for line in lines)
        if not (is_open or named or sum("...." in line.text or ". . . ." in line.text for line in lines) >= 3):
            continue
        listed, places = _read_page(lines, is_open or named)
        is_open = len(listed) >= _MIN_ENTRIES
        if is_open:
            entries += listed
            dropped[at] = places
    if not entries:
        return Contents()
    elsewhere = {
        title_key(line.text)
        for at, lines in enumerate(pages)
        for place, line in enumerate(lines)
        if place not in dropped.get(at, ())
    }
    found = sum(title_key(entry.title) in elsewhere for entry in entries)
    return Contents(tuple(entries), dropped) if found >= _MIN_FOUND * len(entries) else Contents()


def outline_of(contents: Contents, bookmarks: Sequence[Bookmark]) -> Outline:
    """The titles that a document lists itself, in its bookmarks and its contents."""
    places: dict[str, list[tuple[int, int]]] = {}
    entries = (Bookmark(entry.level, entry.title, 0) for entry in contents.entries)
    for bookmark in (*bookmarks, *entries):
        key = title_key(bookmark.title)
        if len(key) > 2 or (key and not key.isascii()):
            places.setdefault(key, []).append((bookmark.page, min(max(bookmark.level, 1), 6)))
    return Outline(places)


def _read_page(lines: Sequence[Line], named: bool) -> tuple[list[Entry], frozenset[int]]:
    """The entries of a page, and the places of all lines from the first to the last, with the heading above."""
    places = {id(line): place for place, line in enumerate(lines)}
    rows = [row for region in order_regions(lines) for row in group_rows(region)]
    found: list[tuple[int, str, float]] = []  # row, title, left
    for at, row in enumerate(rows):
        title = _title(row, named)
        if title is not None:
            left = row.box.x0
            before = found[-1][0] if found else at
            # The rows of a title that goes over several: they stand close above the one with the page.
            for above in reversed(range(max(before + 1, at - 2), at)):
                if rows[above + 1].box.y0 - rows[above].box.y1 < 0.6 * row.size and not _is_name(rows[above].text):
                    title = f"{rows[above].text} {title}".strip()
                    left = rows[above].box.x0
            found.append((at, title, left))
    if len(found) < _MIN_ENTRIES:
        return [], frozenset()
    first, last = found[0][0], found[-1][0]
    while first > 0 and (
        _is_name(rows[first - 1].text) or rows[first].box.y0 - rows[first - 1].box.y1 < 0.6 * rows[first].size
    ):
        first -= 1
    if len(found) < 0.5 * (last - first + 1):
        return [], frozenset()
    lefts = sorted({round(left / 4) for _, _, left in found})
    distinct = [left for at, left in enumerate(lefts) if not at or left - lefts[at - 1] > 1]
    entries = [
        Entry(title, 1 + sum(place < round(left / 4) - 1 for place in distinct)) for _, title, left in found if title
    ]
    held = frozenset(places[id(line)] for row in rows[first : last + 1] for line in row.lines)
    return entries, held


def _title(row: Row, named: bool) -> str | None:
    """The title of an entry, without leader and page; None for a row that is no entry."""
    text = row.text
    if match := _LEADER.fullmatch(text):
        return match["title"] or ""
    if named and (match := _ENDS_IN_PAGE.fullmatch(text)) and not match["title"].endswith((".", ",")):
        apart = len(row.lines) > 1 and row.lines[-1].box.x0 - row.lines[-2].box.x1 > row.size
        return match["title"] if apart or "  " in text else None
    return None


def _is_name(text: str) -> bool:
    return len(text) <= _MAX_NAME and title_key(text) in _NAMES
