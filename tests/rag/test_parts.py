from pathlib import Path

import pytest

from rag import parts
from rag.chunk.tokens import WordTokenCounter
from rag.config import RagConfig
from rag.embed.hashing import HashingEmbedder
from rag.errors import ModelError
from rag.generate.extractive import ExtractiveGenerator
from rag.rerank.overlap import OverlapReranker


def config_in(folder: Path, **sections: dict[str, str]) -> RagConfig:
    return RagConfig.model_validate({"store": folder, "var": folder, "models": folder, **sections})


def test_cheap_parts_are_built_without_any_model(tmp_path: Path) -> None:
    config = config_in(
        tmp_path,
        embed={"embedder": "hashing"},
        rerank={"reranker": "overlap"},
        generate={"generator": "extractive"},
    )
    assert isinstance(parts.build_embedder(config), HashingEmbedder)
    assert isinstance(parts.build_reranker(config), OverlapReranker)
    assert isinstance(parts.build_generator(config), ExtractiveGenerator)
    assert isinstance(parts.build_token_counter(config), WordTokenCounter)
    assert isinstance(parts.build_generator_token_counter(config), WordTokenCounter)
    assert parts.build_parser(config) is not parts.build_parser(config)
    assert parts.build_chunker(config) is not parts.build_chunker(config)
    parts.check_encoder(config)


@pytest.mark.parametrize("name", ["structural", "window", "sentence", "semantic", "hierarchical"])
def test_every_chunker_is_built_by_its_name(tmp_path: Path, name: str) -> None:
    config = config_in(tmp_path, embed={"embedder": "hashing"}, chunk={"chunker": name})
    assert type(parts.build_chunker(config)).__name__ == f"{name.capitalize()}Chunker"


@pytest.mark.parametrize(
    "build",
    [
        parts.check_encoder,
        parts.build_embedder,
        parts.build_token_counter,
        parts.build_chunker,
        parts.build_reranker,
        parts.build_generator,
        parts.build_generator_token_counter,
    ],
)
def test_a_missing_model_names_the_command_that_fetches_it(tmp_path: Path, build: object) -> None:
    assert callable(build)
    with pytest.raises(ModelError, match="quire fetch"):
        build(config_in(tmp_path))
