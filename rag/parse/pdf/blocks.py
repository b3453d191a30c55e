"""Pages of lines and tables -> the blocks of a document: regions, pieces, headings, and what goes on elsewhere."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rag.data import Block, BlockKind, Box, Region
from rag.parse.pdf.code import without_code
from rag.parse.pdf.contents import Bookmark, Contents, find_contents, outline_of
from rag.parse.pdf.continued import join_continued
from rag.parse.pdf.detected import DetectedRegion
from rag.parse.pdf.headings import body_of, heading_levels, split_run_in
from rag.parse.pdf.layout import Piece, begins_item, join_lines, pieces_of, whole_piece, words_of
from rag.parse.pdf.reading_order import group_rows, order_regions, with_initials
from rag.parse.pdf.running import Parted, part_margins
from rag.parse.pdf.tables import FoundTable
from rag.parse.pdf.text_layer import Line, PageText, count_characters, enclosing
from rag.parse.table import render

_FOOTNOTE_SIZE = 0.93  # of the body's size, at most
_FOOTNOTE = re.compile(r"(?:\(?\d{1,3}[.)]?|[*†‡§¶#]{1,3}|[¹²³⁴⁵⁶⁷⁸⁹⁰]+)\s?\S")
_IN_MARGINS = frozenset({"header", "footer", "footnote"})
_LOST = Piece("figure", ("",), Box(0.0, 0.0, 0.0, 0.0), 0.0, False)  # no sentence goes on over a page that is lost
_MONOSPACED_SHARE = 0.5  # of a document's text: it is set in a monospaced font, which then marks no code


@dataclass(frozen=True, slots=True)
class Text:
    """The pages of a document, with what is no text of their own set apart."""

    pages: tuple[PageText, ...]
    margins: tuple[Parted, ...]
    bodies: tuple[tuple[Line, ...], ...]  # of each page: neither margins nor contents
    contents: Contents
    has_code: bool  # a monospaced font sets code apart

    def for_tables(self, at: int) -> PageText:
        """The page at that place with the lines that a table may be made of; all others count as turned."""
        page, body = self.pages[at], self.bodies[at]
        held = without_code(body) if self.has_code else body
        kept = set(map(id, held))
        left_out = tuple(line for line in page.lines if id(line) not in kept)
        return replace(page, lines=held, turned=(*page.turned, *left_out))

    def num_repeated(self, at: int) -> int:
        """The characters of a page that were left out: running headers and footers, and contents."""
        margins = self.margins[at]
        return count_characters(margins.repeated) + count_characters(margins.body) - count_characters(self.bodies[at])


def text_of(pages: Sequence[PageText]) -> Text:
    """The text of a document's pages."""
    margins = part_margins(pages)
    contents = find_contents([parted.body for parted in margins])
    bodies = [
        tuple(line for place, line in enumerate(parted.body) if place not in contents.lines.get(at, ()))
        for at, parted in enumerate(margins)
    ]
    return Text(tuple(pages), tuple(margins), tuple(bodies), contents, not _is_monospaced(bodies))


@dataclass(frozen=True, slots=True)
class _Placed:
    page: PageText
    piece: Piece


