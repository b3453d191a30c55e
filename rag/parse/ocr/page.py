"""A picture of a page -> the page's lines, upright and straight, as if they came from a text layer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pymupdf

from rag.data import Box
from rag.parse.ocr.engine import OcrEngine, Picture, RecognizedLine
from rag.parse.pdf.text_layer import Line, PageText, normalize, turn

_POINTS_PER_INCH = 72
_MAX_PIXELS = 25_000_000  # a larger page, such as a poster, is drawn smaller
_QUARTER = math.pi / 2
_MAX_SKEW = math.radians(20)  # a line further off an axis is a stamp or a drawing, and does not turn the page
_SIZE_OF_HEIGHT = 0.75  # font size by the height of a line's box: ascenders, descenders and a margin add the rest
_SAME_SIZE = 1.25  # heights vary by this factor within one size, with the letters that a line happens to hold


@dataclass(frozen=True, slots=True)
class OcrReader:
    """An engine, and how finely pages are drawn for it."""

    engine: OcrEngine
    dpi: int

    def read_page(self, page: pymupdf.Page, number: int) -> PageText:
        """The lines of the page as its picture shows them; what its text layer says is not looked at."""
        scale = min(self.dpi / _POINTS_PER_INCH, math.sqrt(_MAX_PIXELS / max(page.rect.width * page.rect.height, 1.0)))
        pixmap = page.get_pixmap(matrix=pymupdf.Matrix(scale, scale), colorspace=pymupdf.csRGB, alpha=False)
        displayed = Box(0.0, 0.0, page.rect.width, page.rect.height)
        return page_text(
            self.engine.read(picture_of(pixmap)), number, displayed, scale, pymupdf.Matrix(page.rotation_matrix)
        )

    def read_picture(self, picture: Picture, number: int, dpi: float) -> PageText:
        """The lines of a picture that is a page by itself, of so many pixels an inch."""
        height, width = picture.shape[:2]
        scale = dpi / _POINTS_PER_INCH
        displayed = Box(0.0, 0.0, width / scale, height / scale)
        return page_text(self.engine.read(picture), number, displayed, scale, pymupdf.Matrix(1, 1))


def picture_of(pixmap: pymupdf.Pixmap) -> Picture:
    """The pixels of an RGB pixmap without alpha."""
    return np.frombuffer(pixmap.samples, np.uint8).reshape(pixmap.height, pixmap.width, 3)


def page_text(
    lines: Sequence[RecognizedLine], number: int, displayed: Box, scale: float, to_displayed: pymupdf.Matrix
) -> PageText:
    """The lines in a frame in which most of them run to the right, and straight.

    `displayed` is the page in points, `scale` the pixels of a point in the picture that was read, and `to_displayed`
    leads from PyMuPDF's coordinates to the displayed page.
    """
    quarters, skew = _turn_and_skew(lines)
    to_reading = _rotation(quarters * _QUARTER + skew, displayed, is_sideways=quarters % 2 == 1)
    upright: list[Line] = []
    turned: list[Line] = []
    for line in lines:
        main = _quarters_of(_angle(line)) == quarters
        (upright if main else turned).append(_line_in_reading(line, scale, to_reading))
    width, height = displayed.x1, displayed.y1
    return PageText(
        number,
        _with_common_sizes(upright),
        tuple(turned),
        Box(0.0, 0.0, height, width) if quarters % 2 else displayed,
        to_displayed * to_reading,
        ~to_reading,
    )


def _turn_and_skew(lines: Sequence[RecognizedLine]) -> tuple[int, float]:
    """The quarter turn that most of the text has, and by how much more it is turned (radians, clockwise)."""
    weights = [0, 0, 0, 0]
    for line in lines:
        weights[_quarters_of(_angle(line))] += len(line.text)
    quarters = max(range(4), key=lambda turn: weights[turn])
    off: list[tuple[float, int]] = []  # the angle and the weight of lines long enough to show it
    for line in lines:
        angle = _angle(line)
        if _quarters_of(angle) == quarters and len(line.text) >= 8:
            off.append((math.remainder(angle - quarters * _QUARTER, 2 * math.pi), len(line.text)))
    skew = _weighted_median(off)
    return quarters, skew if abs(skew) <= _MAX_SKEW else 0.0


def _angle(line: RecognizedLine) -> float:
    """The direction in which the text runs; 0 is to the right, a quarter turn is down."""
    begin, end, below_end, below_begin = line.corners
    dx, dy = (end + below_end - begin - below_begin).tolist()
    return math.atan2(dy, dx)


def _quarters_of(angle: float) -> int:
    return round(angle / _QUARTER) % 4


def _weighted_median(values: Sequence[tuple[float, int]]) -> float:
    half = sum(weight for _, weight in values) / 2
    passed = 0
    for value, weight in sorted(values):
        passed += weight
        if passed >= half:
            return value
    return 0.0


def _rotation(angle: float, displayed: Box, is_sideways: bool) -> pymupdf.Matrix:
    """From the displayed page to a frame that is turned back by the angle about the page's middle."""
    cosine, sine = math.cos(angle), math.sin(angle)
    middle_x, middle_y = displayed.x1 / 2, displayed.y1 / 2
    to_x, to_y = (middle_y, middle_x) if is_sideways else (middle_x, middle_y)
    back = pymupdf.Matrix(cosine, -sine, sine, cosine, 0, 0)
    return pymupdf.Matrix(1, 0, 0, 1, -middle_x, -middle_y) * back * pymupdf.Matrix(1, 0, 0, 1, to_x, to_y)


def _line_in_reading(line: RecognizedLine, scale: float, to_reading: pymupdf.Matrix) -> Line:
    boxes = [turn(Box(x / scale, y / scale, x / scale, y / scale), to_reading) for x, y in line.corners.tolist()]
    # The corners' means: a line that is a little off the page's own skew must not reach into the next one.
    xs, ys = sorted(box.x0 for box in boxes), sorted(box.y0 for box in boxes)
    box = Box((xs[0] + xs[1]) / 2, (ys[0] + ys[1]) / 2, (xs[2] + xs[3]) / 2, (ys[2] + ys[3]) / 2)
    size = _SIZE_OF_HEIGHT * min(box.y1 - box.y0, box.x1 - box.x0 if len(line.text) > 2 else math.inf)
    return Line(normalize(line.text), box, round(size, 1), bold=False, confidence=round(line.confidence, 3))


def _with_common_sizes(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines with sizes that differ by little made equal, beginning with the one that most of the text has."""
    remaining = sorted({line.size for line in lines})
    weights = {size: sum(1 + len(line.text) for line in lines if line.size == size) for size in remaining}
    common: dict[float, float] = {}
    while remaining:
        center = max(remaining, key=lambda size: (sum(_near(size, other, weights) for other in remaining), -size))
        near = [size for size in remaining if _near(center, size, weights)]
        common.update(dict.fromkeys(near, center))
        remaining = [size for size in remaining if size not in near]
    return tuple(replace(line, size=common[line.size]) for line in lines)


def _near(center: float, size: float, weights: dict[float, int]) -> int:
    """The weight of a size that is about the same as another; 0 where it is not."""
    return weights[size] if center / _SAME_SIZE <= size <= center * _SAME_SIZE else 0
