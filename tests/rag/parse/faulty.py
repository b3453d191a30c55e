"""Parsers that do to their process what hostile files do to native code."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pymupdf

import rag.parse.pdf.parser as pdf_parser
from rag.config import ParseConfig, SourcesConfig
from rag.data import Document, RawDocument
from rag.errors import ModelError
from rag.ids import document_id
from rag.parse.ocr.page import OcrReader
from rag.parse.pages import PageWork
from rag.parse.parser import DocumentParser
from rag.parse.pdf.tables import FoundTable, find_tables
from rag.parse.pdf.text_layer import PageText, read_page
from tests.rag.parse.ocr.pictures import FixedOcr


class FaultyParser:
    """Does what the document's bytes say; that of any others holds the id of the process as its hash."""

    def parse(self, raw: RawDocument, work: PageWork) -> Document:
        said = raw.content.decode().removeprefix("%PDF-")
        if said == "model":
            raise ModelError("no model")
        if said == "pages-loop":
            assert list(work.each_page("read", 2, lambda at: at)) == [0, 1]
        _do(said.removeprefix("pages-"))
        return Document(document_id("t", raw.metadata.uri), str(os.getpid()), raw.metadata, ())


def parser_with_faults(step: str, faults: Mapping[int, str]) -> DocumentParser:
    """A real parser, the only one of its process, that meets the faults on the pages of these numbers, in that step.

    It reads a single picture.
    """

    def read(page: pymupdf.Page, number: int) -> PageText:
        _do(faults.get(number, "") if step == "read" else "")
        return read_page(page, number)

    def find(page: pymupdf.Page, text: PageText) -> list[FoundTable]:
        _do(faults.get(text.number, "") if step == "lay" else "")
        return find_tables(page, text)

    for name, function in (("read_page", read), ("find_tables", find)):
        setattr(pdf_parser, name, function)
    return DocumentParser(ParseConfig(max_figures=1), SourcesConfig(), OcrReader(FixedOcr("Inlet"), 200))


def _do(fault: str) -> None:
    match fault.split(":"):
        case ["crash"]:
            os.kill(os.getpid(), signal.SIGSEGV)
        case ["killed"]:
            os.kill(os.getpid(), signal.SIGKILL)
        case ["exit"]:
            os._exit(3)
        case ["hang"]:
            time.sleep(600)
        case ["loop"]:
            while True:
                pass
        case ["memory"]:
            held: list[bytes] = []
            while True:
                held.append(bytes(1 << 26))
        case ["raise"]:
            raise RuntimeError("cannot find object in xref")
        case ["crash the first time" | "crash the second time" as fault, path]:
            is_first = not Path(path).exists()
            Path(path).touch()
            if is_first == ("first" in fault):
                os.kill(os.getpid(), signal.SIGSEGV)
