"""PDF -> blocks from its text layer, each with its page and box. Pages without a text layer are left to OCR."""

import re
from collections.abc import Iterator

import pymupdf

from rag.config import ParseConfig
from rag.data import Block, Box, RawDocument, Region
from rag.errors import ParseError
from rag.parse.content import ParsedContent
from rag.parse.pdf.headings import heading_levels
from rag.parse.pdf.layout import Piece, join_lines, pieces_of, words_of
from rag.parse.pdf.reading_order import group_rows, order_regions
from rag.parse.pdf.rulings import ruled_tables
from rag.parse.pdf.running import drop_running_lines
from rag.parse.pdf.text_layer import Line, PageText, enclosing, read_page

_NO_TITLE = re.compile(
    r"(?i)^(untitled.*|.*document\d*|microsoft (word|powerpoint|excel) - .*|\(?anonymous\)?|[\W\d_]*|\S*\d{6,}\S*"
    r"|[\w .-]*\.(docx?|pdf|pptx?|xlsx?|tex|dvi|indd|txt))$"
)
_MAX_UNMAPPED = 0.3  # share of U+FFFD above which a text layer says nothing

pymupdf.TOOLS.mupdf_display_errors(False)  # a damaged file is reported by ParseError, not on stderr
pymupdf.TOOLS.mupdf_display_warnings(False)


def parse_pdf(raw: RawDocument, config: ParseConfig) -> ParsedContent:
    """The blocks of the text layer in reading order, without running headers and footers.

    Raises ParseError for a file that is encrypted, damaged or too long, and for one without a text layer.
    """
    uri = raw.metadata.uri
    with _open(uri, raw.content) as pdf:
        num_pages = _num_pages(uri, pdf, config.max_pages)
        pages: list[PageText] = []
        tables: list[list[tuple[Box, str]]] = []
        for number in range(1, num_pages + 1):
            try:
                page = pdf.load_page(number - 1)
                text = read_page(page, number)
                pages.append(text)
                tables.append(ruled_tables(page, text.to_reading) if text.lines else [])
            except Exception as error:  # MuPDF raises its own classes, RuntimeError and ValueError alike
                raise ParseError(uri, f"page {number} of {num_pages} is damaged: {error}") from error
        if reason := _no_text_reason(pdf, pages, config.min_page_characters):
            raise ParseError(uri, reason)
        about: dict[str, str | None] = dict(pdf.metadata or {})
    title = " ".join((about.get("title") or "").split())
    fields: dict[str, object] = {"updated_at": about.get("modDate") or about.get("creationDate")}
    return ParsedContent(
        tuple(_blocks(pages, tables)), "" if _NO_TITLE.match(title) else title, fields, num_pages=num_pages
    )


def _open(uri: str, content: bytes) -> pymupdf.Document:
    try:
        pdf = pymupdf.open(stream=content, filetype="pdf")
    except Exception as error:  # FileDataError, EmptyFileError and mupdf's own errors share no base
        raise ParseError(uri, f"damaged: not readable as a PDF ({error})") from error
    if pdf.needs_pass:
        pdf.close()
        raise ParseError(uri, "encrypted: needs a password")
    return pdf


def _num_pages(uri: str, pdf: pymupdf.Document, max_pages: int) -> int:
    try:
        num_pages = int(pdf.page_count)
    except Exception as error:  # as above
        raise ParseError(uri, f"damaged: its page tree can't be read ({error})") from error
    if not num_pages:
        raise ParseError(uri, "damaged: the PDF has no pages, or is cut off")
    if num_pages > max_pages:
        raise ParseError(uri, f"too long: {num_pages:,} pages, the limit is {max_pages:,}")
    return num_pages


def _no_text_reason(pdf: pymupdf.Document, pages: list[PageText], min_characters: int) -> str:
    """Why the text layer is of no use; "" where it is."""
    texts = ["".join(line.text for line in (*page.lines, *page.turned)) for page in pages]
    if all(len(text.replace(" ", "")) < max(min_characters, 1) for text in texts):
        if any(pdf.get_page_images(at) for at in range(len(pages))):
            return f"scanned: no text layer on any of {len(pages)} pages; OCR comes with the parsing work"
        return f"blank: no text and no image on any of {len(pages)} pages"
    characters = "".join(texts)
    if characters.count("\ufffd") > _MAX_UNMAPPED * len(characters):
        return "unreadable: the fonts do not say which characters they draw; needs OCR"
    return ""


def _blocks(pages: list[PageText], tables: list[list[tuple[Box, str]]]) -> Iterator[Block]:
    placed: list[tuple[PageText, Piece]] = []
    words: set[str] = set()
    for page, lines, ruled in zip(pages, drop_running_lines(pages), tables, strict=True):
        for region in _regions(page, lines, ruled):
            if isinstance(region, Piece):
                placed.append((page, region))
            else:
                rows = group_rows(region)
                words |= words_of(rows)
                placed += ((page, piece) for piece in pieces_of(rows))
        for line in page.turned:
            placed.append((page, Piece("paragraph", (line.text,), line.box, 0.0, False)))
    levels = heading_levels([piece for _, piece in placed])
    for (page, piece), level in zip(placed, levels, strict=True):
        place = Region(page.number, _rounded(page.display_box(piece.box)))
        if piece.kind == "table":
            yield Block("table", piece.lines[0], region=place)
        elif piece.kind == "list":
            items = [join_lines(item.split("\n"), words) for item in piece.lines]
            yield Block("list", "\n".join(items), region=place)
        else:
            yield Block("heading" if level else "paragraph", join_lines(piece.lines, words), level, place)


def _regions(page: PageText, lines: tuple[Line, ...], ruled: list[tuple[Box, str]]) -> Iterator[list[Line] | Piece]:
    """The regions of the page in reading order, a ruled table standing for all lines inside it."""
    outside = [line for line in lines if not any(_inside(line.box, box) for box, _ in ruled)]
    waiting = sorted(ruled, key=lambda table: (table[0].y0, table[0].x0))
    for region in order_regions(outside):
        frame = enclosing([line.box for line in region])
        # A table belongs to the first region that it lies across or above, and parts it there.
        for table in list(waiting):
            box, text = table
            if box.x1 > frame.x0 and box.x0 < frame.x1 and box.y0 < frame.y1:
                waiting.remove(table)
                above = [line for line in region if line.box.y0 < box.y0]
                region = [line for line in region if line.box.y0 >= box.y0]
                if above:
                    yield above
                yield Piece("table", (text,), box, 0.0, False)
        if region:
            yield region
    for box, text in waiting:
        yield Piece("table", (text,), box, 0.0, False)


def _inside(inner: Box, outer: Box) -> bool:
    x, y = (inner.x0 + inner.x1) / 2, (inner.y0 + inner.y1) / 2
    return outer.x0 <= x <= outer.x1 and outer.y0 <= y <= outer.y1


def _rounded(box: Box) -> Box:
    """To a hundredth of a point: no highlight needs more, and equal files give equal bytes on every machine."""
    return Box(round(box.x0, 2), round(box.y0, 2), round(box.x1, 2), round(box.y1, 2))
