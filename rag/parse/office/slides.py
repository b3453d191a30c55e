"""PPTX -> blocks: a slide is a page, its title a heading; bullets, tables, charts, pictures and notes follow."""

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pptx import Presentation
from pptx.enum.shapes import MSO_SHAPE_TYPE, PP_PLACEHOLDER
from pptx.oxml.ns import qn

from rag.config import ParseConfig
from rag.data import Block, Box, RawDocument, Region
from rag.parse.content import ParsedContent, render_item, single_spaced
from rag.parse.figures import FigureReader
from rag.parse.office.package import open_package
from rag.parse.office.properties import core_fields, stated_title
from rag.parse.table import Table, TableCell, compact, render, table_of_rows

if TYPE_CHECKING:
    from pptx.chart.chart import Chart
    from pptx.shapes.base import BaseShape
    from pptx.slide import Slide
    from pptx.table import Table as SlideTable
    from pptx.text.text import TextFrame, _Paragraph

_EMU_PER_POINT = 12_700
_TITLES = (PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.CENTER_TITLE, PP_PLACEHOLDER.VERTICAL_TITLE)
_BULLETED = (PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY, PP_PLACEHOLDER.VERTICAL_OBJECT)
_REPEATED = (PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.HEADER, PP_PLACEHOLDER.SLIDE_NUMBER)


def parse_pptx(raw: RawDocument, config: ParseConfig, figures: FigureReader) -> ParsedContent:
    """The blocks slide by slide, each with its slide as page and its shape as box. Hidden slides are left out, with
    the flag "hidden_text".

    Raises ParseError for a damaged, protected or too large file.
    """
    with open_package(raw.metadata.uri, raw.content, config.max_unpacked_mb):
        presentation = Presentation(io.BytesIO(raw.content))
    blocks: list[Block] = []
    num_slides = num_hidden = 0
    for number, slide in enumerate(presentation.slides, start=1):
        num_slides = number
        if slide.element.get("show", "1") in ("0", "false"):
            num_hidden += 1
        else:
            blocks += _slide(slide, number, figures)
    properties = presentation.core_properties
    return ParsedContent(
        tuple(blocks),
        stated_title(properties),
        core_fields(properties),
        num_pages=num_slides,
        flags=("hidden_text",) if num_hidden else (),
    )


def _slide(slide: "Slide", number: int, figures: FigureReader) -> Iterator[Block]:
    title = next((shape for shape in slide.placeholders if shape.placeholder_format.type in _TITLES), None)
    heading = " ".join(title.text_frame.text.split()) if title is not None and title.has_text_frame else ""
    yield Block("heading", heading or f"Slide {number}", 1, _region(title, number) if title is not None else None)
    for shape in slide.shapes:
        if title is None or shape.shape_id != title.shape_id:
            yield from _shape(shape, number, figures)
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if frame is not None and (notes := single_spaced(frame.text)):
        yield Block("paragraph", f"Notes: {notes}", region=_slide_region(slide, number))


def _shape(shape: "BaseShape", number: int, figures: FigureReader) -> Iterator[Block]:
    placeholder = shape.placeholder_format.type if shape.is_placeholder else None
    if placeholder in _REPEATED or _is_hidden(shape):
        return
    region = _region(shape, number)
    if shape.shape_type == MSO_SHAPE_TYPE.GROUP:
        for inner in shape.shapes:  # type: ignore[attr-defined]
            yield from _shape(inner, number, figures)
    elif getattr(shape, "has_table", False):
        if text := render(compact(_table(shape.table))):  # type: ignore[attr-defined]
            yield Block("table", text, region=region)
    elif getattr(shape, "has_chart", False):
        yield from _chart(shape.chart, region)  # type: ignore[attr-defined]
    elif hasattr(shape, "image") and _has_image(shape):
        if figure := figures.read(shape.image.blob, _alternative_text(shape), region):
            yield figure
    elif shape.has_text_frame:
        yield from _text(shape.text_frame, placeholder in _BULLETED, region)  # type: ignore[attr-defined]


