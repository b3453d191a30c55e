"""The whole job with the deterministic hashing embedder: what it decides, in one process; tests on Ray are apart."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import jobs.ingest
from jobs.ingest import Cut, ingest
from jobs.ingest_engine import LocalEngine
from jobs.ingest_plan import Plan, make_plan
from jobs.ingest_report import IngestReport
from rag.config import RagConfig, SmokeConfig, SourcesConfig
from rag.data import Chunk, SourceObject
from rag.errors import ConfigError, IndexMismatch, InputError, RagError
from rag.ids import ChunkId, VersionId
from rag.index.registry import DocumentRecord
from rag.index.segment import open_chunks, read_vectors
from rag.index.store import IndexStore
from rag.parts import build_chunker, build_embedder, build_parser
from rag.read.objects import read_object
from rag.read.sources import list_sources
from rag.tables import table_to_chunks

SMALL = Cut(block_documents=3, segment_chunks=4)


class Progress:
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.documents = self.chunks = 0

    def stage(self, name: str, total: int = 0) -> None:
        self.stages.append(name)

    def advance(self, documents: int, chunks: int) -> None:
        self.documents += documents
        self.chunks += chunks


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return RagConfig.model_validate(
        {
            "store": tmp_path / "store",
            "var": tmp_path / "var",
            "models": tmp_path / "models",
            "sources": {"default_groups": ["staff"]},
            "chunk": {"max_tokens": 40, "min_tokens": 0},
            "embed": {"embedder": "hashing"},
        }
    )


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    for number in range(7):
        write_page(root / f"team-{number % 2}" / f"page-{number}.md", number)
    return root


def write_page(path: Path, number: int, extra: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    paragraphs = [f"Paragraph {part} of page {number} says that rule {number * 10 + part} holds." for part in range(6)]
    path.write_text(f"# Page {number}\n\n" + "\n\n".join(paragraphs) + f"\n\n{extra}")


def run(config: RagConfig, *roots: Path, full: bool = False) -> IngestReport:
    report = ingest(config, roots, full=full, progress=Progress(), engine=LocalEngine(), cut=SMALL)
    assert report.documents == report.indexed + report.unchanged + report.skipped + report.failed
    assert report.failed + report.skipped == len(report.errors)
    return report


def live_chunks(config: RagConfig) -> dict[ChunkId, Chunk]:
    """Every live chunk of the published version by id, read from the segments."""
    store = IndexStore(config.index_root)
    manifest = store.manifest(store.current())
    found: dict[ChunkId, Chunk] = {}
    for shard in manifest.shards:
        for entry in shard.segments:
            dead = store.tombstones(manifest, entry)
            chunks = table_to_chunks(open_chunks(store.segments_dir / entry.info.id))
            found |= {chunk.id: chunk for row, chunk in enumerate(chunks) if row not in dead}
    return found


def live_vectors(config: RagConfig) -> dict[ChunkId, bytes]:
    store = IndexStore(config.index_root)
    manifest = store.manifest(store.current())
    ids = live_chunks(config)
    vectors: dict[ChunkId, bytes] = {}
    for shard in manifest.shards:
        for entry in shard.segments:
            stored = read_vectors(store.segments_dir / entry.info.id, list(ids))
            vectors |= {name: vector.tobytes() for name, vector in stored.items()}
    return vectors


def expected_chunks(config: RagConfig, root: Path) -> dict[ChunkId, Chunk]:
    """The chunks of the root by the parts alone, in this process."""
    parser, chunker = build_parser(config), build_chunker(config)
    sources = [found for found in list_sources(root, config.sources) if isinstance(found, SourceObject)]
    documents = [parser.parse(read_object(source, config.sources)) for source in sources]
    return {chunk.id: chunk for document in documents for chunk in chunker.chunk(document)}


def test_the_index_holds_what_the_parts_make_in_one_process(config: RagConfig, corpus: Path) -> None:
    report = run(config, corpus)
    expected = expected_chunks(config, corpus)
    assert live_chunks(config) == expected
    assert (report.indexed, report.chunks, report.embedded, report.reused) == (7, len(expected), len(expected), 0)
    assert report.published
    embedder = build_embedder(config)
    vectors = live_vectors(config)
    wanted = embedder.embed_passages([chunk.embedded_text for chunk in expected.values()])
    assert [vectors[name] for name in expected] == [vector.tobytes() for vector in wanted]


def test_every_document_lives_whole_in_its_shard(config: RagConfig, corpus: Path) -> None:
    run(config, corpus)
    store = IndexStore(config.index_root)
    records = store.registry(store.current())
    assert {record.shard for record in records} == {0, 1}
    chunks = live_chunks(config)
    assert Counter(chunk.document_id for chunk in chunks.values()) == {
        record.document_id: len(record.chunk_ids) for record in records
    }


def test_a_second_run_embeds_nothing_and_publishes_nothing(config: RagConfig, corpus: Path) -> None:
    first = run(config, corpus)
    second = run(config, corpus)
    assert (second.unchanged, second.indexed, second.embedded) == (7, 0, 0)
    assert second.version == first.version
    assert not second.published
    assert second.exit_code == 0
    assert second.chunks == first.chunks
    assert len(IndexStore(config.index_root).versions()) == 1


def test_a_touched_file_with_the_same_bytes_is_unchanged(config: RagConfig, corpus: Path) -> None:
    run(config, corpus)
    os.utime(corpus / "team-0" / "page-0.md", ns=(1, 1))
    report = run(config, corpus)
    assert (report.unchanged, report.embedded, report.published) == (7, 0, False)


def test_an_edit_embeds_only_the_chunks_that_changed(config: RagConfig, corpus: Path) -> None:
    run(config, corpus)
    before = live_chunks(config)
    write_page(corpus / "team-1" / "page-3.md", 3, extra="One more paragraph about something else, at the end.")
    report = run(config, corpus)
    expected = expected_chunks(config, corpus)
    assert (report.indexed, report.unchanged) == (1, 6)
    assert 0 < report.embedded == len(expected.keys() - before.keys())
    assert report.reused > 0
    assert live_chunks(config) == expected


def registry(config: RagConfig, version: str | None) -> list[DocumentRecord]:
    assert version is not None
    return IndexStore(config.index_root).registry(VersionId(version))


def test_another_reader_embeds_nothing_and_reaches_every_chunk(config: RagConfig, corpus: Path) -> None:
    first = run(config, corpus)
    vectors = live_vectors(config)
    rules = [{"pattern": "team-1/**", "groups": ["team-1"]}]
    narrower = RagConfig.model_validate(
        {**config.model_dump(), "sources": {"default_groups": ["staff"], "rules": rules}}
    )
    report = run(narrower, corpus)
    assert (report.indexed, report.unchanged, report.embedded) == (3, 4, 0)
    in_team_1 = [record for record in registry(config, first.version) if record.uri.startswith("team-1/")]
    assert report.reused == sum(len(record.chunk_ids) for record in in_team_1)
    groups = {chunk.metadata.uri.split("/")[0]: chunk.metadata.access.groups for chunk in live_chunks(config).values()}
    assert groups == {"team-0": ("staff",), "team-1": ("team-1",)}
    assert live_vectors(config) == vectors


def test_a_deleted_file_leaves_the_index(config: RagConfig, corpus: Path) -> None:
    run(config, corpus)
    (corpus / "team-0" / "page-2.md").unlink()
    report = run(config, corpus)
    assert (report.deleted, report.documents, report.embedded, report.published) == (1, 6, 0, True)
    assert "team-0/page-2.md" not in {chunk.metadata.uri for chunk in live_chunks(config).values()}
    assert live_chunks(config) == expected_chunks(config, corpus)


def test_an_update_holds_the_same_chunks_as_a_rebuild(config: RagConfig, corpus: Path) -> None:
    run(config, corpus)
    write_page(corpus / "team-0" / "page-4.md", 40)
    (corpus / "team-1" / "page-1.md").unlink()
    run(config, corpus)
    updated = (live_chunks(config), live_vectors(config))
    rebuilt = run(config, corpus, full=True)
    assert (rebuilt.indexed, rebuilt.reused) == (6, 0)
    assert (live_chunks(config), live_vectors(config)) == updated


def test_two_builds_from_nothing_have_equal_content(config: RagConfig, corpus: Path, tmp_path: Path) -> None:
    run(config, corpus)
    elsewhere = config.model_copy(update={"store": tmp_path / "another store"})
    run(elsewhere, corpus)
    stores = [IndexStore(c.index_root) for c in (config, elsewhere)]
    contents = [store.manifest(store.current()).content for store in stores]
    assert contents[0] == contents[1]


def test_a_rebuild_can_be_rolled_back(config: RagConfig, corpus: Path) -> None:
    first = run(config, corpus)
    write_page(corpus / "new.md", 99)
    second = run(config, corpus, full=True)
    assert second.version != first.version
    assert IndexStore(config.index_root).rollback() == first.version


def test_two_roots_live_side_by_side(config: RagConfig, corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_page(other / "one.md", 50)
    run(config, corpus)
    run(config, other)
    report = run(config, corpus)
    assert (report.unchanged, report.deleted) == (7, 0)
    assert live_chunks(config) == {**expected_chunks(config, corpus), **expected_chunks(config, other)}


BAD_INPUTS = {
    "empty.md": b"",
    "zero.pdf": b"",
    "truncated.pdf": b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog",
    "binary.md": bytes(range(256)) * 8,
    "latin.txt": "Gr\u00fc\u00dfe aus Z\u00fcrich".encode("latin-1"),
    "large.txt": b"many words in a large file " * 2_000,
}


def test_every_bad_input_is_one_error_row_and_the_rest_is_indexed(config: RagConfig, corpus: Path) -> None:
    for name, content in BAD_INPUTS.items():
        (corpus / name).write_bytes(content)
    (corpus / "team-0" / "cycle").symlink_to(corpus)
    limited = config.model_copy(
        update={
            "sources": config.sources.model_copy(update={"max_document_bytes": 10_000}),
            "index": config.index.model_copy(update={"max_error_share": 0.6}),
        }
    )
    report = run(limited, corpus)
    failed = Counter(row.uri for row in report.errors if row.error != "Unsupported")
    assert failed == dict.fromkeys(BAD_INPUTS, 1)
    assert [row.uri for row in report.errors if row.error == "Unsupported"] == ["team-0/cycle"]
    assert all(row.message for row in report.errors)
    assert (report.indexed, report.failed, report.skipped) == (7, 6, 1)
    assert report.exit_code == 1
    assert report.published
    written = [json.loads(line) for line in Path(report.errors_file).read_text().splitlines()]
    assert {row["uri"] for row in written} == {*BAD_INPUTS, "team-0/cycle"}
    assert pq.read_table(Path(report.errors_file).with_suffix(".parquet")).num_rows == 7


def test_a_file_deleted_between_listing_and_reading_is_an_error(
    config: RagConfig, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_then_delete(roots: Sequence[Path], sources: SourcesConfig, known: Iterable[DocumentRecord]) -> Plan:
        plan = make_plan(roots, sources, known)
        (corpus / "team-0" / "page-0.md").unlink(missing_ok=True)
        return plan

    monkeypatch.setattr("jobs.ingest.make_plan", list_then_delete)
    report = run(config, corpus)
    assert [(row.uri, row.stage) for row in report.errors] == [("team-0/page-0.md", "read")]
    assert "deleted between listing and reading" in report.errors[0].message
    assert report.indexed == 6
    again = run(config, corpus)
    assert (again.failed, again.unchanged) == (0, 6)


def test_a_document_that_breaks_keeps_its_last_good_state(config: RagConfig, corpus: Path) -> None:
    run(config, corpus)
    before = live_chunks(config)
    (corpus / "team-0" / "page-0.md").write_bytes(b"\xff\xff broken")
    report = run(config, corpus)
    assert (report.failed, report.unchanged, report.published) == (1, 6, False)
    assert live_chunks(config) == before


def test_but_not_when_its_readers_changed(config: RagConfig, corpus: Path) -> None:
    run(config, corpus)
    (corpus / "team-0" / "page-0.md").write_bytes(b"\xff\xff broken")
    rules = [{"pattern": "team-0/page-0.md", "groups": ["board"]}]
    narrower = RagConfig.model_validate(
        {**config.model_dump(), "sources": {"default_groups": ["staff"], "rules": rules}}
    )
    report = run(narrower, corpus)
    assert (report.failed, report.published) == (1, True)
    assert "team-0/page-0.md" not in {chunk.metadata.uri for chunk in live_chunks(config).values()}


def test_too_many_failures_publish_nothing_and_name_the_errors(config: RagConfig, corpus: Path) -> None:
    first = run(config, corpus)
    write_page(corpus / "good.md", 77)
    for number in range(5):
        (corpus / f"bad-{number}.md").write_bytes(b"\x00")
    with pytest.raises(RagError, match=r"5 of 13 documents failed.*errors are in") as caught:
        run(config, corpus)
    assert IndexStore(config.index_root).current() == first.version
    file = Path(str(caught.value).split("errors are in ")[1])
    assert len(file.read_text().splitlines()) == 5


def test_an_index_of_other_settings_needs_a_rebuild_by_name(config: RagConfig, corpus: Path) -> None:
    first = run(config, corpus)
    other = config.model_copy(update={"chunk": config.chunk.model_copy(update={"max_tokens": 64})})
    with pytest.raises(IndexMismatch, match="--full"):
        run(other, corpus)
    report = run(other, corpus, full=True)
    assert report.version != first.version
    assert live_chunks(other) == expected_chunks(other, corpus)


def test_a_killed_run_changes_nothing_and_its_vectors_are_used_again(
    config: RagConfig, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as context:
        context.setattr(jobs.ingest._Run, "_commit", die)
        with pytest.raises(Killed):
            run(config, corpus)
    store = IndexStore(config.index_root)
    assert store.current_or_none() is None
    report = run(config, corpus)
    assert (report.embedded, report.reused) == (0, report.chunks)
    assert live_chunks(config) == expected_chunks(config, corpus)
    assert [path.name for path in (store.root / "building").iterdir()] == ["lock"]


def test_only_one_run_writes_an_index(config: RagConfig, corpus: Path) -> None:
    with (
        IndexStore(config.index_root).writing(),
        pytest.raises(RagError, match="another run"),
    ):
        run(config, corpus)
    run(config, corpus)


def test_an_empty_folder_publishes_nothing(config: RagConfig, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    report = run(config, tmp_path / "empty")
    assert (report.documents, report.version, report.published, report.exit_code) == (0, None, False, 0)


def test_a_missing_path_is_the_callers_fault(config: RagConfig, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        run(config, tmp_path / "nowhere")


def test_progress_counts_every_document_and_chunk(config: RagConfig, corpus: Path) -> None:
    progress = Progress()
    report = ingest(config, [corpus], progress=progress, engine=LocalEngine(), cut=SMALL)
    assert (progress.documents, progress.chunks) == (7, report.chunks)
    assert progress.stages == ["listing", "parsing and embedding", "building segments", "publishing"]
    assert set(report.seconds) == {"list", "stream", "parse", "embed", "build", "commit", "publish", "quality", "wall"}


def test_the_report_is_json(config: RagConfig, corpus: Path) -> None:
    report = run(config, corpus)
    assert json.loads(json.dumps(report.to_json()))["indexed"] == 7
    assert replace(report, failed=1).exit_code == 1


# ---------------------------------------------------------------- the smoke test


def with_smoke(config: RagConfig, folder: Path, word: str, **settings: object) -> RagConfig:
    """The configuration with a golden question a page, each answered by that page's line with the word in it."""
    rows = [
        {
            "id": f"g{number}",
            "kind": "lookup",
            "question": f"What says that rule {number * 10} of page {number} holds?",
            "as": "ann",
            "history": [],
            "relevant": [{"document": f"team-{number % 2}/page-{number}.md", "span": f"{word} {number * 10} holds"}],
            "answer": "",
            "must_include": [],
        }
        for number in range(7)
    ]
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "principals.yaml").write_text("principals: [{name: ann, tenant: default, groups: [staff]}]")
    smoke = SmokeConfig.model_validate({"golden_file": folder / "golden.jsonl", "k": 20, **settings})
    return config.model_copy(update={"smoke": smoke})


