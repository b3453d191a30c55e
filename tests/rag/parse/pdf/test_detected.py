"""Pages that a detector sees: what it says of them, and how its boxes and the lines come together."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pymupdf
import pytest
from layoutparser.elements import Layout

from rag.config import ParseConfig, RagConfig, SourcesConfig
from rag.data import BlockKind, Document
from rag.errors import ConfigError
from rag.parse.ocr.engine import Picture
from rag.parse.parser import DocumentParser
from rag.parse.pdf.detectors.base import LayoutDetector, text_block
from rag.parts import build_detector
from tests.rag.parse.parsing import raw_document, shown
from tests.rag.parse.pdf.drawing import pdf_bytes, write, write_lines

PROSE = [f"Line number {at} of the prose on this page" for at in range(8)]


class TeamDetector(LayoutDetector):
    """A team's own: it knows where this test's page has its diagram."""

    KINDS: ClassVar[Mapping[str, BlockKind]] = {"diagram": "figure", "legend": "caption"}

    def __init__(self, model: str) -> None:
        self.model = model

    def detect(self, image: Picture) -> Layout:
        scale = self.DPI / 72
        boxes = [((60, 200, 300, 300), "diagram"), ((60, 305, 300, 330), "legend")]
        return Layout(
            [
                text_block((x0 * scale, y0 * scale, x1 * scale, y1 * scale), kind, 0.9)
                for (x0, y0, x1, y1), kind in boxes
            ]
        )


def diagram(page: pymupdf.Page) -> None:
    write_lines(page, 72, 80, PROSE)
    write(page, 80, 220, "Start")
    write(page, 200, 280, "End")
    write(page, 72, 320, "How one gets there")
    write_lines(page, 72, 350, PROSE)


def config_of(tmp_path: Path, detector: str, pages: str = "all") -> RagConfig:
    parse = ParseConfig(detector=detector, detector_pages=pages)
    return RagConfig(store=tmp_path, var=tmp_path, models=tmp_path, parse=parse)


def parsed(config: RagConfig, content: bytes) -> Document:
    parser = DocumentParser(config.parse, SourcesConfig(), None, build_detector(config))
    return parser.parse(raw_document(content, "folder/a.pdf"))


def test_a_team_s_own_detector_is_plugged_in_by_its_path(tmp_path: Path) -> None:
    document = parsed(config_of(tmp_path, f"{__name__}:TeamDetector"), pdf_bytes(diagram))
    assert [kind for kind, _ in shown(document)] == ["paragraph", "figure", "caption", "paragraph"]
    assert ("figure", "Start End") in shown(document)
    assert (document.pages[0].route, document.pages[0].reason) == ("layout", "every page is to be detected")


def test_a_page_that_rules_can_read_does_not_go_to_the_detector(tmp_path: Path) -> None:
    config = config_of(tmp_path, f"{__name__}:TeamDetector", pages="complicated")
    assert parsed(config, pdf_bytes(diagram)).pages[0].route == "text"


def test_a_detector_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no_such_module:Detector can't be imported"):
        build_detector(config_of(tmp_path, "no_such_module:Detector"))


def test_no_detector_is_the_default(tmp_path: Path) -> None:
    assert build_detector(RagConfig(store=tmp_path, var=tmp_path, models=tmp_path)) is None


@pytest.mark.parametrize("name", ["pymupdf", "picodet"])
def test_the_detectors_find_a_paragraph_where_it_is(tmp_path: Path, name: str) -> None:
    detector = build_detector(config_of(tmp_path, name))
    assert detector is not None
    lines = [f"Line number {at} of a paragraph that is as wide as the page allows it to be here" for at in range(12)]
    with pymupdf.open(stream=pdf_bytes(lambda page: write_lines(page, 72, 200, lines)), filetype="pdf") as pdf:
        areas: Sequence[object] = detector.areas(pdf[0])
    (found,) = (area for area in detector_boxes(areas) if area[0] == "paragraph")
    assert np.allclose(found[1:], (72, 190, 430, 335), atol=25)


def detector_boxes(areas: Sequence[object]) -> list[tuple[str, float, float, float, float]]:
    return [(area.kind, area.box.x0, area.box.y0, area.box.x1, area.box.y1) for area in areas]  # type: ignore[attr-defined]