def blocks_of(
    text: Text,
    tables: Sequence[Sequence[FoundTable]],
    bookmarks: Sequence[Bookmark],
    detected: Mapping[int, Sequence[DetectedRegion]] | None = None,
    lost: Container[int] = (),
) -> list[Block]:
    """The blocks in reading order, given each page's tables and the entries of the document's outline.

    `detected` holds the regions of the pages that a detector saw, by their place among the pages. Each page that is
    lost, told by its number, is a figure that says nothing.
    """
    detected = detected or {}
    placed: list[_Placed] = []
    words: set[str] = set()
    joined = join_continued(list(zip(text.bodies, tables, strict=True)))
    for at, (page, margins, lines, found) in enumerate(zip(text.pages, text.margins, text.bodies, joined, strict=True)):
        if page.number in lost:
            placed.append(_Placed(page, _LOST))
            continue
        placed += (_Placed(page, _marginal("header", line)) for line in (*margins.stamps, *margins.header))
        regions = detected[at] if at in detected else _by_rules(with_initials(lines))
        for region in _with_tables(regions, found):
            if isinstance(region, Piece):
                placed.append(_Placed(page, region))
                continue
            rows = group_rows(region.lines)
            words |= words_of(rows)
            if region.kind is not None:
                placed.append(_Placed(page, whole_piece(region.kind, rows)))
            else:
                placed += (_Placed(page, piece) for piece in pieces_of(rows, text.has_code))
        placed += (_Placed(page, _marginal("paragraph", line)) for line in margins.turned)
        placed += (_Placed(page, _marginal("footer", line)) for line in margins.footer)
    outline = outline_of(text.contents, bookmarks)
    placed = [_Placed(item.page, piece) for item in placed for piece in split_run_in(item.piece, outline)]
    body = body_of([item.piece for item in placed])
    placed = [part for item in placed for part in (_footnotes(item) if _is_footnote(item, body.size) else (item,))]
    levels = heading_levels([item.piece for item in placed], [item.page.number for item in placed], outline)
    return list(_blocks(*_with_whole_headings(placed, levels), words))


def _is_footnote(item: _Placed, usual: float) -> bool:
    """Whether small text with a footnote's sign stands in the lower part of a page."""
    piece, frame = item.piece, item.page.frame
    if piece.kind not in ("paragraph", "list") or not 0 < piece.size <= _FOOTNOTE_SIZE * usual:
        return False
    return piece.box.y0 > (frame.y0 + frame.y1) / 2 and _FOOTNOTE.match(piece.lines[0]) is not None


def _footnotes(item: _Placed) -> list[_Placed]:
    """The piece as footnotes, one for each item of a list."""
    piece = replace(item.piece, kind="footnote", ends_open=False)
    if item.piece.kind != "list":
        return [replace(item, piece=piece)]
    return [replace(item, piece=replace(piece, lines=tuple(entry.strip().split("\n")))) for entry in piece.lines]


def _with_whole_headings(placed: Sequence[_Placed], levels: Sequence[int]) -> tuple[list[_Placed], list[int]]:
    """The same with headings that go over several regions of a page put together."""
    whole: list[_Placed] = []
    kept: list[int] = []
    for item, level in zip(placed, levels, strict=True):
        if level and kept and kept[-1] == level and _continues_heading(whole[-1], item):
            first, second = whole[-1].piece, item.piece
            lines = (*first.lines, *second.lines)
            whole[-1] = _Placed(item.page, replace(first, lines=lines, box=enclosing([first.box, second.box])))
        else:
            whole.append(item)
            kept.append(level)
    return whole, kept


def _continues_heading(above: _Placed, below: _Placed) -> bool:
    first, second = above.piece, below.piece
    if above.page is not below.page or first.look != second.look or abs(first.size - second.size) > 0.6:
        return False
    gap = second.box.y0 - first.box.y1
    starts_small = second.lines[0][:1].islower() or second.lines[0][:1] in "(&"
    return -0.5 * first.size < gap < 0.4 * first.size and (starts_small or first.size > 14) and not begins_item(second)


def _marginal(kind: BlockKind, line: Line) -> Piece:
    return Piece(kind, (line.text,), line.box, 0.0, False)


def _is_monospaced(pages: Sequence[Sequence[Line]]) -> bool:
    lines = [line for page in pages for line in page]
    held = sum(len(line.text) for line in lines if line.monospaced)
    return held > _MONOSPACED_SHARE * count_characters(lines)