def test_a_version_that_passes_the_smoke_test_goes_live_with_its_figures(
    config: RagConfig, corpus: Path, tmp_path: Path
) -> None:
    tested = with_smoke(config, tmp_path, "rule")
    report = run(tested, corpus)
    assert (report.published, report.refused, report.exit_code) == (True, None, 0)
    assert report.smoke.startswith("passed (questions 7, recall@20 1,")
    store = IndexStore(config.index_root)
    manifest = store.manifest(store.current())
    assert manifest.smoke is not None
    assert (manifest.smoke["recall@20"], manifest.smoke["passed"]) == (1.0, 1.0)
    assert "smoke" in report.seconds
    assert run(tested, corpus).smoke == ""  # nothing new to test


def test_a_version_that_fails_it_is_kept_and_not_published(config: RagConfig, corpus: Path, tmp_path: Path) -> None:
    first = run(config, corpus)
    assert (first.smoke, first.published) == ("", True)
    write_page(corpus / "team-0" / "page-8.md", 8)
    refused = run(with_smoke(config, tmp_path, "law"), corpus)  # no page speaks of laws
    assert (refused.published, refused.version, refused.exit_code) == (False, first.version, 1)
    assert "recall@20 is 0.000, below smoke.min_recall 0.8" in refused.smoke
    assert refused.chunks == first.chunks
    store = IndexStore(config.index_root)
    assert store.current() == first.version
    assert refused.refused in store.versions()
    manifest = store.manifest(VersionId(refused.refused or ""))
    assert manifest.smoke is not None
    assert manifest.smoke["passed"] == 0.0
    # Once the questions are right, the same version passes, and no chunk is embedded again.
    published = run(with_smoke(config, tmp_path, "rule"), corpus)
    assert (published.version, published.embedded, published.exit_code) == (refused.refused, 0, 0)
    assert live_chunks(config) == expected_chunks(config, corpus)


