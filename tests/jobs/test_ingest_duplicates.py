"""Documents that say the same, over runs of the whole job: one is indexed, and another comes back when it goes."""

import os
from pathlib import Path

import pytest

from jobs.ingest_duplicates import group_records
from jobs.ingest_report import IngestReport
from rag.config import CleanConfig, RagConfig
from rag.ids import document_id
from rag.index.registry import DocumentRecord
from rag.index.store import IndexStore
from tests.jobs.test_ingest import live_chunks, run

TEXT = "\n\n".join(
    f"The {name} is asked for at the front desk, and whoever has one brings it back in the evening."
    for name in ("badge", "key", "parking card", "laptop", "bicycle", "umbrella")
)


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    folder = {"store": tmp_path / "store", "var": tmp_path / "var", "models": tmp_path / "models"}
    rules = [{"pattern": "hr/**", "groups": ["hr"]}]
    return RagConfig.model_validate(
        {
            **folder,
            "sources": {"default_groups": ["staff"], "rules": rules},
            "chunk": {"max_tokens": 40, "min_tokens": 0},
            "embed": {"embedder": "hashing"},
        }
    )


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    write(root / "a.md", TEXT, 2024)
    write(root / "copy.md", TEXT, 2021)
    write(root / "near.md", TEXT.replace("brings it back", "gives it back", 1), 2022)
    write(root / "other.md", "The canteen opens at noon, and closes when the soup is gone.", 2024)
    return root


def write(path: Path, text: str, year: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\ntitle: Front desk\ndate: {year}-01-01\n---\n\n{text}\n")


def records(config: RagConfig) -> dict[str, DocumentRecord]:
    store = IndexStore(config.index_root)
    return {record.uri: record for record in store.registry(store.current())}


def indexed(config: RagConfig) -> set[str]:
    found = {chunk.metadata.uri for chunk in live_chunks(config).values()}
    assert found == {uri for uri, record in records(config).items() if record.chunk_ids}
    return found


def counts(report: IngestReport) -> tuple[int, int, int, int]:
    return report.indexed, report.unchanged, report.skipped, report.failed


def test_of_documents_that_say_the_same_the_newest_is_indexed_and_the_others_name_it(
    config: RagConfig, corpus: Path
) -> None:
    report = run(config, corpus)
    assert indexed(config) == {"a.md", "other.md"}
    assert counts(report) == (2, 0, 2, 0)
    rows = {row.uri: row for row in report.errors}
    assert {(row.stage, row.error) for row in rows.values()} == {("clean", "Duplicate")}
    assert rows["copy.md"].message.startswith("the same text and the same readers as a.md")
    assert rows["near.md"].message.endswith(
        "of the wording and the same readers as a.md, which is indexed in its place"
    )
    again = run(config, corpus)
    assert counts(again) == (0, 2, 2, 0)
    assert not again.published


def test_a_copy_comes_back_when_the_one_that_was_kept_goes(config: RagConfig, corpus: Path) -> None:
    run(config, corpus)
    (corpus / "a.md").unlink()
    report = run(config, corpus)
    assert indexed(config) == {"near.md", "other.md"}
    assert counts(report) == (1, 1, 1, 0)
    (corpus / "near.md").unlink()
    assert counts(run(config, corpus)) == (1, 1, 0, 0)
    assert indexed(config) == {"copy.md", "other.md"}


def test_copies_come_back_when_the_one_that_was_kept_says_something_else(config: RagConfig, corpus: Path) -> None:
    run(config, corpus)
    write(corpus / "a.md", "Everything has moved to the basement, where nobody is at the desk.", 2024)
    report = run(config, corpus)
    assert indexed(config) == {"a.md", "near.md", "other.md"}
    assert counts(report) == (2, 1, 1, 0)


def test_a_better_copy_takes_over_and_the_one_before_leaves_the_index(config: RagConfig, corpus: Path) -> None:
    run(config, corpus)
    write(corpus / "newest.md", TEXT, 2026)
    report = run(config, corpus)
    assert indexed(config) == {"newest.md", "other.md"}
    assert counts(report) == (1, 1, 3, 0)
    assert {record.duplicate_of for uri, record in records(config).items() if uri != "other.md"} == {
        "",
        document_id("default", "newest.md"),
    }


def test_the_order_of_runs_does_not_matter(config: RagConfig, corpus: Path, tmp_path: Path) -> None:
    run(config, corpus / "near.md")
    run(config, corpus / "copy.md")
    run(config, corpus)
    step_by_step = {uri: record.duplicate_of for uri, record in records(config).items()}
    run(config, corpus, full=True)
    assert {uri: record.duplicate_of for uri, record in records(config).items()} == step_by_step


def test_a_copy_under_another_root_comes_back_as_well(config: RagConfig, corpus: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere / "far.md", TEXT, 2025)
    run(config, elsewhere)
    run(config, corpus)
    assert indexed(config) == {"far.md", "other.md"}
    (elsewhere / "far.md").unlink()
    write(elsewhere / "new.md", "The garden is open to all, and to their dogs.", 2025)
    report = run(config, elsewhere)
    assert indexed(config) == {"a.md", "new.md", "other.md"}
    assert (report.documents, report.indexed) == (2, 2)


def test_a_copy_that_can_not_be_read_again_is_an_error_until_it_can(config: RagConfig, corpus: Path) -> None:
    config = config.model_copy(update={"index": config.index.model_copy(update={"max_error_share": 1.0})})
    (corpus / "near.md").unlink()
    run(config, corpus)
    (corpus / "a.md").unlink()
    times = (corpus / "copy.md").stat()
    content = (corpus / "copy.md").read_bytes()
    (corpus / "copy.md").write_bytes(b"\x00" * len(content))
    os.utime(corpus / "copy.md", ns=(times.st_atime_ns, times.st_mtime_ns))
    report = run(config, corpus)
    assert counts(report) == (0, 1, 0, 1)
    (corpus / "copy.md").write_bytes(content)
    run(config, corpus)
    assert indexed(config) == {"copy.md", "other.md"}


def test_other_readers_keep_their_copy(config: RagConfig, corpus: Path) -> None:
    write(corpus / "hr" / "a.md", TEXT, 2023)
    run(config, corpus)
    assert indexed(config) == {"a.md", "hr/a.md", "other.md"}


@pytest.mark.parametrize(("duplicates", "expected"), [("off", 4), ("exact", 3), ("near", 2)])
def test_duplicates_are_looked_for_as_configured(
    config: RagConfig, corpus: Path, duplicates: str, expected: int
) -> None:
    clean = CleanConfig.model_validate({"duplicates": duplicates})
    assert run(config.model_copy(update={"clean": clean}), corpus).indexed == expected


def test_records_without_signatures_are_never_grouped() -> None:
    record = DocumentRecord(document_id("t", "a"), "a", "r", "c", "m", "w", 0, ())
    assert not group_records({record.document_id: record}, CleanConfig()).duplicates
