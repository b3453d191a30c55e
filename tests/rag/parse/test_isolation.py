"""What a document does to its parsing process, and what that costs the others."""

import gc
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pymupdf
import pytest

from rag.config import ParseConfig, RagConfig, SourcesConfig
from rag.data import Block, Document, PageReport
from rag.errors import ModelError, ParseError
from rag.parse.isolation import IsolatedParser
from rag.parts import build_document_parser
from tests.rag.parse.faulty import FaultyParser, parser_with_faults
from tests.rag.parse.ocr.pictures import drawn, encoded
from tests.rag.parse.parsing import parse, raw_document
from tests.rag.parse.pdf.drawing import Draw, pdf_bytes, write, write_lines


@pytest.fixture
def parser() -> Iterator[IsolatedParser]:
    isolated = IsolatedParser(FaultyParser, ParseConfig(max_seconds=1.0, max_page_seconds=0.5, documents_per_worker=3))
    yield isolated
    isolated.close()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("%PDF-crash", r"a\.pdf: the parser crashed \(SIGSEGV\)"),
        ("%PDF-killed", "was killed .SIGKILL., most likely because the machine ran out of memory"),
        ("%PDF-exit", "the parsing process ended .exit code 3."),
        ("%PDF-memory", r"took more memory to parse than 3,000 MB \(parse\.max_memory_mb\)"),
    ],
)
def test_a_fault_costs_one_document_and_is_named(parser: IsolatedParser, content: str, reason: str) -> None:
    before = parser.parse(raw_document("%PDF-1", "a.pdf")).content_hash
    with pytest.raises(ParseError, match=reason):
        parser.parse(raw_document(content, "a.pdf"))
    after = parser.parse(raw_document("%PDF-2", "b.pdf")).content_hash
    assert len({str(os.getpid()), before, after}) == 3


