"""A parsed document as pictures of its pages: every block framed where it stands, with its number and kind."""

from collections.abc import Iterator, Mapping

import pymupdf

from rag.data import Block, Document

_DPI = 110
_LABEL_SIZE = 7.0  # points
_COLORS: Mapping[str, tuple[float, float, float]] = {
    "title": (0.75, 0.0, 0.0),
    "heading": (0.9, 0.2, 0.0),
    "paragraph": (0.0, 0.35, 0.8),
    "list": (0.0, 0.55, 0.55),
    "table": (0.0, 0.55, 0.1),
    "code": (0.45, 0.3, 0.1),
    "equation": (0.6, 0.0, 0.6),
    "figure": (0.8, 0.5, 0.0),
    "caption": (0.75, 0.35, 0.55),
    "footnote": (0.4, 0.4, 0.0),
    "header": (0.5, 0.5, 0.5),
    "footer": (0.5, 0.5, 0.5),
}


def draw_blocks(document: Document, pdf: pymupdf.Document) -> Iterator[tuple[int, bytes]]:
    """Number and PNG of every page, its blocks framed and labelled "3 heading2"; the open document is drawn on."""
    by_page: dict[int, list[tuple[int, Block]]] = {}
    for number, block in enumerate(document.blocks, start=1):
        if block.region is not None:
            by_page.setdefault(block.region.page, []).append((number, block))
    for page in pdf:
        for number, block in by_page.get(page.number + 1, ()):
            _draw(page, number, block)
        yield page.number + 1, page.get_pixmap(dpi=_DPI).tobytes("png")


def _draw(page: pymupdf.Page, number: int, block: Block) -> None:
    assert block.region is not None  # of those alone
    box = block.region.box
    color = _COLORS[block.kind]
    # Boxes are those of the page as displayed, drawing takes those before it is turned.
    rect = (pymupdf.Rect(box.x0, box.y0, box.x1, box.y1) * page.derotation_matrix).normalize()
    page.draw_rect(rect, color=color, width=0.8)
    label = f"{number} {block.kind}{block.level or ''}"
    width = pymupdf.get_text_length(label, fontsize=_LABEL_SIZE)
    place = pymupdf.Rect(box.x0, box.y0 - _LABEL_SIZE - 1, box.x0 + width + 2, box.y0)
    page.draw_rect((place * page.derotation_matrix).normalize(), color=color, fill=color, width=0)
    start = pymupdf.Point(box.x0 + 1, box.y0 - 2) * page.derotation_matrix
    page.insert_text(start, label, fontsize=_LABEL_SIZE, color=(1, 1, 1), rotate=page.rotation)
