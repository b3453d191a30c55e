"""Prompts become texts in order, alone or in batches."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rag.config import GenerateConfig
from rag.data import Message, Prompt
from rag.errors import ModelError
from rag.generate.language_model import LanguageModelGenerator
from rag.train.writers import BatchWriter, GeneratorWriter
from tests.tiny_models import tiny_encoder, tiny_language_model


def prompt(text: str) -> Prompt:
    return Prompt((Message("user", text),), ())


class Echo:
    """Repeats its prompt after a while, and counts how many wait at once."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def generate(self, prompt: Prompt) -> AsyncIterator[str]:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01 / len(prompt.messages[0].content))
        self.running -= 1
        yield prompt.messages[0].content
        yield "!"


def test_a_generator_answers_several_at_once_in_order() -> None:
    echo = Echo()
    assert GeneratorWriter(echo, concurrency=3).write([prompt("x" * n) for n in range(1, 8)]) == [
        "x" * n + "!" for n in range(1, 8)
    ]
    assert echo.most == 3
    assert GeneratorWriter(echo).write([]) == []


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_language_model(tmp_path_factory.mktemp("language-model"))


def test_a_batch_says_what_each_prompt_gets_alone(directory: Path) -> None:
    writer = BatchWriter(directory, max_new_tokens=6)
    prompts = [prompt(text) for text in ("leave", "how many days of leave?", "x", "travel and office")]
    alone = [writer.write([one])[0] for one in prompts]
    assert writer.write(prompts) == alone
    assert BatchWriter(directory, max_new_tokens=6, batch_tokens=1).write(prompts) == alone
    assert writer.write([]) == []


def test_a_batch_says_what_the_generator_says(directory: Path) -> None:
    config = GenerateConfig(temperature=0.0, max_output_tokens=6, max_model_tokens=512)
    generator = GeneratorWriter(LanguageModelGenerator(directory, config))
    prompts = [prompt("leave"), prompt("how many days?")]
    assert BatchWriter(directory, max_new_tokens=6).write(prompts) == generator.write(prompts)


def test_what_is_no_language_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a causal language model"):
        BatchWriter(tmp_path, 4)
    with pytest.raises(ModelError):
        BatchWriter(tiny_encoder(tmp_path / "encoder"), 4)
