"""Both searches find what the service would: over an index in memory, and over the shards of a version."""

from pathlib import Path

import numpy as np
import pytest

from rag.config import IndexConfig
from rag.embed.hashing import HashingEmbedder
from rag.errors import InputError
from rag.index.store import IndexStore
from rag.local import open_shards
from rag.train.corpus import VersionChunks, read_collection_chunks
from rag.train.round_trip import CorpusSearch, ShardSearch
from tests.conftest import SHARED_DATA
from tests.rag.index.factories import commit, make_chunk, make_config

WORDS = "leave travel robot lidar invoice battery dock gripper audit payroll badge token garage permit".split()  # noqa: SIM905
GENERATOR = np.random.default_rng(0)
CHUNKS = [
    make_chunk(" ".join(GENERATOR.choice(WORDS, 7)), f"page-{number}.md", groups=(f"room-{number % 3}",))
    for number in range(30)
]
QUESTIONS = ["lidar robot battery", "garage permit", "payroll audit invoice leave"]
EMBEDDER = HashingEmbedder()
VECTORS = EMBEDDER.embed_passages([chunk.embedded_text for chunk in CHUNKS])
ASKED = EMBEDDER.embed_queries(QUESTIONS)


def test_memory_and_shards_find_the_same(tmp_path: Path) -> None:
    config = make_config(tmp_path, IndexConfig(num_shards=2))
    store = IndexStore(config.index_root)
    version = commit(store, CHUNKS, VECTORS, config, num_segments=2).version
    groups = VersionChunks(store, store.manifest(version)).tenant_groups()
    shards = ShardSearch(open_shards(config, version), version, groups, config)
    memory = CorpusSearch(CHUNKS, VECTORS, config.index, config.search)
    found = shards.find(QUESTIONS, ASKED, "acme", 5)
    assert found == memory.find(QUESTIONS, ASKED, "acme", 5)
    assert all(len(ranking) == 5 for ranking in found)
    assert shards.find(QUESTIONS, ASKED, "another", 5) == [[], [], []]


def test_a_version_lists_its_live_chunks_in_the_order_of_the_seed(tmp_path: Path) -> None:
    config = make_config(tmp_path, IndexConfig(num_shards=2))
    store = IndexStore(config.index_root)
    first = commit(store, CHUNKS, VECTORS, config)
    gone = CHUNKS[0].document_id
    second = commit(store, [], VECTORS[:0], config, parent=first.version, removed=[gone], kept=CHUNKS[1:])
    chunks = VersionChunks(store, second)
    listed = list(chunks.sampled(0))
    assert sorted(chunk.id for chunk in listed) == sorted(chunk.id for chunk in CHUNKS[1:])
    assert listed == list(VersionChunks(store, second).sampled(0))
    assert listed != list(chunks.sampled(1))
    assert next(chunk for chunk in listed if chunk.id == CHUNKS[5].id) == CHUNKS[5]
    assert chunks.tenant_groups() == {"acme": {"room-0", "room-1", "room-2"}}


def test_a_collection_is_read_without_its_queries(tmp_path: Path) -> None:
    import gzip
    import json

    rows = [
        {"_id": "a#1", "title": "Leave > Types > Court leave", "text": "Jury duty."},
        {"_id": "a#2", "title": "", "text": "Nothing."},
    ]
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    first, second = read_collection_chunks(tmp_path)  # there is no queries.jsonl, and none is missed
    assert (first.metadata.uri, first.metadata.title, first.headings) == ("a#1", "Leave", ("Types", "Court leave"))
    assert first.embedded_text == "Leave > Types > Court leave\nJury duty."
    assert (second.embedded_text, second.headings) == ("Nothing.", ())
    with pytest.raises(InputError, match="no such file"):
        read_collection_chunks(tmp_path / "none")


@pytest.mark.shared_data
def test_the_documents_of_a_handbook_become_chunks() -> None:
    chunks = read_collection_chunks(SHARED_DATA / "ir-handbook-faq-18f")
    assert len(chunks) == len({chunk.id for chunk in chunks}) == 1_894
