"""Lines at known places on a turned and skewed page come back upright, straight and in their places."""

import math

import numpy as np
import pymupdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.data import Box
from rag.parse.ocr.engine import RecognizedLine
from rag.parse.ocr.page import OcrReader, page_text
from tests.rag.parse.ocr.pictures import FixedOcr

WIDTH, HEIGHT, SCALE = 600.0, 800.0, 2.0
BOXES = [Box(100, 100 + 40 * at, 300 + 20 * at, 116 + 40 * at) for at in range(5)]


def lying(box: Box, angle: float, confidence: float = 0.9) -> RecognizedLine:
    """A line of the box on a page that is turned clockwise about its middle."""
    cosine, sine = math.cos(angle), math.sin(angle)
    corners = []
    for x, y in [(box.x0, box.y0), (box.x1, box.y0), (box.x1, box.y1), (box.x0, box.y1)]:
        dx, dy = x - WIDTH / 2, y - HEIGHT / 2
        to_x, to_y = (WIDTH / 2, HEIGHT / 2) if round(angle / (math.pi / 2)) % 2 == 0 else (HEIGHT / 2, WIDTH / 2)
        corners.append((SCALE * (to_x + cosine * dx - sine * dy), SCALE * (to_y + sine * dx + cosine * dy)))
    return RecognizedLine("a line of text", np.array(corners, np.float32), confidence)


@given(quarters=st.integers(0, 3), skew_degrees=st.floats(-12, 12))
def test_lines_come_back_upright_straight_and_in_their_places(quarters: int, skew_degrees: float) -> None:
    angle = quarters * math.pi / 2 + math.radians(skew_degrees)
    displayed = Box(0, 0, HEIGHT, WIDTH) if quarters % 2 else Box(0, 0, WIDTH, HEIGHT)
    page = page_text([lying(box, angle) for box in BOXES], 3, displayed, SCALE, pymupdf.Matrix(1, 1))
    assert (page.number, page.frame, page.turned) == (3, Box(0, 0, WIDTH, HEIGHT), ())
    for line, box in zip(page.lines, BOXES, strict=True):
        assert (line.box.x0, line.box.y0, line.box.x1, line.box.y1) == pytest.approx(
            (box.x0, box.y0, box.x1, box.y1), abs=0.05
        )
        shown = page.display_box(line.box)
        corners = lying(box, angle).corners / SCALE
        assert (shown.x0, shown.y1) == pytest.approx((corners[:, 0].min(), corners[:, 1].max()), abs=0.1)


def test_a_stamp_across_the_page_does_not_turn_it() -> None:
    lines = [*(lying(box, 0.0) for box in BOXES), lying(Box(20, 700, 120, 716), math.pi / 2)]
    page = page_text(lines, 1, Box(0, 0, WIDTH, HEIGHT), SCALE, pymupdf.Matrix(1, 1))
    assert (len(page.lines), len(page.turned)) == (5, 1)


@given(st.lists(st.floats(0.93, 1.07), min_size=1, max_size=8))
def test_heights_that_vary_a_little_are_one_size(factors: list[float]) -> None:
    lines = [lying(Box(10, 20 * at, 200, 20 * at + 12 * factor), 0.0) for at, factor in enumerate(factors)]
    lines.append(lying(Box(10, 500, 200, 530), 0.0))
    page = page_text(lines, 1, Box(0, 0, WIDTH, HEIGHT), SCALE, pymupdf.Matrix(1, 1))
    sizes = [line.size for line in page.lines]
    assert len(set(sizes[:-1])) == 1
    assert sizes[-1] > 2 * sizes[0]


def test_a_page_is_read_as_displayed_and_a_huge_one_is_drawn_smaller() -> None:
    with pymupdf.open() as pdf:
        page = pdf.new_page(width=14_000, height=7_000)
        page.set_rotation(90)
        engine = FixedOcr("a line")
        read = OcrReader(engine, 200).read_page(page, 1)
    assert engine.num_read == 1
    assert (read.frame.x1, read.frame.y1) == (7_000, 14_000)
    assert read.display_box(read.lines[0].box) == read.lines[0].box
