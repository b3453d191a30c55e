"""What a document does to its parsing process, and what that costs the others."""

import gc
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rag.config import ParseConfig, RagConfig, SourcesConfig
from rag.errors import ModelError, ParseError
from rag.parse.isolation import IsolatedParser
from rag.parts import build_document_parser
from tests.rag.parse.faulty import FaultyParser
from tests.rag.parse.parsing import parse, raw_document
from tests.rag.parse.pdf.drawing import pdf_bytes, write


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


def test_what_computes_for_ever_is_ended_by_the_processor_time_of_its_pages(
    parser: IsolatedParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.parse.isolation.CLOCK_FACTOR", 500)  # a machine may be that busy
    pages = pdf_bytes(*[lambda page: write(page, 72, 100, "text")] * 2) + b"loop"
    with pytest.raises(ParseError, match=r"took more than 2 s of processor time to parse \(parse\.max_seconds"):
        parser.parse(raw_document(pages, "a.pdf"))


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
