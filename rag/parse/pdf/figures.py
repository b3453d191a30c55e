"""Figures of a PDF: pictures on its pages, each a block with its caption and the text in it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pymupdf

from rag.data import Block, Box, Region
from rag.parse.figures import FigureReader, figure_block, is_worth_reading
from rag.parse.ocr.engine import Picture
from rag.parse.ocr.page import picture_of
from rag.parse.pdf.text_layer import PageText, area, enclosing, shared_area

_DPI = 150  # letters in a figure are seldom smaller than those of the text
_MIN_SIDE = 48.0  # points: a smaller picture is an icon or a logo
_MIN_SHARE, _MAX_SHARE = 0.015, 0.85  # of the page; a larger picture is its background
_MAX_IMAGES = 300  # on one page: more are the tiles of a drawing
_MAX_CHARACTERS = 40  # of the text layer inside a picture; more, and the text is there already
_CAPTION_GAP = 48.0  # points between a figure and its caption
_TOUCHING = 2.0  # points


@dataclass(frozen=True, slots=True)
class FoundFigure:
    """A picture on a page as displayed, and the text in it."""

    page: int
    box: Box
    text: str


def find_figures(page: pymupdf.Page, text: PageText, reader: FigureReader) -> list[FoundFigure]:
    """The pictures on the page that are figures."""
    boxes = _figure_boxes(text)
    # A page is drawn only where somebody looks at it.
    drawing = page.get_displaylist() if boxes and reader.is_reading else None
    found: list[FoundFigure] = []
    for box in boxes:
        shown = text.display_box(box)
        figure = None
        if drawing is not None and reader.is_reading:
            figure = reader.read_picture(_picture(drawing, shown))
        found.append(FoundFigure(text.number, shown, figure.text if figure else ""))
    return found


def _picture(drawing: pymupdf.DisplayList, shown: Box) -> Picture:
    """A part of a page as displayed."""
    pixmap = drawing.get_pixmap(
        matrix=pymupdf.Matrix(_DPI / 72, _DPI / 72),
        colorspace=pymupdf.csRGB,
        alpha=False,
        clip=pymupdf.Rect(shown.x0, shown.y0, shown.x1, shown.y1),
    )
    return picture_of(pixmap)


def with_figures(blocks: Sequence[Block], figures: Sequence[FoundFigure]) -> list[Block]:
    """The blocks with each figure where its caption stands, and in its place; one without a caption follows the last
    block of its page that begins above it. A figure with neither caption nor text is left out."""
    placed = list(blocks)
    for figure in figures:
        region = Region(figure.page, _rounded(figure.box))
        at = _caption_of(figure, placed)
        if at is not None:
            caption = placed[at]
            boxes = [figure.box, *([caption.region.box] if caption.region else [])]
            whole = figure_block(caption.text, figure.text, Region(figure.page, _rounded(enclosing(boxes))))
            if whole is not None:
                placed[at] = whole
        elif block := figure_block("", figure.text, region):
            placed.insert(_place_of(figure, placed), block)
    return placed


def _figure_boxes(text: PageText) -> list[Box]:
    """The places of the page's figures in its reading frame; pictures that touch are one."""
    if not text.images or len(text.images) > _MAX_IMAGES:
        return []
    whole = area(text.frame)
    boxes = []
    for box in _joined(text.images):
        width, height = box.x1 - box.x0, box.y1 - box.y0
        held = sum(len(line.text) for line in text.lines if shared_area(box, line.box) > 0.5 * area(line.box))
        if (
            min(width, height) >= _MIN_SIDE
            and is_worth_reading(width * _DPI / 72, height * _DPI / 72)
            and _MIN_SHARE * whole <= area(box) <= _MAX_SHARE * whole
            and held <= _MAX_CHARACTERS
        ):
            boxes.append(box)
    return sorted(boxes, key=lambda box: (box.y0, box.x0))


def _joined(images: Sequence[Box]) -> list[Box]:
    joined: list[Box] = []
    for image in images:
        box = image
        while touching := [other for other in joined if _touch(box, other)]:
            joined = [other for other in joined if other not in touching]
            box = enclosing([box, *touching])
        joined.append(box)
    return joined


def _touch(first: Box, second: Box) -> bool:
    return (
        min(first.x1, second.x1) - max(first.x0, second.x0) > -_TOUCHING
        and min(first.y1, second.y1) - max(first.y0, second.y0) > -_TOUCHING
    )


def _caption_of(figure: FoundFigure, blocks: Sequence[Block]) -> int | None:
    """The place of the nearest caption below the figure, or above it; None where there is none near."""
    best, nearest = None, _CAPTION_GAP
    for at, block in enumerate(blocks):
        if block.kind == "caption" and block.region is not None and block.region.page == figure.page:
            box = block.region.box
            beside = min(box.x1, figure.box.x1) - max(box.x0, figure.box.x0)
            below, above = box.y0 - figure.box.y1, figure.box.y0 - box.y1
            gap = max(below, above * 1.5, 0.0) if below > above else max(above * 1.5, 0.0)
            if beside > 0 and gap < nearest:
                best, nearest = at, gap
    return best


def _place_of(figure: FoundFigure, blocks: Sequence[Block]) -> int:
    """Behind the last block of the page, in the figure's column, that begins above the figure's middle."""
    middle = (figure.box.y0 + figure.box.y1) / 2
    before = -1
    first = len(blocks)
    for at, block in enumerate(blocks):
        if block.region is None:
            continue
        if block.region.page <= figure.page:
            first = at + 1
        if block.region.page == figure.page:
            box = block.region.box
            beside = min(box.x1, figure.box.x1) - max(box.x0, figure.box.x0)
            if beside > 0 and box.y0 < middle:
                before = at
    if before >= 0:
        return before + 1
    on_page = [at for at, block in enumerate(blocks) if block.region and block.region.page == figure.page]
    return on_page[0] if on_page else first


def _rounded(box: Box) -> Box:
    return Box(*(math.floor(value * 100 + 0.5) / 100 for value in (box.x0, box.y0, box.x1, box.y1)))
