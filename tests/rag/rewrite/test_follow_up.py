"""Follow-up questions made stand-alone."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rag.config import RewriteConfig
from rag.data import Prompt, Query, Question, Turn
from rag.errors import ModelError
from rag.generate.extractive import ExtractiveGenerator
from rag.protocols import Generator
from rag.rewrite.follow_up import (
    QuestionRewriter,
    clean_line,
    earlier_words,
    follow_up_prompt,
    is_faithful,
    is_stand_alone,
    leans_on_history,
)
from tests.rag.generate.make import PRINCIPAL

PARKING = (
    Turn("user", "What is the parking fee in zone B?"),
    Turn("assistant", "The parking fee in zone B is 12 CHF per day [1]."),
)
CONFIG = RewriteConfig(glossary={"PTO": "paid time off"})


class Scripted:
    """A model that writes given pieces, and knows how often it was asked and closed."""

    def __init__(self, *pieces: str, error: Exception | None = None) -> None:
        self.pieces, self.error = pieces, error
        self.prompts: list[Prompt] = []
        self.num_written = 0
        self.closed = False

    async def generate(self, prompt: Prompt) -> AsyncIterator[str]:
        self.prompts.append(prompt)
        try:
            for piece in self.pieces:
                self.num_written += 1
                yield piece
            if self.error:
                raise self.error
        finally:
            self.closed = True


def rewrite(text: str, history: tuple[Turn, ...], generator: Generator | None, config: RewriteConfig = CONFIG) -> Query:
    return asyncio.run(QuestionRewriter(config, generator).rewrite(Question(text, PRINCIPAL, history)))


def test_without_history_only_the_rules_apply() -> None:
    model = Scripted("What is something else?")
    assert rewrite("And PTO?", (), model) == Query("And PTO (paid time off)?", "And PTO?", ("glossary",))
    assert model.prompts == []


def test_the_models_stand_alone_question_is_taken_and_the_rules_follow() -> None:
    model = Scripted("Question: What is the ", "parking fee in zone A?", "\nBecause", " it was asked")
    query = rewrite("And in zone A?", PARKING, model)
    assert query == Query("What is the parking fee in zone A?", "And in zone A?", ("follow_up_model",))


def test_the_model_is_stopped_after_its_first_line() -> None:
    model = Scripted("What is the parking fee in zone A?\n", "more", "and more")
    rewrite("And in zone A?", PARKING, model)
    assert model.num_written == 1
    assert model.closed


def test_an_endless_line_is_stopped() -> None:
    model = Scripted(*["zone A " * 10] * 1_000)
    assert rewrite("And in zone A?", PARKING, model).rewrites == ("follow_up_words",)
    assert model.num_written < 20
    assert model.closed


@pytest.mark.parametrize(
    "written",
    [
        "",
        "12 CHF per day.",  # an answer, not a question
        "What is the parking fee in zone B?",  # the question before
        "What is the parking fee in zone A in 2025?",  # a number that nobody said
        "What is the parking fee in zone ERR_7?",
        "And what is it in zone A?",  # still leans on what was said
        "What does the quarterly compliance training cost freelancers in zone A?",  # another question
        "In zone A, " + "what is the parking fee, " * 20 + "zone A?",
    ],
)
def test_a_model_that_strays_is_answered_by_the_rule(written: str) -> None:
    query = rewrite("And in zone A?", PARKING, Scripted(written))
    assert query.rewrites == ("follow_up_words",)
    assert query.text == "And in zone A? (parking fee B)"


def test_a_model_that_fails_is_answered_by_the_rule() -> None:
    query = rewrite("And in zone A?", PARKING, Scripted("What", error=ModelError("out of memory")))
    assert query.rewrites == ("follow_up_words",)


def test_a_programming_error_of_a_generator_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        rewrite("And in zone A?", PARKING, Scripted("What", error=ZeroDivisionError()))


def test_a_generator_that_can_only_quote_passages_leaves_it_to_the_rule() -> None:
    assert rewrite("And in zone A?", PARKING, ExtractiveGenerator()).rewrites == ("follow_up_words",)


def test_a_question_that_says_enough_does_not_ask_the_model() -> None:
    model = Scripted("never")
    text = "Which approvals does an international business trip above 500 CHF need?"
    assert rewrite(text, PARKING, model) == Query(text, text, ("stand_alone",))
    assert model.prompts == []


def test_switched_off_follow_ups_use_the_rule() -> None:
    model = Scripted("What is the parking fee in zone A?")
    query = rewrite("And in zone A?", PARKING, model, RewriteConfig(follow_ups=False))
    assert query.rewrites == ("follow_up_words",)
    assert model.prompts == []


def test_only_the_latest_turns_are_seen() -> None:
    assert rewrite("And in zone A?", PARKING, None, RewriteConfig(max_history_turns=0)).text == "And in zone A?"
    model = Scripted("")
    rewrite("And in zone A?", (Turn("user", "Where is the pool?"), *PARKING), model, RewriteConfig(max_history_turns=2))
    assert "pool" not in model.prompts[0].messages[-1].content


def test_words_are_borrowed_back_to_the_turn_that_leans_on_nothing() -> None:
    turns = [
        Turn("user", "Tell me about salaries."),
        Turn("assistant", "Salaries are paid monthly."),
        Turn("user", "What is the vacation policy in Germany?"),
        Turn("assistant", "30 days."),
        Turn("user", "And in France?"),
        Turn("assistant", "25 days."),
    ]
    assert earlier_words("How do I request it?", turns) == ["vacation", "policy", "Germany", "France"]


def test_a_short_question_that_points_at_nothing_borrows_nothing() -> None:
    assert earlier_words("Who approves travel expenses?", PARKING) == []
    assert rewrite("Who approves travel expenses?", PARKING, None).text == "Who approves travel expenses?"


@pytest.mark.parametrize(
    "text",
    ["And contractors?", "What about zone A?", "Who approves it?", "Why?", "Is that allowed?", "How do they apply?",
     "Who wrote that?", "Who is there?"],
)  # fmt: skip
def test_words_that_point_back_are_noticed(text: str) -> None:
    assert leans_on_history(text)


@pytest.mark.parametrize(
    "text",
    ["Who leads the team that owns billing?", "What is this year's budget for training?", "Why does ERR_4031 occur?",
     "Is there a gym?"],
)  # fmt: skip
def test_words_that_only_look_like_it_are_not(text: str) -> None:
    assert not leans_on_history(text)


def test_a_stand_alone_question_needs_words_enough() -> None:
    assert not is_stand_alone("Who owns billing?")
    assert is_stand_alone("Which approvals does an international business trip above 500 CHF need?")


def test_the_prompt_ends_with_the_question_and_holds_the_conversation() -> None:
    content = follow_up_prompt("And in  zone A?", PARKING).messages[-1].content
    assert content.endswith("Last question: And in zone A?")
    assert content.startswith("User: What is the parking fee in zone B?\nAssistant: The parking fee")


def test_labels_and_quotes_of_the_model_are_cut() -> None:
    assert clean_line('Stand-alone question: "Who owns billing?"') == "Who owns billing?"
    assert clean_line("**Rewritten question:** Who owns it?").endswith("Who owns it?")


def test_identifiers_of_the_question_must_survive() -> None:
    turns = [Turn("user", "What does ERR_4031 mean?")]
    assert not is_faithful("How do I fix the error?", "How do I fix it, and ERR_4032?", turns)
    assert is_faithful("How do I fix ERR_4031?", "How do I fix it?", turns)