def test_a_first_version_that_fails_it_leaves_nothing_live(config: RagConfig, corpus: Path, tmp_path: Path) -> None:
    report = run(with_smoke(config, tmp_path, "law"), corpus)
    assert (report.version, report.published, report.exit_code) == (None, False, 1)
    assert IndexStore(config.index_root).current_or_none() is None


def test_a_missing_golden_file_ends_the_run_before_it_begins(config: RagConfig, corpus: Path, tmp_path: Path) -> None:
    broken = config.model_copy(update={"smoke": SmokeConfig(golden_file=tmp_path / "none.jsonl")})
    with pytest.raises(ConfigError, match=r"smoke: .*none\.jsonl: no such file"):
        run(broken, corpus)
    assert not (config.index_root / "versions").exists()


def test_a_refused_version_is_an_error_whatever_is_allowed(
    config: RagConfig,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tested = with_smoke(config, tmp_path, "law")
    report = run(tested, corpus)
    monkeypatch.setattr(jobs.ingest, "load_config", lambda path: tested)
    monkeypatch.setattr(jobs.ingest, "ray_session", lambda address: nullcontext())
    monkeypatch.setattr(jobs.ingest, "ingest", lambda *_, **__: report)
    assert jobs.ingest.run(Path("rag.yaml"), [corpus], allow_failures=True) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert f"version {report.refused} did not pass the smoke test and was not published; nothing is live" in shown
    assert f"quire publish {report.refused}" in shown
