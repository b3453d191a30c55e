"""PyMuPDF's own layout model: it reads the page's text and drawings rather than its picture, on a CPU."""

from collections.abc import Mapping
from typing import ClassVar

import pymupdf
import pymupdf.layout
from layoutparser.elements import Layout

from rag.data import BlockKind
from rag.parse.ocr.engine import Picture
from rag.parse.pdf.detectors.base import LayoutDetector, text_block


class PyMuPDFDetector(LayoutDetector):
    """The model that PyMuPDF carries; its boxes come without scores."""

    DETECTOR_NAME = "pymupdf"
    KINDS: ClassVar[Mapping[str, BlockKind]] = {
        "text": "paragraph", "title": "title", "section-header": "heading", "list-item": "list", "table": "table",
        "table-fallback": "table", "picture": "figure", "caption": "caption", "footnote": "footnote",
        "page-header": "header", "page-footer": "footer", "formula": "equation",
    }  # fmt: skip

    def __init__(self, model: str = "") -> None:
        pymupdf.layout.activate()

    def detect(self, image: Picture) -> Layout:
        """The layout of a picture, put on a page of its own: one point a pixel."""
        height, width = image.shape[:2]
        with pymupdf.open() as pdf:
            page = pdf.new_page(width=width, height=height)
            pixmap = pymupdf.Pixmap(pymupdf.csRGB, width, height, image.tobytes(), False)
            page.insert_image(page.rect, pixmap=pixmap)
            return self.detect_page(page)

    def detect_page(self, page: pymupdf.Page) -> Layout:
        page.get_layout()
        return Layout([text_block(tuple(box), kind, 1.0) for *box, kind in page.layout_information])
