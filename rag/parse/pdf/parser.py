"""PDF -> blocks, each with its page and box: every page by its own route, the document as one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pymupdf

from rag.config import ParseConfig
from rag.data import RawDocument
from rag.errors import ParseError
from rag.parse.content import ParsedContent
from rag.parse.figures import FigureReader
from rag.parse.ocr.page import OcrReader
from rag.parse.pages import PageWork
from rag.parse.pdf.blocks import Text, blocks_of, text_of
from rag.parse.pdf.detected import DetectedRegion, PageDetector, detect
from rag.parse.pdf.equations import with_equations
from rag.parse.pdf.figures import FoundFigure, find_figures, with_figures
from rag.parse.pdf.opening import bookmarks, count_pages, open_pdf
from rag.parse.pdf.routing import Route, needs_layout, report_of, route_of
from rag.parse.pdf.tables import FoundTable, find_tables
from rag.parse.pdf.text_layer import PageText, read_page, unread_page

_NO_TITLE = re.compile(
    r"(?i)^(untitled.*|.*document\d*|microsoft (word|powerpoint|excel) - .*|\(?anonymous\)?|[\W\d_]*|\S*\d{6,}\S*"
    r"|[\w .-]*\.(docx?|pdf|pptx?|xlsx?|tex|dvi|indd|txt))$"
)


@dataclass(frozen=True, slots=True)
class _Laid:
    """What is on a page beside its running text."""

    route: Route
    tables: list[FoundTable]
    regions: tuple[DetectedRegion, ...] | None  # None where no detector looked
    figures: list[FoundFigure]
    pictures: dict[str, str]  # all that were read so far, where some may be on this page


def parse_pdf(
    raw: RawDocument,
    config: ParseConfig,
    ocr: OcrReader | None = None,
    detector: PageDetector | None = None,
    work: PageWork | None = None,
) -> ParsedContent:
    """The blocks in reading order, without running headers and footers, and how each page was read.

    Raises ParseError for a file that is encrypted, damaged or too long, for one in which no page has text, and where
    `work` loses too many pages.
    """
    uri = raw.metadata.uri
    work = work or PageWork(uri, config.max_lost_pages)
    with open_pdf(uri, raw.content, config.passwords) as pdf:
        num_pages = count_pages(uri, pdf, config.max_pages)
        pages, routes = _read_pages(pdf, num_pages, config, ocr, work)
        text = text_of(pages)
        laid = _lay_pages(pdf, text, routes, config, ocr, detector, work)
        if reason := _no_text_reason(pages, [on_page.route for on_page in laid], recognized=ocr is not None):
            raise ParseError(uri, f"{reason}; lost are {work.lost_in_words}" if work.lost else reason)
        outline = bookmarks(pdf)
        about: dict[str, str | None] = dict(pdf.metadata or {})
    detected = {at: on_page.regions for at, on_page in enumerate(laid) if on_page.regions is not None}
    blocks = blocks_of(text, [on_page.tables for on_page in laid], outline, detected, work.lost)
    reports = tuple(
        report_of(page, on_page.route, text.num_repeated(at))
        for at, (page, on_page) in enumerate(zip(pages, laid, strict=True))
    )
    title = " ".join((about.get("title") or "").split())
    fields: dict[str, object] = {"updated_at": about.get("modDate") or about.get("creationDate")}
    return ParsedContent(
        tuple(with_figures(blocks, [figure for on_page in laid for figure in on_page.figures])),
        "" if _NO_TITLE.match(title) else title,
        fields,
        num_pages=num_pages,
        pages=reports,
        flags=("hidden_text",) if any(report.num_hidden for report in reports) else (),
    )


def _read_pages(
    pdf: pymupdf.Document, num_pages: int, config: ParseConfig, ocr: OcrReader | None, work: PageWork
) -> tuple[list[PageText], list[Route]]:
    """The text of every page, none where the page is lost, and how it was read."""

    def read(at: int) -> tuple[PageText, Route]:
        page, number = pdf.load_page(at), at + 1
        text = read_page(page, number)
        route = route_of(text, config.min_page_characters)
        if route.name == "ocr" and ocr is not None:
            text = ocr.read_page(page, number)
        elif text.lines:
            text = with_equations(page, text)
        return text, route

    pages: list[PageText] = []
    routes: list[Route] = []
    for number, found in enumerate(work.each_page("read", num_pages, read), start=1):
        text, route = found or (unread_page(number), Route("lost", work.lost[number]))
        pages.append(text)
        routes.append(route)
    return pages, routes


def _lay_pages(
    pdf: pymupdf.Document,
    text: Text,
    routes: Sequence[Route],
    config: ParseConfig,
    ocr: OcrReader | None,
    detector: PageDetector | None,
    work: PageWork,
) -> list[_Laid]:
    """What is on every page beside its running text, which is told apart once all text was read: what repeats and what
    is code is no table, and nothing to be detected."""
    reader = FigureReader(ocr, config.max_figures)

    def lay(at: int) -> _Laid:
        page, route = pdf.load_page(at), routes[at]
        held = text.for_tables(at)
        tables = find_tables(page, held) if held.lines else []
        body = replace(text.pages[at], lines=text.bodies[at])
        regions = None
        if detector is not None and route.name == "text" and body.lines:
            reason = "every page is to be detected" if config.detector_pages == "all" else needs_layout(body)
            if reason:
                regions, route = detect(detector, page, body), Route("layout", reason)
        figures = find_figures(page, text.pages[at], reader) if route.name != "ocr" else []
        return _Laid(route, tables, regions, figures, dict(reader.texts) if figures else {})

    laid: list[_Laid] = []
    for number, found in enumerate(work.each_page("lay", len(text.pages), lay), start=1):
        on_page = found or _Laid(Route("lost", work.lost[number]), [], None, [], {})
        reader.texts |= on_page.pictures  # they may have been read by another process
        laid.append(on_page)
    return laid


def _no_text_reason(pages: Sequence[PageText], routes: Sequence[Route], recognized: bool) -> str:
    """Why no page has text; "" where one has. `recognized`: the pages that need OCR went through it."""
    unreadable = ("lost",) if recognized else ("lost", "ocr")
    if any(page.num_characters and route.name not in unreadable for page, route in zip(pages, routes, strict=True)):
        return ""
    unread = [route.reason for route in routes if route.name == "ocr"]
    if not unread:
        return f"blank: no text and no image on any of {len(pages)} pages"
    if any("fonts" in reason or "gibberish" in reason for reason in unread):
        return f"unreadable: {unread[0]}; {'OCR found no text either' if recognized else 'needs OCR'}"
    missing = "OCR found no text" if recognized else "needs OCR"
    return f"scanned: no text layer on any of {len(pages)} pages; {missing}"
