"""Texts cut to a number of tokens."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.assemble.budget import cut_to_budget


def count_words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def count_characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (100, "One two three. Four five. Six."),
        (5, "One two three. Four five."),
        (4, "One two three."),
        (2, "One two"),  # not even a sentence fits
        (0, ""),
    ],
)
def test_a_text_is_cut_at_the_last_sentence_that_fits(budget: int, text: str) -> None:
    assert cut_to_budget("One two three. Four five. Six.", budget, count_words) == text


def test_one_endless_word_is_cut_anywhere() -> None:
    assert cut_to_budget("abcdefgh", 3, count_characters) == "abc"


@settings(deadline=None)
@given(st.text(alphabet="ab. \n", max_size=60), st.integers(0, 30))
def test_the_cut_text_fits_and_is_a_beginning_that_no_sentence_extends(text: str, budget: int) -> None:
    cut = cut_to_budget(text, budget, count_characters)
    assert text.startswith(cut)
    assert len(cut) <= budget
    if len(text) <= budget:
        assert cut == text.rstrip() or cut == text
