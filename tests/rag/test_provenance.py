"""What shapes passages and prompt is named, and what does not is left out."""

from pathlib import Path

from rag.config import RagConfig
from rag.provenance import differing, runtime, shaping_settings
from tests.rag.evaluate.libraries import cheap_config, with_settings


def changed_names(one: RagConfig, other: RagConfig) -> list[str]:
    before, after = shaping_settings(one), shaping_settings(other)
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def test_a_setting_that_shapes_what_is_found_is_named(tmp_path: Path) -> None:
    config = cheap_config(tmp_path)
    assert shaping_settings(config) == shaping_settings(cheap_config(tmp_path))
    assert changed_names(config, with_settings(config, search={"k_bm25": 9})) == ["search.k_bm25"]
    assert changed_names(config, with_settings(config, rerank={"bm25_weight": 0.1})) == ["rerank.bm25_weight"]
    assert changed_names(config, with_settings(config, rewrite={"glossary": {"PTO": "leave"}})) == ["rewrite.glossary"]
    assert changed_names(config, with_settings(config, generate={"model": "other"})) == ["generate.model"]


def test_speed_deadlines_and_what_comes_after_the_prompt_are_not(tmp_path: Path) -> None:
    config = cheap_config(tmp_path)
    other = with_settings(
        config,
        embed={"num_threads": 3, "batch_tokens": 512},
        rerank={"device": "cpu"},
        limits={"search_s": 9.0},
        generate={"temperature": 1.0, "max_output_tokens": 5},
    )
    assert changed_names(config, other) == []


def test_other_weights_under_the_same_name_are_noticed(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"one")
    config = with_settings(cheap_config(tmp_path), rerank={"reranker": "cross_encoder", "model": str(model)})
    before = shaping_settings(config)
    assert shaping_settings(config) == before
    (model / "model.safetensors").write_bytes(b"two")
    after = shaping_settings(config)
    assert [name for name in before if before[name] != after[name]] == ["rerank.weights"]


def test_registered_models_are_told_apart_by_what_they_are_made_of(tmp_path: Path) -> None:
    config = with_settings(cheap_config(tmp_path), embed={"embedder": "sentence"})
    assert len(shaping_settings(config)["embed.weights"]) == 32
    assert "embed.weights" not in shaping_settings(cheap_config(tmp_path))


def test_what_was_not_recorded_is_not_compared() -> None:
    assert differing({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "3", "d": "4"}) == [
        "b is 3 here, 2 in the trace",
        "c is unknown here, 3 in the trace",
    ]


def test_the_runtime_names_threads_devices_and_libraries(tmp_path: Path) -> None:
    found = runtime(with_settings(cheap_config(tmp_path), embed={"num_threads": 3}, rerank={"device": "cpu"}))
    assert (found["embed.threads"], found["rerank.device"]) == ("3", "cpu")
    assert int(found["rerank.threads"]) >= 1
    assert "numpy" in found
