"""What one text says of another, counted in words."""

import pytest

from rag.generate.overlap import (
    AnswerType,
    TextFacts,
    answer_type,
    around_sentence,
    best_sentence_place,
    holds_type,
    share_in,
)

PASSAGE = TextFacts("Lee was born in Bern. He died in 1870 at the age of 63! His house was not sold.")


def test_names_are_capitals_inside_a_sentence_and_acronyms() -> None:
    facts = TextFacts("Parking is free. Ask Ms Weber at GSA. GSA decides, The End.")
    assert facts.names == {"ms", "weber", "gsa", "end"}


def test_a_plain_first_word_is_no_name() -> None:
    assert TextFacts("Parking costs 12 CHF.").names == {"chf"}


@pytest.mark.parametrize(
    ("text", "negated"),
    [("It was not sold.", True), ("They can't.", True), ("Nobody came.", True), ("Notes are kept.", False)],
)
def test_negation_is_a_word_or_an_ending(text: str, negated: bool) -> None:
    assert TextFacts(text).negated is negated


def test_pairs_keep_the_order_of_words() -> None:
    assert TextFacts("dogs bite men").pairs != TextFacts("men bite dogs").pairs


def test_what_is_not_wanted_is_held() -> None:
    assert share_in(frozenset(), frozenset({"a"})) == 1.0
    assert share_in(frozenset({"a", "b"}), frozenset({"a"})) == 0.5


def test_the_best_sentence_shares_most_and_the_earlier_of_equals_wins() -> None:
    assert best_sentence_place(PASSAGE, TextFacts("Who rents a boat?").stems) == 0
    assert best_sentence_place(PASSAGE, TextFacts("died age").stems) == 1
    assert best_sentence_place(TextFacts(""), TextFacts("died age").stems) == 0


def test_a_sentence_is_seen_with_its_neighbours() -> None:
    assert around_sentence(PASSAGE, 0).text == "Lee was born in Bern. He died in 1870 at the age of 63!"
    assert around_sentence(PASSAGE, 1).text == PASSAGE.text


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who founded it?", "person"),
        ("In what year did he die?", "date"),
        ("How many days of leave are there?", "number"),
        ("Which city is it in?", "place"),
        ("Why was it sold?", ""),
        ("How do I renew it?", ""),
    ],
)
def test_a_question_says_what_kind_of_thing_it_asks_for(question: str, kind: AnswerType) -> None:
    assert answer_type(question) == kind


def test_what_the_question_holds_itself_is_no_answer() -> None:
    asked = TextFacts("How many days does Weber get in 2024?")
    assert holds_type(TextFacts("In 2024 it is 25."), "number", asked)
    assert not holds_type(TextFacts("In 2024 it is a lot."), "number", asked)
    assert not holds_type(TextFacts("Ask Weber."), "person", asked)
    assert holds_type(TextFacts("Ask Keller."), "person", asked)
    assert holds_type(TextFacts("whatever"), "", asked)
