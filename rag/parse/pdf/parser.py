"""PDF -> blocks, each with its page and box: every page by its own route, the document as one."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pymupdf

from rag.config import ParseConfig
from rag.data import RawDocument
from rag.errors import ParseError, RagError
from rag.parse.content import ParsedContent
from rag.parse.figures import FigureReader
from rag.parse.ocr.page import OcrReader
from rag.parse.pdf.blocks import Text, blocks_of, text_of
from rag.parse.pdf.detected import DetectedRegion, PageDetector, detect
from rag.parse.pdf.equations import with_equations
from rag.parse.pdf.figures import find_figures, with_figures
from rag.parse.pdf.opening import bookmarks, count_pages, open_pdf
from rag.parse.pdf.routing import Route, needs_layout, report_of, route_of
from rag.parse.pdf.tables import FoundTable, find_tables
from rag.parse.pdf.text_layer import PageText, read_page

_NO_TITLE = re.compile(
    r"(?i)^(untitled.*|.*document\d*|microsoft (word|powerpoint|excel) - .*|\(?anonymous\)?|[\W\d_]*|\S*\d{6,}\S*"
    r"|[\w .-]*\.(docx?|pdf|pptx?|xlsx?|tex|dvi|indd|txt))$"
)


def parse_pdf(
    raw: RawDocument, config: ParseConfig, ocr: OcrReader | None = None, detector: PageDetector | None = None
) -> ParsedContent:
    """The blocks in reading order, without running headers and footers, and how each page was read.

    Raises ParseError for a file that is encrypted, damaged or too long, and for one in which no page has text.
    """
    uri = raw.metadata.uri
    with open_pdf(uri, raw.content, config.passwords) as pdf:
        num_pages = count_pages(uri, pdf, config.max_pages)
        pages, routes = _read_pages(uri, pdf, num_pages, config, ocr)
        text = text_of(pages)
        tables = _find_tables(uri, pdf, text)
        detected = _detect(pdf, text, routes, detector, config.detector_pages == "all") if detector else {}
        reader = FigureReader(ocr, config.max_figures)
        figures = find_figures(pdf, pages, [route.name for route in routes], reader)
        if reason := _no_text_reason(pages, routes, recognized=ocr is not None):
            raise ParseError(uri, reason)
        outline = bookmarks(pdf)
        about: dict[str, str | None] = dict(pdf.metadata or {})
    blocks = with_figures(blocks_of(text, tables, outline, detected), figures)
    reports = tuple(
        report_of(page, route, text.num_repeated(at))
        for at, (page, route) in enumerate(zip(pages, routes, strict=True))
    )
    title = " ".join((about.get("title") or "").split())
    fields: dict[str, object] = {"updated_at": about.get("modDate") or about.get("creationDate")}
    return ParsedContent(
        tuple(blocks),
        "" if _NO_TITLE.match(title) else title,
        fields,
        num_pages=num_pages,
        pages=reports,
        flags=("hidden_text",) if any(report.num_hidden for report in reports) else (),
    )


def _read_pages(
    uri: str, pdf: pymupdf.Document, num_pages: int, config: ParseConfig, ocr: OcrReader | None
) -> tuple[list[PageText], list[Route]]:
    pages: list[PageText] = []
    routes: list[Route] = []
    for number in range(1, num_pages + 1):
        try:
            page = pdf.load_page(number - 1)
            text = read_page(page, number)
            route = route_of(text, config.min_page_characters)
            if route.name == "ocr" and ocr is not None:
                text = ocr.read_page(page, number)
            elif text.lines:
                text = with_equations(page, text)
        except RagError:  # OCR is not there
            raise
        except Exception as error:  # MuPDF raises its own classes, RuntimeError and ValueError alike
            raise ParseError(uri, f"page {number} of {num_pages} is damaged: {error}") from error
        pages.append(text)
        routes.append(route)
    return pages, routes


def _find_tables(uri: str, pdf: pymupdf.Document, text: Text) -> list[list[FoundTable]]:
    """The tables of every page. They come after all text was read: what repeats and what is code is no table."""
    tables: list[list[FoundTable]] = []
    for at, page in enumerate(text.pages):
        held = text.for_tables(at)
        try:
            tables.append(find_tables(pdf.load_page(at), held) if held.lines else [])
        except Exception as error:  # as above
            raise ParseError(uri, f"page {page.number} of {len(text.pages)} is damaged: {error}") from error
    return tables


def _detect(
    pdf: pymupdf.Document, text: Text, routes: list[Route], detector: PageDetector, every_page: bool
) -> dict[int, tuple[DetectedRegion, ...]]:
    """The regions of the pages that go to the detector, by place; their routes are changed to say so."""
    detected: dict[int, tuple[DetectedRegion, ...]] = {}
    for at, page in enumerate(text.pages):
        held = replace(page, lines=text.bodies[at])
        reason = "every page is to be detected" if every_page else needs_layout(held)
        if routes[at].name == "text" and reason and held.lines:
            detected[at] = detect(detector, pdf.load_page(at), held)
            routes[at] = Route("layout", reason)
    return detected


def _no_text_reason(pages: Sequence[PageText], routes: Sequence[Route], recognized: bool) -> str:
    """Why no page has text; "" where one has. `recognized`: the pages that need OCR went through it."""
    if any(
        page.num_characters and (recognized or route.name != "ocr") for page, route in zip(pages, routes, strict=True)
    ):
        return ""
    unread = [route.reason for route in routes if route.name == "ocr"]
    if not unread:
        return f"blank: no text and no image on any of {len(pages)} pages"
    if any("fonts" in reason or "gibberish" in reason for reason in unread):
        return f"unreadable: {unread[0]}; {'OCR found no text either' if recognized else 'needs OCR'}"
    missing = "OCR found no text" if recognized else "needs OCR"
    return f"scanned: no text layer on any of {len(pages)} pages; {missing}"
