"""Every engine that is here reads the same pictures, whichever way they lie."""

import shutil

import numpy as np
import pytest

from rag.data import Box
from rag.errors import ModelError
from rag.parse.ocr.engine import OcrEngine
from rag.parse.ocr.page import OcrReader
from rag.parse.ocr.rapid import RapidOcr
from rag.parse.ocr.tesseract import TesseractOcr
from tests.rag.parse.ocr.pictures import drawn

LINES = ("Storage costs rise in winter", "and fall again in summer.")
PICTURE = drawn(LINES)
RAPID = RapidOcr()
ENGINES = {"rapidocr": RAPID} | ({"tesseract": TesseractOcr(["eng"], 120)} if shutil.which("tesseract") else {})
by_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


@by_engine
def test_lines_are_read_with_their_boxes_and_confidence(engine: OcrEngine) -> None:
    page = OcrReader(engine, 120).read_picture(PICTURE, 1, 120)
    lines = sorted(page.lines, key=lambda line: line.box.y0)
    assert tuple(line.text for line in lines) == LINES
    assert all(0.8 < line.confidence <= 1 for line in lines)
    for line, baseline in zip(lines, (43, 71), strict=True):
        assert line.box.y0 < baseline - 8
        assert baseline - 2 < line.box.y1 < baseline + 8
        assert abs(line.box.x0 - 15) < 4
        assert 9 < line.size < 19


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_picture_on_its_side_or_head_is_read_upright(quarters: int) -> None:
    turned = np.ascontiguousarray(np.rot90(PICTURE, -quarters))  # clockwise
    page = OcrReader(RAPID, 120).read_picture(turned, 1, 120)
    lines = sorted(page.lines, key=lambda line: line.box.y0)
    assert tuple(line.text for line in lines) == LINES
    assert all(line.box.x1 - line.box.x0 > 5 * (line.box.y1 - line.box.y0) for line in lines)
    height, width = (side / 120 * 72 for side in PICTURE.shape[:2])
    frame = Box(0, 0, width, height)
    assert (page.frame.x1, page.frame.y1) == pytest.approx((frame.x1, frame.y1))
    shown = page.display_box(lines[0].box)
    if quarters == 2:
        assert shown.y1 > 0.6 * height  # the first line is at the bottom
    else:
        assert shown.y1 - shown.y0 > 5 * (shown.x1 - shown.x0)


@by_engine
def test_an_empty_picture_has_no_lines(engine: OcrEngine) -> None:
    assert engine.read(np.full((120, 200, 3), 255, np.uint8)) == []


def test_a_missing_program_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ModelError, match="install tesseract-ocr"):
        TesseractOcr(["eng"], 120).read(PICTURE)
