"""What an operator does to an index between ingests: reconcile, compact, revoke, reclaim, look at the status."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from jobs import cli
from jobs.compact import compact_index
from jobs.index_commands import live_summary, print_versions, revoke_named, shard_rows
from jobs.ingest import ingest
from jobs.ingest_engine import LocalEngine
from jobs.reconcile import reconcile
from rag.config import RagConfig, load_config
from rag.data import EncodedQuery, Principal
from rag.errors import IndexDamaged
from rag.index.contents import read_chunks
from rag.index.revoke import revoke
from rag.index.store import open_store
from rag.local import open_shards
from rag.parts import build_embedder
from tests.jobs.test_ingest import Progress, write_page

STAFF = Principal("ann", "default", frozenset({"staff"}))
Quire = Callable[..., int]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    for number in range(4):
        write_page(root / f"page-{number}.md", number)
    return root


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    settings = {
        "store": "store",
        "var": "var",
        "models": "models",
        "sources": {"default_groups": ["staff"]},
        "chunk": {"max_tokens": 40, "min_tokens": 0},
        "embed": {"embedder": "hashing"},
        "index": {"keep_versions": 1, "reclaim_grace_s": 0},
    }
    (tmp_path / "serve.yaml").write_text("http_options: {port: 1}\napplications: []\n")
    (tmp_path / "rag.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path / "rag.yaml"


@pytest.fixture
def config(config_file: Path, corpus: Path) -> RagConfig:
    config = load_config(config_file)
    update(config, corpus)
    return config


@pytest.fixture
def quire(monkeypatch: pytest.MonkeyPatch, config_file: Path) -> Quire:
    """Run a command on the index as a shell would; the exit code."""

    def run(*arguments: object) -> int:
        where = ("--config-dir", config_file.parent) if arguments[0] == "status" else ("--config", config_file)
        monkeypatch.setattr("sys.argv", ["quire", *map(str, arguments), *map(str, where)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return int(caught.value.code or 0)

    return run


def update(config: RagConfig, *roots: Path) -> None:
    ingest(config, roots, progress=Progress(), engine=LocalEngine())


def uris(config: RagConfig) -> set[str]:
    store = open_store(config)
    return {chunk.metadata.uri for chunk in read_chunks(store, store.current())}


def found(config: RagConfig) -> set[str]:
    """The documents that the staff finds in the live version."""
    version = open_store(config).current()
    query = EncodedQuery("page rule", build_embedder(config).embed_queries(["page rule"])[0], STAFF, version)
    shards = open_shards(config, version)
    ids = {c.chunk_id for shard in shards for c in shard.search(query, 99, 99).dense}
    return {chunk.metadata.uri for shard in shards for chunk in shard.fetch(query, sorted(ids))}


# ---------------------------------------------------------------- reconcile


def test_an_index_that_agrees_with_its_sources_has_nothing_to_repair(config: RagConfig) -> None:
    report = reconcile(config)
    assert (report.exit_code, report.indexed, report.listed) == (0, 4, 4)
    assert report.missed_deletes == report.missing == report.changed == report.other_readers == report.unlisted == ()


def test_a_missed_deletion_is_shown_and_repaired_only_when_asked(config: RagConfig, corpus: Path) -> None:
    (corpus / "page-0.md").unlink()
    write_page(corpus / "page-1.md", 1, extra="An edit.")
    write_page(corpus / "page-9.md", 9)
    before = open_store(config).current()
    report = reconcile(config)
    assert (report.missed_deletes, report.changed, report.missing) == (("page-0.md",), ("page-1.md",), ("page-9.md",))
    assert (report.exit_code, open_store(config).current()) == (1, before)
    repaired = reconcile(config, repair=True)
    assert repaired.version == open_store(config).current() != before
    assert uris(config) == {"page-1.md", "page-2.md", "page-3.md"}
    assert reconcile(config, repair=True).missed_deletes == ()
    update(config, corpus)
    assert reconcile(config).exit_code == 0


def test_other_readers_are_named(config: RagConfig, corpus: Path) -> None:
    rules = config.sources.model_validate(
        {**config.sources.model_dump(), "rules": [{"pattern": "page-2.md", "groups": ["board"]}]}
    )
    report = reconcile(config.model_copy(update={"sources": rules}))
    assert (report.other_readers, report.changed) == (("page-2.md",), ())


def test_a_folder_that_is_nowhere_deletes_nothing(config: RagConfig, corpus: Path) -> None:
    corpus.rename(corpus.with_name("unmounted"))
    report = reconcile(config, repair=True)
    assert (report.missed_deletes, report.unlisted, report.exit_code) == ((), (str(corpus),), 1)
    assert len(uris(config)) == 4


def test_a_version_that_contradicts_its_registry_is_damaged(config: RagConfig) -> None:
    store = open_store(config)
    manifest = store.manifest(store.current())
    other = manifest.content.registry
    (store.documents_dir / other.name).write_bytes(b"not parquet")
    with pytest.raises(IndexDamaged, match="parquet"):
        reconcile(config)


# ---------------------------------------------------------------- the rest, through the command


def test_compaction_drops_what_edits_left_and_finds_the_same(config: RagConfig, corpus: Path) -> None:
    for number in (0, 1):
        write_page(corpus / f"page-{number}.md", number, extra="An edit.")
        update(config, corpus)
    before, held = found(config), live_summary(config)
    report = compact_index(config, everything=True)
    after = live_summary(config)
    assert (report.published, report.version) == (True, after["version"])
    assert report.rows_dropped == held["tombstones"] > 0
    assert (after["tombstones"], after["chunks"]) == (0, held["chunks"])
    assert after["segments"] < held["segments"]
    assert found(config) == before
    assert not compact_index(config, everything=True).published
    write_page(corpus / "page-2.md", 2, extra="An edit.")
    update(config, corpus)
    assert found(config) == before


def test_status_says_how_much_there_is_and_how_late_it_was(
    config: RagConfig, corpus: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    write_page(corpus / "page-0.md", 0, extra="An edit.")
    (corpus / "noise.xyz").write_text("no such type")
    update(config, corpus)
    assert quire("status", "--json") == 0
    index = json.loads(capsys.readouterr().out)["index"]
    assert (index["documents"], index["errors"], index["revocations"], index["made_by"]) == (4, 1, 0, "ingest")
    assert 0 <= index["lag_p50_s"] <= index["lag_max_s"] < 3600
    shards = index["per_shard"]
    assert sum(shard["chunks"] for shard in shards) == index["chunks"]
    assert sum(shard["size_bytes"] for shard in shards) == index["size_bytes"] > 0
    assert shards == shard_rows(config)
    assert quire("status") == 0
    assert "Shards" in capsys.readouterr().out


def test_a_document_is_revoked_and_opened_again_by_command(
    config: RagConfig, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quire("revoke", "page-1.md") == 0
    assert "revoked: document page-1.md" in capsys.readouterr().out
    assert found(config) == {"page-0.md", "page-2.md", "page-3.md"}
    assert quire("revoke", "--list", "--json") == 0
    assert [entry["label"] for entry in json.loads(capsys.readouterr().out)] == ["page-1.md"]
    assert quire("revoke", "page-1.md", "--undo") == 0
    assert len(found(config)) == 4
    assert quire("revoke", "no-such-page.md") == 1
    assert quire("revoke") == 2
    assert quire("revoke", "staff", "--document", "--group") == 2


def test_the_ingest_that_applies_a_revocation_ends_it(config: RagConfig, corpus: Path) -> None:
    store = open_store(config)
    revoke_named(config, "page-1.md", None, None, undo=False)
    write_page(corpus / "page-1.md", 1, extra="An edit, and the same readers.")
    update(config, corpus)
    assert "page-1.md" in uris(config) - found(config)
    assert store.revocations().revocations[0].absorbed_at is None
    (corpus / "page-1.md").unlink()
    update(config, corpus)
    assert store.revocations().revocations[0].absorbed_at is not None
    write_page(corpus / "page-1.md", 1)
    update(config, corpus)
    assert "page-1.md" in found(config)  # the source has it again, and a new version may say so


def test_a_revoked_group_stays_revoked_through_edits(config: RagConfig, corpus: Path) -> None:
    revoke(open_store(config), "staff", "group")
    write_page(corpus / "page-1.md", 1, extra="An edit.")
    update(config, corpus)
    assert found(config) == set()


def test_every_publishing_run_reclaims_what_the_policy_no_longer_keeps(
    config: RagConfig, corpus: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        write_page(corpus / "page-0.md", 0, extra=f"Edit {number}.")
        update(config, corpus)
    assert len(open_store(config).versions()) == 2  # the live one and its parent
    print_versions(config, as_json=True)
    assert [line["made_by"] for line in json.loads(capsys.readouterr().out)] == ["ingest", "ingest"]
    assert quire("reclaim", "--json") == 0
    assert json.loads(capsys.readouterr().out)["versions"] == []
    assert quire("rollback") == 0
    assert quire("rollback") == 1
    assert quire("reconcile", "--json") == 1
    assert quire("compact", "--json") == 0