def _blocks(placed: Sequence[_Placed], levels: Sequence[int], words: set[str]) -> Iterator[Block]:
    """The blocks; a paragraph or a listing that goes on in the next column or on the next page is one.

    What the page's margins hold between two parts comes after the whole; a figure, its caption or a table parts them.
    """
    open_block: Block | None = None  # may go on
    between: list[Block] = []  # what stands before it does
    for item, level in zip(placed, levels, strict=True):
        piece = item.piece
        text = _text(piece, words)
        kind = "heading" if level else piece.kind
        place = Region(item.page.number, _rounded(item.page.display_box(piece.box)))
        block = Block(kind, " ".join(text.split()) if level else text, level, place)
        is_open = kind == "code" or (kind == "paragraph" and piece.ends_open)
        if open_block is not None:
            if kind in _IN_MARGINS:
                between.append(block)
                continue
            if open_block.kind == kind == "code":
                open_block = replace(open_block, text=_joined_code(open_block.text, text))
                continue
            if open_block.kind == kind and piece.size and _goes_on(text):
                block = replace(open_block, text=join_lines((open_block.text, text), words))
            else:
                yield open_block
                yield from between
                between = []
            open_block = None
        if is_open:
            open_block = block
            continue
        yield block
        yield from between
        between = []
    if open_block is not None:
        yield open_block
    yield from between


def _joined_code(first: str, second: str) -> str:
    """Two listings between fences as one."""
    fence = max(first.split("\n", 1)[0], second.split("\n", 1)[0], key=len)
    return "\n".join([fence, *first.split("\n")[1:-1], *second.split("\n")[1:-1], fence])


def _text(piece: Piece, words: set[str]) -> str:
    if piece.kind in ("table", "code", "equation"):
        return piece.lines[0]
    if piece.kind == "list":
        return "\n".join(_item(item, words) for item in piece.lines)
    return join_lines(piece.lines, words)


def _item(item: str, words: set[str]) -> str:
    first, *rest = item.split("\n")
    indent = first[: len(first) - len(first.lstrip())]
    return indent + join_lines([first.lstrip(), *rest], words)


def _goes_on(text: str) -> bool:
    """Whether the text can be the rest of a sentence."""
    first = text[:1]
    # Letters without case, as in Korean or Arabic, say nothing against it.
    return first in "([,;" or (first.isalpha() and not first.isupper())


def _by_rules(lines: Sequence[Line]) -> list[DetectedRegion]:
    return [
        DetectedRegion(tuple(region), None, enclosing(line.box for line in region)) for region in order_regions(lines)
    ]


def _with_tables(regions: Sequence[DetectedRegion], tables: Sequence[FoundTable]) -> Iterator[DetectedRegion | Piece]:
    """The regions of a page in reading order, a table standing for all lines inside it."""
    waiting = sorted(tables, key=lambda table: (table.box.y0, table.box.x0))
    for region in regions:
        lines = [line for line in region.lines if not any(_inside(line.box, table.box) for table in tables)]
        frame = region.box
        # A table belongs to the first region that it lies across or above, and parts it there.
        for table in list(waiting):
            box = table.box
            if box.x1 > frame.x0 and box.x0 < frame.x1 and box.y0 < frame.y1:
                waiting.remove(table)
                above = [line for line in lines if line.box.y0 < box.y0]
                lines = [line for line in lines if line.box.y0 >= box.y0]
                if above:
                    yield replace(region, lines=tuple(above))
                if not table.is_continued:
                    yield _table_piece(table)
        if lines:
            yield replace(region, lines=tuple(lines))
    yield from (_table_piece(table) for table in waiting if not table.is_continued)


def _table_piece(table: FoundTable) -> Piece:
    return Piece("table", (render(table.table),), table.box, 0.0, False)


def _inside(inner: Box, outer: Box) -> bool:
    x, y = (inner.x0 + inner.x1) / 2, (inner.y0 + inner.y1) / 2
    return outer.x0 <= x <= outer.x1 and outer.y0 <= y <= outer.y1


def _rounded(box: Box) -> Box:
    """To a hundredth of a point: no highlight needs more, and equal files give equal bytes on every machine."""
    return Box(round(box.x0, 2), round(box.y0, 2), round(box.x1, 2), round(box.y1, 2))
