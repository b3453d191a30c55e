"""Configuration is read once, strictly, and only what shapes an index changes its fingerprint."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rag.config import RagConfig, load_config
from rag.errors import ConfigError

LOCAL = Path(__file__).resolve().parents[2] / "serve_configs" / "local" / "rag.yaml"
MINIMAL = {"store": "store", "var": "var", "models": "models"}


def _write(folder: Path, **settings: Any) -> Path:  # Any: YAML
    path = folder / "rag.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, **settings}))
    return path


def test_the_local_place_is_valid_and_reads_the_files_it_names() -> None:
    config = load_config(LOCAL)
    assert len(config.sources.rules) >= 10
    assert config.rewrite.glossary["PTO"] == "paid time off"
    assert config.index.num_shards >= 2


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    config = load_config(_write(tmp_path, store="../elsewhere"))
    assert config.store == tmp_path.parent / "elsewhere"
    assert config.index_root == tmp_path.parent / "elsewhere" / "main"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"index": {"nprob": 3}}, ["index.nprob", "Extra inputs are not permitted"]),
        ({"index": {"num_shards": "many"}}, ["index.num_shards", "integer"]),
        ({"index": {"num_shards": 0}}, ["index.num_shards", "greater than or equal to 1"]),
        ({"embed": {"embedder": "magic"}}, ["embed.embedder", "'sentence' or 'hashing'"]),
        ({"clean": {"pii": "hide"}}, ["clean.pii", "'off', 'flag', 'mask' or 'narrow'"]),
        ({"clean": {"pii_kinds": {"shoe": "mask"}}}, ["clean.pii_kinds", "'email'"]),
        ({"clean": {"phone_region": "usa"}}, ["clean.phone_region"]),
        ({"sources": {"rules_file": "none.yaml"}}, ["none.yaml", "no such file"]),
        ({"sources": {"rules": [{"pattern": "**"}]}}, ["sources.rules.0.groups", "required"]),
    ],
)
def test_a_wrong_setting_is_named_with_its_file_and_what_was_expected(
    tmp_path: Path, settings: dict[str, Any], words: list[str]
) -> None:
    path = _write(tmp_path, **settings)
    with pytest.raises(ConfigError) as raised:
        load_config(path)
    assert all(word in str(raised.value) for word in words), str(raised.value)


@pytest.mark.parametrize("content", ["- a list", "store: [unclosed", "\x00binary"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "rag.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"rag\.yaml"):
        load_config(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "rag.yaml")


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({"chunk": {"max_tokens": 128}}, True),
        ({"chunk": {"chunker": "hierarchical"}}, True),
        ({"clean": {"pii_kinds": {"email": "mask"}}}, True),
        ({"clean": {"duplicates": "off"}}, True),
        ({"embed": {"model": "other"}}, True),
        ({"index": {"num_shards": 3}}, True),
        ({"index": {"lexical": {"b": 0.5}}}, True),
        ({"embed": {"num_threads": 7, "batch_tokens": 512}}, False),
        ({"index": {"max_error_share": 0.5}}, False),
        ({"index": {"keep_versions": 9, "reclaim_grace_s": 1, "segment_chunks": 10}}, False),
        ({"remote": {"url": "s3://bucket/indexes"}}, False),
        ({"search": {"k_dense": 7}}, False),
        ({"limits": {"max_k": 7}}, False),
        ({"smoke": {"golden_file": "golden.jsonl", "min_recall": 0.5}}, False),
    ],
)
def test_only_what_shapes_the_index_changes_its_fingerprint(settings: dict[str, Any], changes: bool) -> None:
    plain, changed = RagConfig.model_validate(MINIMAL), RagConfig.model_validate({**MINIMAL, **settings})
    assert (plain.index_fingerprint() != changed.index_fingerprint()) == changes
