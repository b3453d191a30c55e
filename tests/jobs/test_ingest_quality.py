"""The quality report: what it counts, against documents whose counts are plain to see."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import jobs.ingest
from jobs.ingest_page import html_report
from jobs.ingest_quality import BIN_TOKENS, DocumentCounts, QualityReport, count_document
from jobs.ingest_report import histogram_rows, quality_rows
from rag.config import RagConfig
from rag.data import Access, Block, Box, Document, DocumentMetadata, PageReport, Region
from rag.errors import InputError
from rag.ids import document_id
from tests.jobs.test_ingest import live_chunks, run

GOLDEN = [
    ("g1", "a.md", "The blue door is open."),
    ("g2", "a.md", "no such sentence anywhere"),
    ("g3", "gone.md", "of a document that is not there"),
]


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    golden = tmp_path / "golden.jsonl"
    lines = [
        {"id": name, "kind": "lookup", "question": "q?", "as": "ada", "history": [], "answer": "a", "must_include": []}
        | {"relevant": [{"document": uri, "span": span}]}
        for name, uri, span in GOLDEN
    ]
    golden.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "principals.yaml").write_text("principals:\n- {name: ada, tenant: default, groups: [staff]}\n")
    return RagConfig.model_validate(
        {
            "store": tmp_path / "store",
            "var": tmp_path / "var",
            "models": tmp_path / "models",
            "sources": {"default_groups": ["staff"]},
            "chunk": {"max_tokens": 40, "min_tokens": 0},
            "embed": {"embedder": "hashing"},
            "index": {"max_error_share": 1.0},
            "smoke": {"golden_file": golden, "min_recall": 0, "max_zero_result_share": 1, "min_indexed_share": 0},
            "clean": {"pii_kinds": {"card": "narrow"}},
        }
    )


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    root.mkdir()
    long = " ".join(f"Sentence number {number} is a sentence of its own." for number in range(30))
    (root / "a.md").write_text(f"# Doors\n\nThe blue door is open.\n\n{long}\n\nWrite to ann@example.org.")
    (root / "b.md").write_text("# Fees\n\n| zone | fee |\n| --- | --- |\n| A | 12 |\n\n<b>bold</b>")
    (root / "copy.md").write_text("# Fees\n\n| zone | fee |\n| --- | --- |\n| A | 12 |\n\n<b>bold</b>\n")
    (root / "card.md").write_text("# Card\n\nPaid with 4111 1111 1111 1111.")
    (root / "broken.md").write_bytes(b"\x00\x01")
    return root


def test_documents_that_nobody_may_read_are_counted_and_said(config: RagConfig, corpus: Path) -> None:
    nobody = config.model_copy(update={"sources": config.sources.model_copy(update={"default_groups": ()})})
    quality = run(nobody, corpus).quality
    assert quality is not None
    assert quality.read.unreadable == quality.read.documents == 4
    assert str(quality_rows(quality)["readable by nobody"]).startswith("4 of 4 documents read in this run")


def test_every_figure_is_what_the_index_and_the_documents_say(config: RagConfig, corpus: Path) -> None:
    report = run(config, corpus)
    quality = report.quality
    assert quality is not None
    assert (quality.read.documents, quality.failed, quality.documents) == (4, 1, 4)
    assert (quality.read.tables, quality.read.tables_read) == (2, 2)
    assert (quality.read.narrowed, quality.read.unreadable) == (1, 1)
    assert (quality.exact_duplicates, quality.near_duplicates) == (1, 0)
    chunks = list(live_chunks(config).values())
    assert quality.chunks.chunks == report.chunks == len(chunks)
    assert quality.chunks.tokens_max == max(chunk.num_tokens for chunk in chunks)
    for least, count in quality.chunks.tokens:
        assert count == sum(least <= chunk.num_tokens < least + BIN_TOKENS for chunk in chunks)
    shown = [at for chunk in chunks for at in ((chunk.document_id, at) for at in range(chunk.start, chunk.end))]
    assert quality.chunks.overlap == pytest.approx((len(shown) - len(set(shown))) / len(shown), abs=1e-4)
    assert quality.chunks.overlap > 0
    assert quality.chunks.flags == {"pii:card": 1, "pii:email": 1}
    assert quality.answerability is not None
    assert (quality.answerability.spans, quality.answerability.within_one_chunk) == (2, 1)
    assert quality.answerability.not_indexed == 1
    assert quality.answerability.missing == ("g2: a.md: no such sentence anywhere",)
    assert set(quality.errors) == {("clean", "Duplicate", 1), ("parse", "ParseError", 1)}
    assert quality.rates["parser error rate"] == 0.2
    assert quality.rates["answer spans within one chunk"] == 0.5


def test_the_report_is_kept_with_its_version_and_an_unchanged_run_leaves_it(config: RagConfig, corpus: Path) -> None:
    report = run(config, corpus)
    folder = config.index_root / "reports"
    kept = (folder / f"{report.version}.json").read_text()
    assert json.loads(kept)["rates"]["near duplicates"] == 0.0
    assert (folder / f"{report.version}.html").read_text() == html_report(report)
    run(config, corpus)
    assert (folder / f"{report.version}.json").read_text() == kept
    assert json.loads((folder / "unchanged.json").read_text())["quality"]["read"]["documents"] == 0


def test_the_page_holds_figures_plots_and_errors_and_escapes_what_documents_say(
    config: RagConfig, corpus: Path
) -> None:
    (corpus / "<script>.md").write_bytes(b"\x00")
    page = html_report(run(config, corpus))
    assert page.count("<svg") == 2
    assert "answer spans within one chunk" in page
    assert "the same text and the same readers as" in page
    assert "<script>" not in page
    assert "&lt;script&gt;.md" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_tables_for_people_say_the_same(config: RagConfig, corpus: Path) -> None:
    quality = run(config, corpus).quality
    assert quality is not None
    rows = quality_rows(quality)
    assert rows["parser errors"] == "1 of 5 documents read in this run"
    assert rows["answer spans within one chunk"] == "1 of 2 (50.0%); documents of 1 more are not indexed"
    assert sum(count for _, count, _ in histogram_rows(quality)) == quality.chunks.chunks


def test_pages_are_counted_by_how_they_were_read() -> None:
    place = Box(0, 0, 1, 1)
    blocks = (Block("paragraph", "x", region=Region(1, place)), Block("table", "no table", region=Region(3, place)))
    pages = (
        PageReport(1, "text", "simple", 1),
        PageReport(2, "ocr", "scanned", 0, num_hidden=5),
        PageReport(3, "ocr", "scanned", 8),
        PageReport(4, "lost", "the parser crashed (SIGSEGV)", 0),
    )
    metadata = DocumentMetadata("a.pdf", "A", Access("t", ("g",)))
    document = Document(document_id("t", "a.pdf"), "h", metadata, blocks, 4, pages)
    counts = count_document(document, document)
    lost = ("a.pdf, page 4: the parser crashed (SIGSEGV)",)
    expected = DocumentCounts(1, 4, 2, {"lost": 1, "ocr": 2, "text": 1}, 1, 0, 5, lost=lost)
    assert counts == expected
    assert (counts + counts).pages_by_route == {"lost": 2, "ocr": 4, "text": 2}
    assert (counts + counts).lost == lost * 2


def test_pages_that_are_lost_are_named(config: RagConfig, corpus: Path) -> None:
    report = run(config, corpus)
    assert report.quality is not None
    assert "pages lost" not in quality_rows(report.quality)
    read = DocumentCounts(1, 4, 1, {"lost": 1, "text": 3}, lost=("a.pdf, page 4: the parser crashed (SIGSEGV)",))
    quality = replace(report.quality, read=read)
    row = "1 (25.0%), such as a.pdf, page 4: the parser crashed (SIGSEGV)"
    assert quality_rows(quality)["pages lost"] == row
    page = html_report(replace(report, quality=quality))
    assert "<h2>Pages that are lost</h2>" in page
    assert "<td>a.pdf, page 4: the parser crashed (SIGSEGV)</td>" in page


def test_an_empty_run_has_a_page_too(config: RagConfig, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    report = run(config, tmp_path / "empty")
    assert isinstance(report.quality, QualityReport)
    assert all(rate is None for rate in report.quality.rates.values())
    assert "no chunks" in html_report(report)


def test_the_command_prints_the_figures_and_writes_the_page(
    config: RagConfig,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = run(config, corpus)
    monkeypatch.setattr(jobs.ingest, "load_config", lambda path: config)
    monkeypatch.setattr(jobs.ingest, "ray_session", lambda address: nullcontext())
    monkeypatch.setattr(jobs.ingest, "ingest", lambda *_, **__: report)
    page = tmp_path / "report.html"
    jobs.ingest.run(Path("rag.yaml"), [corpus], page=page)
    shown = capsys.readouterr().out
    assert "answer spans within one chunk" in shown
    assert "█" in shown
    assert page.read_text() == html_report(report)
    jobs.ingest.run(Path("rag.yaml"), [corpus], as_json=True)
    assert json.loads(capsys.readouterr().out)["rates"]["parser error rate"] == 0.2
    with pytest.raises(InputError, match="the folder of the report does not exist"):
        jobs.ingest.run(Path("rag.yaml"), [corpus], page=tmp_path / "none" / "report.html")
