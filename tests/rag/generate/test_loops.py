"""Models that say the same over and over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.generate.loops import is_looping


@pytest.mark.parametrize(
    ("text", "looping"),
    [
        ("the fee is the fee is the fee is the fee is", True),
        ("well, no " + "no " * 8, True),
        ("ha ha ha ha", False),
        ("the fee is 12 and the fee is 13 and the fee is 14 and the fee is 15", False),
        ("a b a b a b", False),
        ("", False),
    ],
)
def test_the_same_words_four_times_in_a_row_are_a_loop(text: str, looping: bool) -> None:
    assert is_looping(text.split()) == looping


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.sampled_from("xyz"), min_size=2, max_size=16))
def test_every_loop_is_found_whatever_came_before(before: list[str], period: list[str]) -> None:
    assert is_looping([*before, *period * 4])
