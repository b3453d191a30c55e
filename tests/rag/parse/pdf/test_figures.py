import numpy as np
import pymupdf
import pytest

from rag.config import ParseConfig, SourcesConfig
from rag.data import Document
from rag.parse.ocr.page import OcrReader
from rag.parse.parser import DocumentParser
from tests.rag.parse.ocr.pictures import FixedOcr, drawn, encoded
from tests.rag.parse.parsing import raw_document
from tests.rag.parse.pdf.drawing import pdf_bytes, write

ABOVE = "The pump is driven by the motor on the left of the hall."
BELOW = "Its valves are checked every month by the steward."
PHOTO = encoded(drawn(["x"]))


def parse_with(engine: FixedOcr, content: bytes, config: ParseConfig | None = None) -> Document:
    parser = DocumentParser(config or ParseConfig(), SourcesConfig(), OcrReader(engine, 200))
    return parser.parse(raw_document(content, "a.pdf"))


def page_with(caption: str, box: pymupdf.Rect) -> bytes:
    def draw(page: pymupdf.Page) -> None:
        write(page, 72, 100, ABOVE)
        page.insert_image(box, stream=PHOTO, keep_proportion=False)
        if caption:
            write(page, 72, box.y1 + 20, caption)
        write(page, 72, 500, BELOW)

    return pdf_bytes(draw)


def test_a_figure_stands_where_its_caption_does_with_the_text_in_it() -> None:
    document = parse_with(FixedOcr("Inlet", "Outlet"), page_with("Figure 1: the pump", pymupdf.Rect(72, 150, 372, 300)))
    above, figure, below = document.blocks
    assert (above.text, below.text) == (ABOVE, BELOW)
    assert (figure.kind, figure.text) == ("figure", "Figure 1: the pump\nInlet\nOutlet")
    assert figure.region is not None
    assert figure.region.box.y0 == 150
    assert figure.region.box.y1 > 310


def test_the_numbers_along_an_axis_are_no_text_of_a_figure() -> None:
    content = page_with("Figure 2: flow", pymupdf.Rect(72, 150, 372, 300))
    (figure,) = (
        b for b in parse_with(FixedOcr("450", "4.25e", "1,200", "Flow (l/s)"), content).blocks if b.kind == "figure"
    )
    assert figure.text == "Figure 2: flow\n4.25e\nFlow (l/s)"


def test_a_figure_without_a_caption_stands_between_the_texts_around_it() -> None:
    document = parse_with(FixedOcr("Inlet"), page_with("", pymupdf.Rect(72, 150, 372, 300)))
    assert [block.kind for block in document.blocks] == ["paragraph", "figure", "paragraph"]


def test_a_caption_alone_makes_a_figure_and_a_photograph_alone_none() -> None:
    rect = pymupdf.Rect(72, 150, 372, 300)
    kinds = [block.kind for block in parse_with(FixedOcr(), page_with("Figure 1: the pump", rect)).blocks]
    assert kinds == ["paragraph", "figure", "paragraph"]
    assert "figure" not in [block.kind for block in parse_with(FixedOcr(), page_with("", rect)).blocks]


def test_icons_and_text_over_a_picture_are_not_read() -> None:
    engine = FixedOcr("x")
    parse_with(engine, page_with("", pymupdf.Rect(72, 150, 100, 178)))

    def draw(page: pymupdf.Page) -> None:
        page.insert_image(pymupdf.Rect(50, 80, 500, 300), stream=PHOTO, keep_proportion=False)
        write(page, 72, 150, ABOVE)
        write(page, 72, 200, BELOW)

    parse_with(engine, pdf_bytes(draw))
    assert engine.num_read == 0


def test_the_same_picture_on_several_pages_is_read_once_and_says_the_same_on_each() -> None:
    def draw(page: pymupdf.Page) -> None:
        write(page, 72, 100, f"{ABOVE} This is page {page.number}.")
        page.insert_image(pymupdf.Rect(72, 150, 372, 300), stream=PHOTO, keep_proportion=False)

    engine = FixedOcr("Inlet")
    document = parse_with(engine, pdf_bytes(draw, draw, draw))
    assert [block.text for block in document.blocks if block.kind == "figure"] == ["Inlet"] * 3
    assert engine.num_read == 1


def test_a_picture_on_every_page_counts_once_against_the_limit() -> None:
    other = encoded(drawn(["y"]))

    def draw(page: pymupdf.Page) -> None:
        write(page, 72, 100, f"{ABOVE} This is page {page.number}.")
        page.insert_image(pymupdf.Rect(72, 150, 372, 300), stream=PHOTO, keep_proportion=False)
        if page.number == 2:
            page.insert_image(pymupdf.Rect(72, 350, 372, 500), stream=other, keep_proportion=False)

    engine = FixedOcr("Inlet")
    document = parse_with(engine, pdf_bytes(draw, draw, draw), ParseConfig(max_figures=2))
    assert [block.text for block in document.blocks if block.kind == "figure"] == ["Inlet"] * 4
    assert engine.num_read == 2


def test_a_picture_of_one_colour_is_not_read() -> None:
    engine = FixedOcr("x")
    grey = encoded(np.full((300, 600, 3), 200, np.uint8))

    def draw(page: pymupdf.Page) -> None:
        write(page, 72, 100, ABOVE)
        page.insert_image(pymupdf.Rect(72, 150, 372, 300), stream=grey, keep_proportion=False)

    parse_with(engine, pdf_bytes(draw))
    assert engine.num_read == 0


def test_pages_are_not_drawn_where_nobody_reads_their_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    content = page_with("Figure 1: the pump", pymupdf.Rect(72, 150, 372, 300))

    def fail(page: pymupdf.Page) -> None:
        raise AssertionError("drawn")

    monkeypatch.setattr(pymupdf.Page, "get_displaylist", fail)
    blocks = DocumentParser(ParseConfig(), SourcesConfig()).parse(raw_document(content, "a.pdf")).blocks
    assert [block.text for block in blocks if block.kind == "figure"] == ["Figure 1: the pump"]
