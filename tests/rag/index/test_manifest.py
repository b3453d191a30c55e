from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from rag.config import ChunkConfig, EmbedConfig, IndexConfig
from rag.errors import IndexMismatch
from rag.index.manifest import Manifest, check_compatible, with_encoder_of
from rag.index.store import IndexStore
from rag.models import MODELS
from tests.rag.index.factories import commit, make_chunk, make_config, unit_vectors


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    config = make_config(tmp_path)
    return commit(IndexStore(config.index_root), [make_chunk("x")], unit_vectors(1), config)


def test_a_manifest_comes_back_from_json(manifest: Manifest) -> None:
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest


def test_an_unknown_key_is_an_error(manifest: Manifest) -> None:
    with pytest.raises(ValidationError, match="extra"):
        Manifest.model_validate({**manifest.model_dump(), "shards_total": 3})


def test_the_version_depends_on_content_and_parent_but_not_on_when_it_was_built(manifest: Manifest) -> None:
    later = manifest.model_copy(update={"created_at": datetime(2030, 1, 1, tzinfo=UTC), "timings": {"embed": 3.0}})
    assert later.content.version_id(None) == manifest.version
    assert manifest.content.version_id(manifest.version) != manifest.version
    other = manifest.content.model_copy(update={"fingerprint": "other"})
    assert other.version_id(None) != manifest.version


def test_the_settings_of_the_build_are_compatible(manifest: Manifest, tmp_path: Path) -> None:
    check_compatible(manifest, make_config(tmp_path, embed=EmbedConfig(num_threads=7)))


@pytest.mark.parametrize(
    ("embed", "index", "message"),
    [
        (EmbedConfig(model="other"), None, "encoder 'all-MiniLM-L6-v2', the configuration has 'other'"),
        (EmbedConfig(query_prefix="query: "), None, "query prefix ''"),
        (EmbedConfig(passage_prefix="passage: "), None, "passage prefix ''"),
        (EmbedConfig(max_tokens=64), None, "window of the encoder 256"),
        (EmbedConfig(embedder="hashing"), None, "embedder 'sentence'"),
        (None, IndexConfig(num_shards=3), "number of shards 1, the configuration has 3"),
        (
            None,
            IndexConfig(num_shards=1, vector_dtype="float16"),
            "of the parse, clean, chunk, embed and index settings",
        ),
    ],
)
def test_other_settings_are_named_with_the_way_out(
    manifest: Manifest, tmp_path: Path, embed: EmbedConfig | None, index: IndexConfig | None, message: str
) -> None:
    with pytest.raises(IndexMismatch, match=message) as caught:
        check_compatible(manifest, make_config(tmp_path, index, embed))
    assert ("`quire ingest`" if embed is None else "`quire reembed`") in str(caught.value)


def test_the_configuration_can_follow_the_versions_encoder_and_only_that(manifest: Manifest, tmp_path: Path) -> None:
    config = make_config(tmp_path)
    assert with_encoder_of(config, manifest) is config
    other = make_config(tmp_path, embed=EmbedConfig(embedder="hashing", query_prefix="q: ", num_threads=7))
    own = with_encoder_of(other, manifest)
    check_compatible(manifest, own)
    assert own.embed.num_threads == 7  # how it runs is the configuration's
    with pytest.raises(IndexMismatch, match="number of shards"):
        check_compatible(manifest, with_encoder_of(make_config(tmp_path, IndexConfig(num_shards=3)), manifest))


def test_the_encoder_is_recorded_with_its_weights_and_its_window(manifest: Manifest) -> None:
    encoder = manifest.encoder
    assert (encoder.name, encoder.embedder, encoder.dim, encoder.max_tokens) == ("all-MiniLM-L6-v2", "sentence", 4, 256)
    assert encoder.revision == MODELS["all-MiniLM-L6-v2"].digest()
    assert encoder.model_copy(update={"embedder": "hashing"}).name == "hashing"


def test_another_chunker_is_another_index(manifest: Manifest, tmp_path: Path) -> None:
    config = make_config(tmp_path).model_copy(update={"chunk": ChunkConfig(max_tokens=64)})
    with pytest.raises(IndexMismatch, match="fingerprint"):
        check_compatible(manifest, config)
