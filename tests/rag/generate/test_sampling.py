"""Sampling settings shared by every engine."""

from dataclasses import asdict, replace

from rag.config import GenerateConfig
from rag.data import Message, Prompt
from rag.generate.sampling import chat_messages, sampling_of

CONFIG = GenerateConfig(max_output_tokens=7, temperature=0.5, top_p=0.8, repetition_penalty=1.2)
PROMPT = Prompt((Message("system", "Rules"), Message("user", "Who?")), ())


def test_the_settings_are_those_of_the_configuration() -> None:
    settings = asdict(sampling_of(CONFIG, PROMPT))
    settings.pop("seed")
    assert settings == {"max_tokens": 7, "temperature": 0.5, "top_p": 0.8, "repetition_penalty": 1.2}


def test_a_prompt_may_ask_for_the_likeliest_words() -> None:
    assert sampling_of(CONFIG, replace(PROMPT, greedy=True)).temperature == 0.0


def test_equal_prompts_share_a_seed_and_others_do_not() -> None:
    moved = Prompt((Message("system", "RulesWho?"), Message("user", "")), ())
    assert sampling_of(CONFIG, PROMPT).seed == sampling_of(CONFIG, Prompt(PROMPT.messages, ())).seed
    assert sampling_of(CONFIG, PROMPT).seed != sampling_of(CONFIG, moved).seed
    assert 0 <= sampling_of(CONFIG, PROMPT).seed < 2**31


def test_messages_are_shaped_for_chat_templates() -> None:
    assert chat_messages(PROMPT) == [{"role": "system", "content": "Rules"}, {"role": "user", "content": "Who?"}]
