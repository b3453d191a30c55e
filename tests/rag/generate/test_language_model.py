"""The language model in this process: a tiny one of random weights, and the real one."""

import asyncio
from pathlib import Path

import pytest

from rag.config import GenerateConfig
from rag.data import Message, Prompt, Query, Question
from rag.errors import ModelError
from rag.generate.attribution import AnswerStream
from rag.generate.language_model import LanguageModelGenerator
from rag.generate.prompt import build_prompt
from rag.generate.tokens import GeneratorTokenCounter
from tests.rag.generate.make import PRINCIPAL, make_passage

PROMPT = Prompt((Message("system", "Rules"), Message("user", "Who?")), ())
CONFIG = GenerateConfig(max_output_tokens=12, temperature=0.7, max_model_tokens=256)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.tiny_models import tiny_language_model  # takes seconds to import

    return tiny_language_model(tmp_path_factory.mktemp("tiny"))


async def read(generator: LanguageModelGenerator, prompt: Prompt = PROMPT) -> list[str]:
    return [piece async for piece in generator.generate(prompt)]


def test_equal_prompts_get_equal_answers_and_others_do_not(directory: Path) -> None:
    generator = LanguageModelGenerator(directory, CONFIG)

    async def all_at_once() -> tuple[list[str], list[str], list[str]]:
        other = Prompt((Message("user", "Where?"),), ())
        return await asyncio.gather(read(generator), read(generator), read(generator, other))

    first, second, other = asyncio.run(all_at_once())
    assert "".join(first) == "".join(second) != "".join(other)
    assert asyncio.run(read(generator)) == first


def test_greedy_answers_do_not_depend_on_the_seed(directory: Path) -> None:
    greedy = LanguageModelGenerator(directory, CONFIG.model_copy(update={"temperature": 0.0}))
    narrow = LanguageModelGenerator(directory, CONFIG.model_copy(update={"top_p": 1e-6}))
    assert asyncio.run(read(greedy)) == asyncio.run(read(narrow))


def test_closing_the_answer_stops_the_model(directory: Path) -> None:
    long = CONFIG.model_copy(update={"max_output_tokens": 50_000, "max_model_tokens": 60_000})
    generator = LanguageModelGenerator(directory, long)
    generator._model.generation_config.eos_token_id = None  # it would go on for minutes

    async def read_one_piece() -> None:
        pieces = generator.generate(PROMPT)
        await anext(pieces)
        await asyncio.wait_for(pieces.aclose(), timeout=30)  # type: ignore[attr-defined]

    asyncio.run(read_one_piece())
    assert not generator._turn.locked()


def test_a_prompt_without_room_for_an_answer_is_refused_with_counts(directory: Path) -> None:
    generator = LanguageModelGenerator(directory, CONFIG)
    long = Prompt((Message("user", "x" * 250),), ())
    with pytest.raises(ModelError, match="answer may have 12; the model reads 256"):
        asyncio.run(read(generator, long))


def test_tokens_are_counted_as_the_tokenizer_file_counts_them(directory: Path) -> None:
    generator = LanguageModelGenerator(directory, CONFIG)
    texts = ["abc", "", "Straße"]
    assert generator.count_tokens(texts) == GeneratorTokenCounter(directory).count(texts) == [3, 0, 7]
    assert generator.count_tokens([]) == []
    assert generator.count_prompt_tokens(PROMPT) == len("system\nRulesuser\nWho?assistant\n") + 7


def test_a_folder_that_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=tmp_path.name):
        LanguageModelGenerator(tmp_path, CONFIG)


@pytest.mark.models
def test_the_default_model_answers_from_a_passage() -> None:
    directory = Path(__file__).parents[3] / "var" / "models" / "quire-generator"
    config = GenerateConfig(temperature=0.0, max_output_tokens=40, repetition_penalty=1.0)
    generator = LanguageModelGenerator(directory, config)
    passages = [make_passage(1, "In zone B the parking fee is 12 CHF per day.", title="Parking policy")]
    question = "What is the parking fee in zone B?"
    prompt = build_prompt(Query(question, question), Question(question, PRINCIPAL), passages)
    stream = AnswerStream(passages, 0.6)
    for piece in asyncio.run(read(generator, prompt)):
        stream.feed(piece)
    stream.close()
    assert "12 CHF" in stream.text
    assert [citation.number for citation in stream.citations] == [1]
