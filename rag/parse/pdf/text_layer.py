"""A PDF page -> its lines of text, turned so that they read from left to right."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pymupdf

from rag.data import Box

# Images are not read, ligatures are taken apart by MuPDF, and text outside the page does not count.
_FLAGS = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP
_TRANSLATION = str.maketrans(
    {
        "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
        "\ufb05": "st", "\ufb06": "st",
        "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u200b": "", "\ufeff": "", "\t": " ",
    }
)  # fmt: skip
# Unit vector of the writing direction -> the turn that makes it point right.
_TURNS = {(1, 0): 0, (0, 1): -90, (-1, 0): 180, (0, -1): 90}


@dataclass(frozen=True, slots=True)
class Line:
    """A piece of text on one line, as the PDF draws it: a line of prose, or one cell of a table's row."""

    text: str
    box: Box  # in the reading frame
    size: float  # of the font, in points
    bold: bool


@dataclass(frozen=True, slots=True)
class PageText:
    """The lines of one page in a frame in which most of its text reads from left to right, and the way back."""

    number: int  # from 1
    lines: tuple[Line, ...]
    turned: tuple[Line, ...]  # text in other directions, such as a stamp in the margin
    frame: Box  # the page
    to_reading: pymupdf.Matrix  # from the coordinates of PyMuPDF
    to_display: pymupdf.Matrix  # from the reading frame to the page as displayed

    def display_box(self, box: Box) -> Box:
        """The box of the reading frame on the page as displayed."""
        return turn(box, self.to_display)


def read_page(page: pymupdf.Page, number: int) -> PageText:
    """The text layer of the page; no lines where it has none."""
    spans = list(_drawn_lines(page))
    weights: Counter[tuple[int, int]] = Counter()
    for direction, line in spans:
        weights[direction] += len(line.text)
    main = max(weights, key=lambda direction: (weights[direction], direction), default=(1, 0))
    to_reading = pymupdf.Matrix(_TURNS[main])
    back = pymupdf.Matrix(-_TURNS[main])
    crop = page.cropbox
    return PageText(
        number,
        tuple(_turned(line, to_reading) for direction, line in spans if direction == main),
        tuple(_turned(line, to_reading) for direction, line in spans if direction != main),
        turn(Box(0.0, 0.0, crop.width, crop.height), to_reading),
        to_reading,
        back * page.rotation_matrix,
    )


def turn(box: Box, matrix: pymupdf.Matrix) -> Box:
    """The box after a turn by a multiple of 90 degrees."""
    if (matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f) == (1, 0, 0, 1, 0, 0):
        return box
    rect = pymupdf.Rect(box.x0, box.y0, box.x1, box.y1) * matrix
    return Box(min(rect.x0, rect.x1), min(rect.y0, rect.y1), max(rect.x0, rect.x1), max(rect.y0, rect.y1))


def enclosing(boxes: list[Box]) -> Box:
    """The smallest box around all of them."""
    return Box(
        min(box.x0 for box in boxes), min(box.y0 for box in boxes),
        max(box.x1 for box in boxes), max(box.y1 for box in boxes),
    )  # fmt: skip


def normalize(text: str) -> str:
    """The text with ligatures taken apart, every space a plain one, and nothing invisible."""
    return text.translate(_TRANSLATION)


def _drawn_lines(page: pymupdf.Page) -> Iterator[tuple[tuple[int, int], Line]]:
    """Every line with its rounded direction; text that is drawn twice (a fake bold) counts once."""
    seen: set[tuple[str, int, int]] = set()
    layout: dict[str, Any] = page.get_text("dict", flags=_FLAGS, sort=False)  # Any: PyMuPDF's own nested dicts
    for block in layout["blocks"]:
        for line in block.get("lines", ()):
            spans = line["spans"]
            text = normalize("".join(span["text"] for span in spans)).strip()
            x0, y0, x1, y1 = line["bbox"]
            place = (text, round(x0 / 2), round(y0 / 2))
            if not text or place in seen or not all(map(math.isfinite, (x0, y0, x1, y1))):
                continue
            seen.add(place)
            inked = [span for span in spans if not span["text"].isspace()] or spans
            largest = max(inked, key=lambda span: len(span["text"]))
            bold = all(span["flags"] & pymupdf.TEXT_FONT_BOLD or "bold" in span["font"].lower() for span in inked)
            dx, dy = line["dir"]
            direction = (round(dx), 0) if abs(dx) >= abs(dy) else (0, round(dy))
            yield direction if direction in _TURNS else (1, 0), Line(text, Box(x0, y0, x1, y1), largest["size"], bold)


def _turned(line: Line, matrix: pymupdf.Matrix) -> Line:
    return Line(line.text, turn(line.box, matrix), line.size, line.bold)
