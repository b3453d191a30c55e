"""Pictures with known text, and an engine that says what it is told to."""

from collections.abc import Sequence

import numpy as np
import pymupdf

from rag.parse.ocr.engine import Picture, RecognizedLine
from rag.parse.ocr.page import picture_of


def drawn(lines: Sequence[str], size: float = 14, width: float = 260, dpi: int = 120) -> Picture:
    """The lines below one another, black on white."""
    with pymupdf.open() as pdf:
        page = pdf.new_page(width=width, height=30 + 2 * size * len(lines))
        for number, line in enumerate(lines, start=1):
            page.insert_text((15, 15 + 2 * size * number), line, fontsize=size)
        return picture_of(page.get_pixmap(dpi=dpi, colorspace=pymupdf.csRGB, alpha=False))


def encoded(picture: Picture, kind: str = "png") -> bytes:
    """The picture as the bytes of a file."""
    height, width = picture.shape[:2]
    pixmap = pymupdf.Pixmap(pymupdf.csRGB, width, height, np.ascontiguousarray(picture).tobytes(), False)
    return bytes(pixmap.tobytes(kind))


class FixedOcr:
    """Finds the same lines in every picture, each 20 pixels below the one before, and counts the pictures."""

    def __init__(self, *lines: str, confidence: float = 0.9) -> None:
        self._lines, self._confidence = lines, confidence
        self.num_read = 0

    def read(self, picture: Picture) -> list[RecognizedLine]:
        self.num_read += 1
        return [
            RecognizedLine(
                text,
                np.array([[10, 20 * at], [110, 20 * at], [110, 20 * at + 14], [10, 20 * at + 14]], np.float32),
                self._confidence,
            )
            for at, text in enumerate(self._lines)
        ]