def _text(frame: "TextFrame", is_bulleted: bool, region: Region | None) -> Iterator[Block]:
    """Paragraphs and lists; the paragraphs of a body placeholder are items where it has several."""
    paragraphs = [(paragraph, single_spaced(paragraph.text.replace("\v", "\n"))) for paragraph in frame.paragraphs]
    paragraphs = [(paragraph, text) for paragraph, text in paragraphs if text]
    is_list = is_bulleted and len(paragraphs) > 1
    items: list[str] = []
    numbers: dict[int, int] = {}
    for paragraph, text in paragraphs:
        marker = _marker(paragraph, is_list)
        if marker:
            numbers = {level: count for level, count in numbers.items() if level <= paragraph.level}
            numbers[paragraph.level] = numbers.get(paragraph.level, 0) + 1
            shown = f"{numbers[paragraph.level]}." if marker == "1." else marker
            items.append(render_item(shown, [text], paragraph.level))
            continue
        if items:
            yield Block("list", "\n".join(items), region=region)
            items = []
        yield Block("paragraph", text, region=region)
    if items:
        yield Block("list", "\n".join(items), region=region)


def _marker(paragraph: "_Paragraph", is_list: bool) -> str:
    """ "-" or "1." for an item, "" for a paragraph: what it says itself, else what its place says."""
    properties = paragraph._p.pPr
    if properties is not None:
        if properties.find(qn("a:buNone")) is not None:
            return ""
        if properties.find(qn("a:buAutoNum")) is not None:
            return "1."
        if properties.find(qn("a:buChar")) is not None:
            return "-"
    return "-" if is_list else ""


def _table(table: "SlideTable") -> Table:
    cells = [
        TableCell(
            row,
            column,
            cell.text_frame.text.replace("\v", "\n"),
            cell.span_height if cell.is_merge_origin else 1,
            cell.span_width if cell.is_merge_origin else 1,
            is_header=table.first_row and row == 0,
        )
        for row, line in enumerate(table.rows)
        for column, cell in enumerate(line.cells)
        if not cell.is_spanned
    ]
    return Table(len(table.rows), len(table.columns), tuple(cells))


def _chart(chart: "Chart", region: Region | None) -> Iterator[Block]:
    """The chart's title, and its numbers as a table with a row for each category."""
    if chart.has_title and chart.chart_title.has_text_frame and (title := chart.chart_title.text_frame.text.strip()):
        yield Block("caption", " ".join(title.split()), region=region)
    for plot in chart.plots:
        series = list(plot.series)
        names = [str(category) for category in plot.categories]
        rows = [["", *(one.name for one in series)]]
        columns = [list(one.values) for one in series]
        for at, name in enumerate(names):
            values = (column[at] if at < len(column) else None for column in columns)
            rows.append([name, *("" if value is None else f"{value:g}" for value in values)])
        if names and series:
            yield Block("table", render(table_of_rows(rows)), region=region)


def _is_hidden(shape: "BaseShape") -> bool:
    properties = next(shape.element.iter(qn("p:cNvPr")), None)
    return properties is not None and properties.get("hidden") in ("1", "true")


def _has_image(shape: "BaseShape") -> bool:
    """Whether the picture is in the file: it may be linked, or an empty placeholder."""
    try:
        return bool(shape.image.blob)  # type: ignore[attr-defined]
    except (ValueError, KeyError, AttributeError):
        return False


def _alternative_text(shape: "BaseShape") -> str:
    properties = next(shape.element.iter(qn("p:cNvPr")), None)
    return properties.get("descr", "") if properties is not None else ""


def _region(shape: "BaseShape", number: int) -> Region | None:
    place: tuple[int | None, ...] = (shape.left, shape.top, shape.width, shape.height)
    if None in place:  # an empty placeholder that its layout does not place either
        return None
    left, top = shape.left / _EMU_PER_POINT, shape.top / _EMU_PER_POINT
    right, bottom = left + shape.width / _EMU_PER_POINT, top + shape.height / _EMU_PER_POINT
    return Region(number, Box(round(left, 2), round(top, 2), round(right, 2), round(bottom, 2)))


def _slide_region(slide: "Slide", number: int) -> Region:
    """The whole slide, for what stands beside it."""
    presentation = slide.part.package.presentation_part.presentation
    width, height = presentation.slide_width or 0, presentation.slide_height or 0
    return Region(number, Box(0.0, 0.0, round(width / _EMU_PER_POINT, 2), round(height / _EMU_PER_POINT, 2)))
