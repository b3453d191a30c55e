"""The generator without a model."""

import asyncio

from rag.data import Message, Passage, Prompt, Query, Question
from rag.generate.attribution import AnswerStream
from rag.generate.extractive import ExtractiveGenerator, best_sentences
from rag.generate.prompt import REFUSAL, build_prompt
from tests.rag.generate.make import PRINCIPAL, make_passage

PASSAGES = [
    make_passage(1, "# Zones\n\nZone A is free for electric cars. In zone B the parking fee is 12 CHF per day."),
    make_passage(2, "The parking fee is paid at the desk! Lunch costs 9 EUR."),
]


def answer(question: str, passages: list[Passage] = PASSAGES, max_sentences: int = 2) -> str:
    async def read() -> str:
        prompt = build_prompt(Query(question, question), Question(question, PRINCIPAL), passages)
        return "".join([piece async for piece in ExtractiveGenerator(max_sentences).generate(prompt)])

    return asyncio.run(read())


def test_the_sentences_closest_to_the_question_are_quoted_and_cited() -> None:
    assert answer("What is the parking fee in zone B?") == (
        "In zone B the parking fee is 12 CHF per day [1]. The parking fee is paid at the desk [2]!"
    )


def test_a_sentence_that_shares_much_less_is_left_out() -> None:
    assert answer("What does lunch cost in EUR?") == "Lunch costs 9 EUR [2]."


def test_nothing_in_common_is_a_refusal() -> None:
    assert answer("Who founded it?") == REFUSAL
    assert answer("Who founded it?", []) == REFUSAL


def test_the_answer_reads_the_same_after_citations_are_checked() -> None:
    stream = AnswerStream(PASSAGES, 0.6)
    stream.feed(answer("What is the parking fee in zone B?", max_sentences=1))
    stream.close()
    assert stream.text == "In zone B the parking fee is 12 CHF per day [1]."
    assert [citation.attributed for citation in stream.citations] == [False]


def test_ties_go_to_the_better_passage_and_the_earlier_sentence() -> None:
    passages = (make_passage(1, "Red cars park here. Blue cars park here."), make_passage(2, "Green cars park here."))
    assert best_sentences("Which cars park?", passages, 2) == [(1, "Red cars park here."), (1, "Blue cars park here.")]


def test_a_prompt_of_another_kind_is_refused_without_passages() -> None:
    async def read() -> list[str]:
        prompt = Prompt((Message("user", "Hello"),), ())
        return [piece async for piece in ExtractiveGenerator().generate(prompt)]

    assert asyncio.run(read()) == [REFUSAL]
