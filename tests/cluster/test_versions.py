"""The deployments' own code, without a cluster: two versions and two encoders at once, and a lease on what is open."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from cluster.embedder import EmbedderDeployment
from cluster.shard import ShardDeployment
from rag.config import EmbedConfig, RagConfig, load_config
from rag.data import EncodedQuery
from rag.evaluate.collection_index import commit_chunks
from rag.ids import VersionId
from rag.index.revoke import revoke
from rag.index.store import open_store
from rag.parts import build_embedder
from tests.rag.index.factories import EVERYONE, make_chunk
from tests.tiny_models import tiny_encoder

CHUNKS = [make_chunk(f"Rule {n} says so.", uri=f"page-{n}.md") for n in range(6)]


@pytest.fixture
def config_path(tmp_path: Path) -> Path:
    settings = {
        "store": "store",
        "var": "var",
        "models": "models",
        "embed": {"embedder": "hashing"},
        "index": {"num_shards": 1},
    }
    (tmp_path / "rag.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path / "rag.yaml"


@pytest.fixture
def config(config_path: Path) -> RagConfig:
    return load_config(config_path)


@pytest.fixture
def other(config: RagConfig, tmp_path: Path) -> RagConfig:
    """The same index by another encoder."""
    model = str(tiny_encoder(tmp_path / "tiny"))
    return config.model_copy(update={"embed": EmbedConfig(embedder="sentence", model=model)})


def committed(config: RagConfig, parent: VersionId | None = None) -> VersionId:
    vectors = build_embedder(config).embed_passages([chunk.embedded_text for chunk in CHUNKS])
    return commit_chunks(config, CHUNKS, vectors, parent=parent)


async def test_the_embedder_answers_for_the_live_encoder_and_the_next_one(
    config: RagConfig, other: RagConfig, config_path: Path
) -> None:
    open_store(config).publish(committed(config))
    embedder = EmbedderDeployment(config_path)
    assert await embedder.open_encoder(other.embed) == 32
    assert embedder.open_encoders() == [config.embed, other.embed]
    asked = [("rule 1", config.embed), ("rule 2", other.embed), ("rule 3", config.embed)]
    vectors = [timed.value for timed in await embedder.encode_all(asked)]
    for (text, embed), vector in zip(asked, vectors, strict=True):
        own = config.model_copy(update={"embed": embed})
        assert np.array_equal(vector, build_embedder(own).embed_queries([text])[0])
    embedder.check_health()
    third = config.embed.model_copy(update={"query_prefix": "q: "})
    await embedder.open_encoder(third)
    assert embedder.open_encoders() == [other.embed, third]


async def test_the_embedder_begins_with_the_encoder_of_the_live_version(
    config: RagConfig, other: RagConfig, config_path: Path
) -> None:
    open_store(config).publish(committed(other))
    embedder = EmbedderDeployment(config_path)
    assert list(embedder.open_encoders()) == [other.embed.model_copy(update=_speed(config))]


def _speed(config: RagConfig) -> dict[str, object]:
    """What the configuration says of how an encoder runs, whichever it is."""
    return config.embed.model_dump(include={"batch_tokens", "num_threads", "device", "engine"})


async def test_a_shard_holds_two_versions_and_leases_them(
    config: RagConfig, other: RagConfig, config_path: Path
) -> None:
    store = open_store(config)
    first = committed(config)
    store.publish(first)
    shard = ShardDeployment(config_path, 0)
    second = committed(other, first)
    assert await shard.open_version(second) == len(CHUNKS)
    for version, own in ((first, config), (second, other)):
        query = EncodedQuery("rule 3", build_embedder(own).embed_queries(["rule 3"])[0], EVERYONE, version)
        assert len((await shard.search(query, 6, 6, 0)).dense) == len(CHUNKS)
    (lease,) = store.live_names("leases")
    content = store.read_live(f"leases/{lease}")
    assert content is not None
    assert set(json.loads(content)["versions"]) == {first, second}
    await shard.check_health()


async def test_a_shard_hides_what_is_revoked(config: RagConfig, config_path: Path) -> None:
    store = open_store(config)
    version = committed(config)
    store.publish(version)
    revoke(store, "page-3.md")
    shard = ShardDeployment(config_path, 0)
    query = EncodedQuery("rule 3", build_embedder(config).embed_queries(["rule 3"])[0], EVERYONE, version)
    found = await shard.search(query, 6, 6, 0)
    assert CHUNKS[3].id not in {candidate.chunk_id for candidate in (*found.dense, *found.bm25)}
    assert (await shard.fetch(query, [CHUNKS[3].id], 0)).value == []
