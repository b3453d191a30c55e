"""Runs that are killed, really and at any of their writes: what was live stays live, and the next run finishes.

The points are drawn from all writes that a run makes below its store, so that where it dies does not hang on timing.
"""

import multiprocessing
import os
import random
import shutil
import signal
import sys
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from jobs.compact import compact_index
from jobs.ingest import Cut, ingest
from jobs.ingest_engine import LocalEngine
from rag.config import RagConfig
from rag.data import EncodedQuery, Principal
from rag.ids import ChunkId, VersionId
from rag.index.consistency import check_version
from rag.index.contents import read_chunks
from rag.index.store import IndexStore, open_store
from rag.local import open_shards
from rag.parts import build_embedder
from tests.jobs.test_ingest import Progress, write_page

STAFF = Principal("ann", "default", frozenset({"staff"}))
POINTS = {"ingest": 14, "compact": 6}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_EVENTS = ("os.rename", "os.mkdir", "os.rmdir", "os.remove", "shutil.rmtree")


def settings(folder: Path) -> RagConfig:
    return RagConfig.model_validate(
        {
            "store": folder / "store",
            "var": folder / "var",
            "models": folder / "models",
            "sources": {"default_groups": ["staff"], "rules": [{"pattern": "page-5.md", "groups": ["board"]}]},
            "chunk": {"max_tokens": 40, "min_tokens": 0},
            "embed": {"embedder": "hashing"},
            "index": {"keep_versions": 1, "reclaim_grace_s": 0, "segment_chunks": 8},
        }
    )


def act(what: str, config: RagConfig, corpus: Path) -> None:
    if what == "compact":
        compact_index(config, everything=True)
    else:
        ingest(config, [corpus], progress=Progress(), engine=LocalEngine(), cut=Cut(block_documents=2))


def act_and_die(what: str, folder: str, corpus: str, at: int) -> None:
    """In a process of its own: SIGKILL right before the write of this number; writes are reported where it is -1."""
    config = settings(Path(folder))
    root, seen = str(config.index_root), 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
        if (opened or event in _EVENTS) and str(arguments[0]).startswith(root):
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    act(what, config, Path(corpus))
    (Path(folder) / "writes").write_text(str(seen))


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Children of a server that has imported everything and started no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A live version, and a corpus that has changed since: edited, added, deleted, closed."""
    folder = tmp_path_factory.mktemp("prepared")
    corpus = folder / "corpus"
    for number in range(7):
        write_page(corpus / f"page-{number}.md", number)
    config = settings(folder)
    act("ingest", config, corpus)
    write_page(corpus / "page-0.md", 0, extra="An edit.")
    act("ingest", config, corpus)  # dead rows, for a compaction to drop
    write_page(corpus / "page-1.md", 1, extra="Another edit.")
    write_page(corpus / "page-9.md", 9)
    (corpus / "page-2.md").unlink()
    return folder


def copied(prepared: Path, folder: Path) -> Path:
    shutil.copytree(prepared / "store", folder / "store")
    return prepared / "corpus"


def die(processes: ForkServerContext, what: str, folder: Path, corpus: Path, at: int) -> None:
    child = processes.Process(target=act_and_die, args=(what, str(folder), str(corpus), at))
    child.start()
    child.join()
    assert child.exitcode == (0 if at == -1 else -signal.SIGKILL)


def contents(config: RagConfig, version: VersionId) -> dict[ChunkId, str]:
    return {chunk.id: chunk.text for chunk in read_chunks(open_store(config), version)}


def searched(config: RagConfig, version: VersionId) -> set[ChunkId]:
    """What a search over every shard can find for the staff."""
    vector = build_embedder(config).embed_queries(["page rule"])[0]
    query = EncodedQuery("page rule", vector, STAFF, version)
    return {c.chunk_id for shard in open_shards(config, version) for c in shard.search(query, 500, 500).dense}


def check_every_version(store: IndexStore) -> None:
    """Whatever counts as a version is whole, and no chunk is in it twice."""
    for version in store.versions():
        check_version(store, store.manifest(version))


@pytest.mark.parametrize("what", list(POINTS))
def test_a_killed_run_leaves_what_was_live_and_the_next_one_finishes(
    what: str, processes: ForkServerContext, prepared: Path, tmp_path: Path
) -> None:
    before = open_store(settings(prepared)).current()
    config = settings(tmp_path / "whole")
    die(processes, what, tmp_path / "whole", copied(prepared, tmp_path / "whole"), -1)
    after, num_writes = open_store(config).current(), int((tmp_path / "whole" / "writes").read_text())
    wanted, found = contents(config, after), searched(config, after)
    was = contents(settings(prepared), before)
    assert after != before
    assert num_writes > 20
    for at in random.Random(0).sample(range(1, num_writes + 1), POINTS[what]):
        folder = tmp_path / f"killed-{at}"
        config = settings(folder)
        corpus = copied(prepared, folder)
        die(processes, what, folder, corpus, at)
        store = open_store(config)
        live = store.current()
        assert live in (before, after), at
        assert contents(config, live) == (was if live == before else wanted), at
        check_every_version(store)
        act(what, config, corpus)
        assert store.current() == after, at
        assert contents(config, after) == wanted, at
        assert searched(config, after) == found, at
        check_every_version(store)
        shutil.rmtree(folder)


def test_what_a_killed_run_left_behind_is_deleted_by_the_next_one(
    processes: ForkServerContext, prepared: Path, tmp_path: Path
) -> None:
    corpus = copied(prepared, tmp_path)
    config = settings(tmp_path)
    die(processes, "ingest", tmp_path, corpus, 30)
    act("ingest", config, corpus)
    store = open_store(config)
    named = {
        entry.info.id
        for version in store.versions()
        for shard in store.manifest(version).shards
        for entry in shard.segments
    }
    assert set(store.segment_names()) == named
    assert [path.name for path in (store.root / "building").iterdir()] == ["lock"]
