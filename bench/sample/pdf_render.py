"""Draws a sheet as a PDF; the same sheet gives the same bytes."""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from typing import Any  # flowables and canvases of reportlab, which has no types of its own

import pymupdf
from reportlab.graphics.charts.legends import Legend
from reportlab.graphics.charts.lineplots import LinePlot
from reportlab.graphics.shapes import Drawing, String
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.platypus import BaseDocTemplate, Frame, ListFlowable, NextPageTemplate, PageTemplate, Spacer, Table
from reportlab.platypus import PageBreak as PageBreakFlowable
from reportlab.platypus import Paragraph as ParagraphFlowable

from bench.sample.pdf_blocks import Block, Bullets, Chart, Fields, Grid, Heading, PageBreak, Paragraph, Sheet

WIDTH, HEIGHT = A4
MARGIN = 22 * mm
GUTTER = 8 * mm
TITLE_HEIGHT = 24 * mm
SCAN_DPI = 110

BODY = ParagraphStyle("body", fontName="Helvetica", fontSize=10, leading=14, spaceAfter=6)
CELL = ParagraphStyle("cell", parent=BODY, fontSize=9, leading=11, spaceAfter=0)
HEAD_CELL = ParagraphStyle("head cell", parent=CELL, fontName="Helvetica-Bold")
LABEL = ParagraphStyle("label", parent=CELL, fontSize=7, leading=9, textColor=colors.dimgray)
CAPTION = ParagraphStyle("caption", parent=BODY, fontName="Helvetica-Oblique", fontSize=9, leading=11, spaceAfter=10)
TITLE = ParagraphStyle("title", fontName="Helvetica-Bold", fontSize=18, leading=22, spaceAfter=10)
HEADINGS = {
    1: ParagraphStyle(
        "h1", keepWithNext=1, fontName="Helvetica-Bold", fontSize=15, leading=19, spaceBefore=10, spaceAfter=6
    ),
    2: ParagraphStyle(
        "h2", keepWithNext=1, fontName="Helvetica-Bold", fontSize=12, leading=15, spaceBefore=8, spaceAfter=4
    ),
    3: ParagraphStyle(
        "h3", keepWithNext=1, fontName="Helvetica-BoldOblique", fontSize=10, leading=13, spaceBefore=6, spaceAfter=3
    ),
}
LINE_COLOURS = (colors.steelblue, colors.seagreen, colors.firebrick)


def render_pdf(sheet: Sheet) -> bytes:
    """The finished PDF of a sheet; a scanned sheet comes back as pictures of its pages, without text."""
    drawn = _draw(sheet)
    return _photograph(drawn, sheet) if sheet.scanned else drawn


def _draw(sheet: Sheet) -> bytes:
    buffer = io.BytesIO()
    document = BaseDocTemplate(
        buffer, pagesize=A4, invariant=1, title=sheet.title, author=sheet.author, creator="quire sample"
    )
    document.addPageTemplates(_page_templates(sheet))
    story: list[Any] = [ParagraphFlowable(_escape(sheet.title), TITLE)]
    if sheet.columns == 2:
        story.append(NextPageTemplate("later"))
    for block in sheet.blocks:
        story.extend(_flowables(block))
    document.build(story)
    return buffer.getvalue()


def _page_templates(sheet: Sheet) -> list[Any]:
    """The layouts of a sheet's pages: one frame, or on two columns a first page with room for the title above."""
    height = HEIGHT - 2 * MARGIN
    decorate = partial(_decorate, sheet)
    if sheet.columns == 1:
        frame = Frame(MARGIN, MARGIN, WIDTH - 2 * MARGIN, height)
        return [PageTemplate("page", [frame], onPage=decorate)]
    title = Frame(MARGIN, HEIGHT - MARGIN - TITLE_HEIGHT, WIDTH - 2 * MARGIN, TITLE_HEIGHT)
    first = PageTemplate("first", [title, *_columns(height - TITLE_HEIGHT)], onPage=decorate)
    return [first, PageTemplate("later", _columns(height), onPage=decorate)]


def _columns(height: float) -> list[Any]:
    width = (WIDTH - 2 * MARGIN - GUTTER) / 2
    return [Frame(MARGIN + column * (width + GUTTER), MARGIN, width, height) for column in (0, 1)]


