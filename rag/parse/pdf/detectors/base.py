"""What finds the layout of a page: LayoutParser's model interface, which may also see the page behind the picture."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymupdf
from layoutparser.elements import Layout, Rectangle, TextBlock
from layoutparser.models.base_layoutmodel import BaseLayoutModel

from rag.data import BlockKind, Box
from rag.parse.ocr.engine import Picture
from rag.parse.ocr.page import picture_of


@dataclass(frozen=True, slots=True)
class Area:
    """What a detector found on a page as it is displayed."""

    kind: BlockKind
    box: Box  # points
    score: float


class LayoutDetector(BaseLayoutModel):  # type: ignore[misc]  # LayoutParser carries no types
    """A detector as LayoutParser knows them: `detect` gives typed boxes of a picture, in its pixels.

    A detector of your own is a subclass with `detect`, built with the value of `parse.detector_model`; types of its
    boxes are names of `rag.data.BlockKind`, or are translated by `KINDS`.
    """

    DEPENDENCIES: ClassVar[list[str]] = []
    DETECTOR_NAME: ClassVar[str] = "quire"
    MODEL_CATALOG: ClassVar[dict[str, dict[str, str]]] = {}
    KINDS: ClassVar[Mapping[str, BlockKind]] = {}
    DPI: ClassVar[int] = 100

    @abstractmethod
    def detect(self, image: Picture) -> Layout:
        """The layout of a picture."""

    def image_loader(self, image: Any) -> Picture:  # Any: a PIL image or an array, as LayoutParser allows
        """The picture as `detect` takes it."""
        return np.asarray(image.convert("RGB") if hasattr(image, "convert") else image, dtype=np.uint8)

    def detect_page(self, page: pymupdf.Page) -> Layout:
        """The layout of a page as displayed, in points."""
        pixmap = page.get_pixmap(dpi=self.DPI, colorspace=pymupdf.csRGB, alpha=False)
        return self.detect(picture_of(pixmap)).scale(72 / self.DPI)

    def areas(self, page: pymupdf.Page) -> list[Area]:
        """What is on the page, in the detector's order."""
        found: list[Area] = []
        for block in self.detect_page(page):
            kind = self.KINDS.get(block.type, block.type)
            x0, y0, x1, y1 = (float(at) for at in block.coordinates)
            found.append(Area(kind, Box(x0, y0, x1, y1), float(block.score if block.score is not None else 1.0)))
        return found


def text_block(box: tuple[float, float, float, float], kind: str, score: float) -> TextBlock:
    """One box of a layout."""
    return TextBlock(Rectangle(*box), type=kind, score=score)
