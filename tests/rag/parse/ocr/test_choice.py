"""What the configuration says about OCR and isolation is what is built."""

import shutil
from pathlib import Path

import pymupdf
import pytest

from rag.config import ParseConfig, RagConfig
from rag.data import Document
from rag.errors import ModelError, ParseError
from rag.parse.isolation import IsolatedParser
from rag.parse.ocr.engine import Picture, RecognizedLine
from rag.parse.ocr.page import OcrReader
from rag.parse.ocr.rapid import RapidOcr
from rag.parse.ocr.tesseract import TesseractOcr
from rag.parse.parser import DocumentParser
from rag.parts import build_ocr, build_parser
from tests.rag.parse.ocr.pictures import drawn, encoded
from tests.rag.parse.parsing import raw_document
from tests.rag.parse.pdf.drawing import pdf_bytes


def config_with(parse: ParseConfig) -> RagConfig:
    here = Path()
    return RagConfig(store=here, var=here, models=here, parse=parse)


def scan() -> bytes:
    """A page that is a picture of a page."""

    def draw(page: pymupdf.Page) -> None:
        page.insert_image(page.rect, stream=encoded(drawn(["The lease ends in March", "of the next year."], width=306)))

    return pdf_bytes(draw)


def test_the_engine_is_chosen_by_name() -> None:
    rapid = build_ocr(config_with(ParseConfig(ocr_dpi=150)))
    tesseract = build_ocr(config_with(ParseConfig(ocr="tesseract", ocr_languages=("deu", "eng"))))
    assert rapid is not None
    assert tesseract is not None
    assert (type(rapid.engine), rapid.dpi) == (RapidOcr, 150)
    assert (type(tesseract.engine), tesseract.dpi) == (TesseractOcr, 200)
    assert build_ocr(config_with(ParseConfig(ocr="none"))) is None


def test_isolation_and_where_it_runs_are_no_part_of_what_an_index_is() -> None:
    here = build_parser(config_with(ParseConfig(isolation="none")))
    assert isinstance(here, DocumentParser)
    assert isinstance(build_parser(config_with(ParseConfig())), IsolatedParser)
    moved = ParseConfig(isolation="none", max_seconds=1, max_memory_mb=600, documents_per_worker=1, ocr_threads=2)
    usual = config_with(ParseConfig()).index_fingerprint()
    assert config_with(moved).index_fingerprint() == usual
    assert config_with(ParseConfig(ocr="none")).index_fingerprint() != usual


def test_a_page_is_drawn_as_finely_as_configured() -> None:
    class Measuring:
        width = 0

        def read(self, picture: Picture) -> list[RecognizedLine]:
            self.width = picture.shape[1]
            return []

    engine = Measuring()
    with pymupdf.open() as pdf:
        OcrReader(engine, 100).read_page(pdf.new_page(width=720, height=360), 1)
    assert engine.width == 1_000


def test_a_scan_is_read_and_its_report_says_how() -> None:
    parser = build_parser(config_with(ParseConfig(isolation="none", ocr_dpi=100)))
    document: Document = parser.parse(raw_document(scan(), "scan.pdf"))
    (block,) = document.blocks
    assert block.text == "The lease ends in March of the next year."
    (page,) = document.pages
    assert (page.route, page.num_characters > 30) == ("ocr", True)
    assert 0.8 < page.confidence < 1


def test_without_ocr_a_scan_says_what_it_needs() -> None:
    parser = build_parser(config_with(ParseConfig(isolation="none", ocr="none")))
    with pytest.raises(ParseError, match="scanned: no text layer on any of 1 pages; needs OCR"):
        parser.parse(raw_document(scan(), "scan.pdf"))


def test_a_missing_engine_is_no_fault_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    parser = build_parser(config_with(ParseConfig(isolation="none", ocr="tesseract")))
    with pytest.raises(ModelError, match="install tesseract-ocr"):
        parser.parse(raw_document(scan(), "scan.pdf"))
