import io

import docx
import numpy as np
import pytest
from PIL import Image
from pptx import Presentation
from pptx.util import Pt

from rag.config import ParseConfig, SourcesConfig
from rag.data import Document
from rag.errors import ParseError
from rag.parse.figures import FigureReader, decode_frames
from rag.parse.media_type import GIF, JPEG, PNG, TIFF, WEBP
from rag.parse.ocr.engine import OcrEngine
from rag.parse.ocr.page import OcrReader
from rag.parse.parser import DocumentParser
from tests.rag.parse.ocr.pictures import FixedOcr, drawn, encoded
from tests.rag.parse.office.making import saved as office_file
from tests.rag.parse.parsing import parse, raw_document

PAGE = np.full((300, 200, 3), 255, np.uint8)


def parse_with(engine: OcrEngine, content: bytes, uri: str) -> Document:
    parser = DocumentParser(ParseConfig(), SourcesConfig(), OcrReader(engine, 200))
    return parser.parse(raw_document(content, uri))


def saved(kind: str, *frames: Image.Image) -> bytes:
    target = io.BytesIO()
    more = {"save_all": True, "append_images": list(frames[1:])} if len(frames) > 1 else {}
    frames[0].save(target, kind, **more)
    return target.getvalue()


@pytest.mark.parametrize(
    ("kind", "media_type"), [("PNG", PNG), ("JPEG", JPEG), ("TIFF", TIFF), ("WEBP", WEBP), ("GIF", GIF)]
)
def test_a_picture_is_a_page_of_text_with_boxes(kind: str, media_type: str) -> None:
    content = saved(kind, Image.fromarray(PAGE))
    document = parse_with(FixedOcr("The lease ends", "in March."), content, f"scan.{kind.lower()}")
    (block,) = document.blocks
    assert (document.metadata.media_type, document.num_pages, document.pages[0].route) == (media_type, 1, "ocr")
    assert "The lease ends" in block.text
    assert block.region is not None
    assert 0 <= block.region.box.x0 < block.region.box.x1 <= 200
    assert document.pages[0].confidence == 0.9


def test_a_tiff_has_a_page_for_each_of_its_pictures() -> None:
    content = saved("TIFF", Image.fromarray(PAGE), Image.fromarray(PAGE))
    assert parse_with(FixedOcr("A line of text"), content, "fax.tif").num_pages == 2


def test_a_picture_without_text_or_that_is_damaged_or_without_ocr_says_so() -> None:
    content = encoded(PAGE)
    with pytest.raises(ParseError, match="no text found in the picture"):
        parse_with(FixedOcr(), content, "a.png")
    with pytest.raises(ParseError, match="not readable as a picture"):
        parse_with(FixedOcr("x"), content[:60], "a.png")
    with pytest.raises(ParseError, match=r"needs OCR, and parse\.ocr is none"):
        parse(content, "a.png")
    with pytest.raises(ParseError, match="not a picture"):
        parse(b"text", "a.png")


def test_pictures_inside_office_files_are_figures_where_they_hold_text() -> None:
    photo = io.BytesIO(encoded(drawn(["x"])))
    document = docx.Document()
    document.add_paragraph("Above the figure.")
    document.add_picture(photo)
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    photo.seek(0)
    slide.shapes.add_picture(photo, Pt(10), Pt(20), Pt(100), Pt(50)).name = "photo"
    in_text = parse_with(FixedOcr("Inlet", "Outlet"), office_file(document), "a.docx")
    on_slide = parse_with(FixedOcr("Inlet", "Outlet"), office_file(deck), "a.pptx")
    assert [(block.kind, block.text) for block in in_text.blocks][1] == ("figure", "Inlet\nOutlet")
    figure = on_slide.blocks[1]
    assert figure.kind == "figure"
    assert figure.text.endswith("Inlet\nOutlet")
    assert figure.region is not None
    assert figure.region.box.x1 == 110


def test_pictures_are_upright_and_clear_parts_are_white() -> None:
    wide = Image.new("RGB", (40, 20), "white")
    exif = wide.getexif()
    exif[0x0112] = 6  # to be turned by a quarter
    target = io.BytesIO()
    wide.save(target, "JPEG", exif=exif)
    (turned, _) = next(decode_frames(target.getvalue()))
    assert turned.shape == (40, 20, 3)
    (clear, _) = next(decode_frames(saved("PNG", Image.new("RGBA", (4, 4), (0, 0, 0, 0)))))
    assert clear.min() == 255


def test_figures_are_read_once_up_to_the_limit_and_small_ones_never() -> None:
    engine = FixedOcr("Pump", "Valve")
    reader = FigureReader(OcrReader(engine, 200), max_figures=2)
    first, second, third = (encoded(drawn([str(at)])) for at in range(3))
    figure = reader.read(first, "The circuit")
    assert figure is not None
    assert (figure.kind, figure.text) == ("figure", "The circuit\nPump\nValve")
    assert reader.read(first, "The circuit") is None
    assert reader.read(encoded(PAGE[:40, :40])) is None
    assert reader.read(second) is not None
    assert reader.read(third) is None
    assert engine.num_read == 2
