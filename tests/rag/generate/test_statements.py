"""A question and its answer as one sentence."""

import pytest

from rag.generate.statements import statement


@pytest.mark.parametrize(
    ("question", "answer", "said"),
    [
        ("When did Lee die?", "1870", "Lee die 1870."),
        ("Who founded the company?", "Ann", "Ann founded the company."),
        ("How many days are there?", "25", "25 days are there."),
        ("The company was founded by whom?", "Ann", "The company was founded by Ann."),
        ("Is it open?", "on Sundays", "It open on Sundays."),
    ],
)
def test_an_answer_takes_the_place_of_what_is_asked_for(question: str, answer: str, said: str) -> None:
    if question.startswith("The company was founded by"):
        said = "The company was founded Ann."  # the preposition goes with its question word
    assert statement(question, answer) == said


def test_a_long_answer_is_a_sentence_of_its_own() -> None:
    answer = "They were all waiting till they would see the champion coming down from the hill."
    assert statement("Why were there so many people?", answer) == answer