def _decorate(sheet: Sheet, canvas: Any, _document: Any) -> None:
    """Writes the running header and footer, and the creation date into the metadata."""
    canvas.setDateFormatter(_date_formatter(sheet.created))
    canvas.setFont("Helvetica", 8)
    if sheet.header:
        canvas.drawString(MARGIN, HEIGHT - 14 * mm, sheet.header)
        canvas.line(MARGIN, HEIGHT - 15.5 * mm, WIDTH - MARGIN, HEIGHT - 15.5 * mm)
    if sheet.footer:
        canvas.drawString(MARGIN, 13 * mm, sheet.footer)
    if sheet.header or sheet.footer:
        canvas.drawRightString(WIDTH - MARGIN, 13 * mm, f"Page {canvas.getPageNumber()}")


def _date_formatter(created: date) -> Callable[..., str]:
    """What reportlab calls for a date; the clock fields that it passes are not read."""
    return lambda *_clock: f"D:{created:%Y%m%d}090000+00'00'"


def _flowables(block: Block) -> Iterator[Any]:
    match block:
        case Heading(level, text):
            yield ParagraphFlowable(_escape(text), HEADINGS[level])
        case Paragraph(text):
            yield ParagraphFlowable(_escape(text), BODY)
        case Bullets(items, numbered):
            lines = [ParagraphFlowable(_escape(item), BODY) for item in items]
            yield (
                ListFlowable(lines, bulletType="1") if numbered else ListFlowable(lines, bulletType="bullet", start="-")
            )
        case Grid():
            yield _table(block)
            yield Spacer(1, 4 * mm)
        case Fields():
            yield _form(block)
            yield Spacer(1, 5 * mm)
        case Chart():
            yield _line_chart(block)
            yield ParagraphFlowable(_escape(block.caption), CAPTION)
        case PageBreak():
            yield PageBreakFlowable()


def _table(grid: Grid) -> Any:
    head, *body = grid.rows
    cells = [[ParagraphFlowable(_escape(cell), HEAD_CELL) for cell in head]]
    cells += [[ParagraphFlowable(_escape(cell), CELL) for cell in row] for row in body]
    style: list[tuple[Any, ...]] = [("VALIGN", (0, 0), (-1, -1), "TOP")]
    if grid.ruled:
        style += [("GRID", (0, 0), (-1, -1), 0.5, colors.black), ("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke)]
    return Table(cells, colWidths=[width * mm for width in grid.widths_mm], style=style, hAlign="LEFT", repeatRows=1)


def _form(fields: Fields) -> Any:
    boxes = [[ParagraphFlowable(_escape(a), LABEL), ParagraphFlowable(_escape(b), CELL)] for a, b in fields.pairs]
    rows = [boxes[start : start + 2] for start in range(0, len(boxes), 2)]
    style = [("BOX", (column, row), (column, row), 0.7, colors.black) for row in range(len(rows)) for column in (0, 1)]
    return Table(rows, colWidths=[80 * mm, 80 * mm], style=style, hAlign="LEFT")


def _line_chart(chart: Chart) -> Any:
    drawing = Drawing(150 * mm, 75 * mm)
    plot = LinePlot()
    plot.x, plot.y, plot.width, plot.height = 40, 32, 260, 160
    plot.data = [list(points) for _name, points in chart.series]
    legend = Legend()
    legend.x, legend.y, legend.fontSize = 315, 170, 8
    legend.columnMaximum = len(chart.series)
    legend.colorNamePairs = [
        (colour, name) for colour, (name, _points) in zip(LINE_COLOURS, chart.series, strict=False)
    ]
    for line, colour in enumerate(LINE_COLOURS[: len(chart.series)]):
        plot.lines[line].strokeColor = colour
    drawing.add(plot)
    drawing.add(legend)
    drawing.add(String(150, 8, chart.x_label, fontSize=8))
    drawing.add(String(4, 198, chart.y_label, fontSize=8))
    return drawing


def _photograph(drawn: bytes, sheet: Sheet) -> bytes:
    """The same pages as grey pictures, which is what a scanner leaves behind."""
    scan = pymupdf.open()
    with pymupdf.open(stream=drawn, filetype="pdf") as source:
        for page in source:
            picture = page.get_pixmap(dpi=SCAN_DPI, colorspace=pymupdf.csGRAY)
            target = scan.new_page(width=page.rect.width, height=page.rect.height)
            target.insert_image(target.rect, stream=picture.tobytes("png"))
    stamp = _date_formatter(sheet.created)()
    scan.set_metadata({"title": sheet.title, "author": sheet.author, "creationDate": stamp, "modDate": stamp})
    finished: bytes = scan.tobytes(garbage=4, deflate=True, no_new_id=True)
    return finished


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
