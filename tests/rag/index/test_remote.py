"""An index on an object store: published there, copied and checked here, and the same answers as from a folder."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from moto.server import ThreadedMotoServer

from rag.config import IndexConfig, RagConfig, RemoteConfig
from rag.errors import ConfigError, IndexDamaged, NotFound, RagError
from rag.evaluate.collection_index import records_of
from rag.ids import document_id
from rag.index.commit import commit_version
from rag.index.reclaim import reclaim, renew_lease
from rag.index.remote import RemoteFiles, open_remote
from rag.index.revoke import absorb_revocations, revoke
from rag.index.shard import open_shard
from rag.index.store import IndexStore, open_store
from tests.rag.index.factories import TENANT, commit, make_chunk, make_config, make_query, unit_vectors

CHUNKS = [make_chunk(f"page {n}", uri=f"doc-{n}.md") for n in range(6)]


@pytest.fixture(scope="module")
def s3() -> Iterator[RemoteConfig]:
    """A server that speaks S3, with one bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}", "key": "key", "secret": "secret"}
    import s3fs

    s3fs.S3FileSystem(**options).mkdir("bucket")
    yield RemoteConfig(url="s3://bucket/indexes", options=options)
    server.stop()


@pytest.fixture(params=["file", "memory", "s3"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> RagConfig:
    match request.param:
        case "file":
            remote = RemoteConfig(url=(tmp_path / "objects").as_uri())
        case "memory":
            remote = RemoteConfig(url=f"memory://{uuid4().hex}")
        case _:
            remote = request.getfixturevalue("s3")
            remote = remote.model_copy(update={"url": f"{remote.url}/{uuid4().hex}"})
    local = make_config(tmp_path / "writer", IndexConfig(num_shards=2, keep_versions=1, reclaim_grace_s=0))
    return local.model_copy(update={"remote": remote})


def elsewhere(config: RagConfig, tmp_path: Path) -> RagConfig:
    """The same index seen from another machine, whose folder is empty."""
    return config.model_copy(update={"store": tmp_path / "reader"})


def answers(config: RagConfig) -> list[object]:
    version = open_store(config).current()
    shards = [open_shard(config.index_root, version, shard, config) for shard in range(2)]
    query = make_query(version, "page 3", vector=unit_vectors(1, seed=5)[0])
    return [(shard.search(query, 4, 4).dense, shard.search(query, 4, 4).bm25) for shard in shards]


def test_what_one_machine_publishes_another_one_answers_from(config: RagConfig, tmp_path: Path) -> None:
    store, reader = open_store(config), elsewhere(config, tmp_path)
    with pytest.raises(NotFound):
        open_store(reader).current()
    first = commit(store, CHUNKS, unit_vectors(6), config)
    assert open_store(reader).versions() == [first.version]
    store.publish(first.version)
    plain = make_config(tmp_path / "plain", config.index)
    folder = IndexStore(plain.index_root)
    folder.publish(commit(folder, CHUNKS, unit_vectors(6), plain).version)
    assert answers(reader) == answers(config) == answers(plain)
    assert open_store(reader).registry(first.version) == store.registry(first.version)
    assert [line["version"] for line in open_store(reader).history()] == [first.version]

    second = commit_version(store, {}, [CHUNKS[0].document_id], records_of(CHUNKS[1:], 2), config, 4, first.version)
    assert open_store(reader).current() == first.version
    store.publish(second.version)
    assert open_store(reader).current() == second.version
    assert open_store(reader).tombstones(second, next(entry for entry in second.segments if entry.num_tombstones))
    assert open_store(reader).rollback() == first.version == store.current()


def test_revocations_and_leases_cross_machines(config: RagConfig, tmp_path: Path) -> None:
    store, reader = open_store(config), elsewhere(config, tmp_path)
    first = commit(store, CHUNKS, unit_vectors(6), config)
    store.publish(first.version)
    renew_lease(open_store(reader), "shard-0", [first.version])
    revoke(store, "doc-0.md")
    hidden = CHUNKS[0].id
    found = [c for legs in answers(reader) for leg in legs for c in leg]  # type: ignore[attr-defined]
    assert hidden not in {candidate.chunk_id for candidate in found}
    second = commit_version(
        store, {}, [document_id(TENANT, "doc-0.md")], records_of(CHUNKS[1:], 2), config, 4, first.version
    )
    third = commit_version(
        store,
        {},
        [document_id(TENANT, "doc-1.md")],
        records_of(CHUNKS[2:], 2),
        config,
        4,
        second.version,
    )
    for manifest in (second, third):
        store.publish(manifest.version)
    assert len(absorb_revocations(store, second)) == 1
    assert reclaim(store, config.index).versions == ()  # the third is live, the second its parent, the first leased
    store.delete_live("leases/shard-0.json")
    assert reclaim(store, config.index).versions == (first.version,)
    assert set(open_store(elsewhere(config, tmp_path / "third")).versions()) == {second.version, third.version}


def test_a_version_that_was_reclaimed_elsewhere_is_not_published_from_its_copy(
    config: RagConfig, tmp_path: Path
) -> None:
    store, reader = open_store(config), open_store(elsewhere(config, tmp_path))
    line = [commit(store, CHUNKS, unit_vectors(6), config)]
    for number in (1, 2):
        gone, left = [CHUNKS[number - 1].document_id], records_of(CHUNKS[number:], 2)
        line.append(commit_version(store, {}, gone, left, config, 4, line[-1].version))
    for manifest in line:
        store.publish(manifest.version)
        assert reader.manifest(manifest.version) == manifest
    assert reclaim(store, config.index).versions == (line[0].version,)
    with pytest.raises(NotFound, match=line[0].version):
        reader.publish(line[0].version)
    assert reader.rollback() == line[1].version == store.current()
    with pytest.raises(NotFound, match=r"reclaimed; index\.keep_versions"):
        reader.rollback()
    again = commit(reader, CHUNKS, unit_vectors(6), config)  # built once more where the copy is
    reader.publish(again.version)
    assert store.manifest(store.current()).content == line[0].content


def test_a_copy_that_is_not_what_was_written_is_refused(config: RagConfig, tmp_path: Path) -> None:
    store, reader = open_store(config), elsewhere(config, tmp_path)
    first = commit(store, CHUNKS, unit_vectors(6), config)
    store.publish(first.version)
    assert store.remote is not None
    info = first.segments[0].info
    content = store.remote.read(f"segments/{info.id}/vectors.npy")
    assert content is not None
    store.remote.write(f"segments/{info.id}/vectors.npy", content[:-1] + b"\x7f")
    with pytest.raises(IndexDamaged, match=r"vectors\.npy"):
        answers(reader)
    assert not any((reader.index_root / "segments").glob("[!.]*/vectors.npy")) or info.id not in {
        path.name for path in (reader.index_root / "segments").iterdir()
    }


def test_a_segment_is_uploaded_once(config: RagConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(config)
    first = commit(store, CHUNKS, unit_vectors(6), config)
    monkeypatch.setattr(RemoteFiles, "upload", lambda *_: pytest.fail("uploaded again"))
    assert commit(store, CHUNKS, unit_vectors(6), config) == first


def test_a_store_that_can_not_be_reached_is_said(tmp_path: Path) -> None:
    options = {
        "endpoint_url": "http://127.0.0.1:9",
        "key": "k",
        "secret": "s",
        "config_kwargs": {"retries": {"max_attempts": 1}},
    }
    remote = open_remote(RemoteConfig(url="s3://bucket", options=options), "main")
    with pytest.raises(RagError, match="s3://bucket/main/CURRENT"):
        IndexStore(tmp_path, remote).current()
    with pytest.raises(ConfigError, match=r"remote\.url: nothing://x"):
        open_remote(RemoteConfig(url="nothing://x"), "main")