def test_what_computes_for_ever_beside_its_pages_is_ended_by_the_processor_time_of_the_document(
    parser: IsolatedParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.parse.isolation.CLOCK_FACTOR", 500)  # a machine may be that busy
    with pytest.raises(ParseError, match=r"took more than 2 s of processor time to parse \(parse\.max_seconds"):
        parser.parse(raw_document("%PDF-pages-loop", "a.pdf"))


def test_what_waits_for_ever_is_ended_by_the_clock(parser: IsolatedParser) -> None:
    with pytest.raises(ParseError, match=r"did not end within 4 s \(4 x the processor time"):
        parser.parse(raw_document("%PDF-hang", "a.pdf"))


def test_an_error_comes_back_as_it_was_raised_and_keeps_the_process(parser: IsolatedParser) -> None:
    first = parser.parse(raw_document("%PDF-1", "a.pdf")).content_hash
    with pytest.raises(ModelError, match="no model"):
        parser.parse(raw_document("%PDF-model", "a.pdf"))
    assert parser.parse(raw_document("%PDF-1", "a.pdf")).content_hash == first


def test_a_process_is_replaced_after_so_many_documents_and_ends_with_its_parser() -> None:
    isolated = IsolatedParser(FaultyParser, ParseConfig(documents_per_worker=2))
    first, second, third = (int(isolated.parse(raw_document("%PDF-1", "a.pdf")).content_hash) for _ in range(3))
    assert first == second != third == isolated.worker_pid
    del isolated
    gc.collect()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{third}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{third}").exists()


def test_short_texts_are_parsed_in_this_process() -> None:
    isolated = IsolatedParser(FaultyParser, ParseConfig())
    assert isolated.parse(raw_document("text", "a.md")).content_hash == str(os.getpid())
    assert isolated.worker_pid is None


def paged(number: int) -> Draw:
    """A page with a running header, a heading, a paragraph and a table."""

    def draw(page: pymupdf.Page) -> None:
        write(page, 72, 40, f"The handbook, page {number}")
        write(page, 72, 100, f"{number} Chapter", 16, bold=True)
        write_lines(page, 72, 140, [f"Paragraph {number} is long enough to be", "read."])
        for row in range(4):
            for column in range(3):
                page.draw_rect(pymupdf.Rect(72 + 90 * column, 200 + 20 * row, 162 + 90 * column, 220 + 20 * row))
                write(page, 76 + 90 * column, 214 + 20 * row, f"{number}.{row}.{column}")

    return draw


PAGES = pdf_bytes(*map(paged, range(1, 6)))
WHOLE = parse(PAGES, "a.pdf", SourcesConfig())
FEW = ParseConfig(max_seconds=1.0, max_page_seconds=0.5, max_memory_mb=600, pages_per_slice=2, max_lost_pages=2)

HASTY = FEW.model_copy(update={"max_seconds": 0.4, "max_page_seconds": 0.1})


def parse_with_faults(
    faults: dict[int, str], step: str = "read", config: ParseConfig = FEW, content: bytes = PAGES
) -> Document:
    isolated = IsolatedParser(partial(parser_with_faults, step, faults), config)
    try:
        return isolated.parse(raw_document(content, "a.pdf"))
    finally:
        isolated.close()


def without(document: Document, *numbers: int) -> tuple[list[Block], list[PageReport]]:
    """The blocks and reports of all pages but these."""
    blocks = [block for block in document.blocks if block.region is None or block.region.page not in numbers]
    return blocks, [page for page in document.pages if page.page not in numbers]


@pytest.mark.parametrize(
    ("step", "fault", "config", "reason"),
    [
        ("read", "crash", FEW, "the parser crashed (SIGSEGV)"),
        ("read", "crash", ParseConfig(), "the parser crashed (SIGSEGV)"),  # of a document that is one slice
        ("lay", "crash", FEW, "the parser crashed (SIGSEGV)"),
        ("read", "loop", FEW, "took more than 1.5 s of processor time to parse (parse.max_seconds, max_page_seconds)"),
        ("read", "hang", HASTY, "did not end within 2 s (4 x the processor time allowed)"),
        ("lay", "memory", FEW, "took more memory to parse than 600 MB (parse.max_memory_mb)"),
        ("lay", "raise", FEW, "damaged: cannot find object in xref"),
    ],
)
def test_a_fault_on_a_page_costs_that_page_and_is_named(
    step: str, fault: str, config: ParseConfig, reason: str
) -> None:
    document = parse_with_faults({3: fault}, step, config)
    assert document.pages[2] == PageReport(3, "lost", reason, 0)
    assert without(document, 3) == without(WHOLE, 3)
    assert (document.num_pages, len(document.blocks)) == (5, 12)


@pytest.mark.parametrize("step", ["read", "lay"])
def test_a_slice_that_fails_once_is_taken_again_and_those_before_it_are_not(step: str, tmp_path: Path) -> None:
    faults = {2: f"crash the second time:{tmp_path / 'page 2'}", 4: f"crash the first time:{tmp_path / 'page 4'}"}
    assert parse_with_faults(faults, step) == WHOLE
    assert {path.name for path in tmp_path.iterdir()} == {"page 2", "page 4"}


def test_a_document_with_too_many_bad_pages_is_an_error_that_names_them() -> None:
    reason = "a.pdf: 3 of 5 pages are lost (parse.max_lost_pages is 2): page 1: damaged: cannot find object in xref; "
    with pytest.raises(ParseError) as caught:
        parse_with_faults({1: "raise", 2: "crash", 4: "crash", 5: "crash"})
    assert str(caught.value) == reason + "page 2: the parser crashed (SIGSEGV); page 4: the parser crashed (SIGSEGV)"


def test_a_document_all_of_whose_pages_are_lost_is_an_error() -> None:
    crashed = "the parser crashed (SIGSEGV)"
    with pytest.raises(ParseError) as caught:
        parse_with_faults({1: "crash", 2: "crash"}, content=pdf_bytes(paged(1), paged(2)))
    assert str(caught.value) == f"a.pdf: no page can be read: page 1: {crashed}; page 2: {crashed}"
    with pytest.raises(ParseError) as caught:
        parse_with_faults({1: "crash"}, content=pdf_bytes(paged(1)))
    assert str(caught.value) == f"a.pdf: {crashed}"


@pytest.mark.parametrize("pages_per_slice", [1, 2, 4])
def test_slices_change_nothing(pages_per_slice: int) -> None:
    assert parse_with_faults({}, config=ParseConfig(pages_per_slice=pages_per_slice)) == WHOLE


def test_pictures_that_a_process_read_count_in_the_one_after_it() -> None:
    def with_picture(words: str) -> Draw:
        def draw(page: pymupdf.Page) -> None:
            write(page, 72, 100, "The pump is driven by the motor on the left of the hall.")
            page.insert_image(pymupdf.Rect(72, 150, 372, 300), stream=encoded(drawn([words])), keep_proportion=False)

        return draw

    document = parse_with_faults({2: "crash"}, "lay", content=pdf_bytes(*map(with_picture, "xyz")))
    assert [block.region.page for block in document.blocks if block.kind == "figure" and block.region] == [1]
    assert [page.route for page in document.pages] == ["text", "lost", "text"]


def test_real_documents_and_their_reasons_are_the_same_on_both_sides_of_the_border(tmp_path: Path) -> None:
    config = RagConfig(store=tmp_path, var=tmp_path, models=tmp_path)
    isolated = IsolatedParser(partial(build_document_parser, config), config.parse)
    text = pdf_bytes(lambda page: write(page, 72, 100, "The text of the only page, long enough to count."))
    assert isolated.parse(raw_document(text, "a.pdf")) == parse(text, "a.pdf", SourcesConfig())
    with pytest.raises(ParseError, match="encrypted: needs a password"):
        isolated.parse(raw_document(pdf_bytes(lambda page: write(page, 72, 100, "x"), password="p"), "a.pdf"))
    with pytest.raises(ParseError, match="damaged"):
        isolated.parse(raw_document(b"%PDF-1.7 nothing else", "a.pdf"))
    isolated.close()
