"""The words that overlaps are counted in."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.rewrite.words import content_stems, content_words, exact_terms, identifiers, tokens, words


def test_identifiers_versions_and_dates_stay_whole() -> None:
    text = "See ERR_4031 in v4.2.1 (build 2024-05-01, part AB-1234); it costs 1,250.50 at 10:30."
    assert exact_terms(text) == {"err_4031", "v4.2.1", "2024-05-01", "ab-1234", "1250.50", "10:30"}


def test_a_number_joined_to_a_word_or_a_range_is_a_number_of_its_own() -> None:
    assert words("a 10-day notice, 4-8 weeks") == ["a", "10", "day", "notice", "4", "8", "weeks"]


def test_plain_words_are_split_at_hyphens_and_lose_their_apostrophe() -> None:
    assert words("The employee's paid-time-off isn’t lost.Next") == [
        "the", "employee", "paid", "time", "off", "isn", "lost", "next",
    ]  # fmt: skip


def test_han_characters_stand_alone_and_other_scripts_keep_their_words() -> None:
    assert tokens("停车费 12 für Straße") == ["停", "车", "费", "12", "für", "Straße"]


@pytest.mark.parametrize("quantity", ["2024", "12.5", "2024-05-01", "10:30", "3rd", "50MB", "Q3", "10am"])
def test_quantities_and_dates_identify_nothing(quantity: str) -> None:
    assert identifiers(f"about {quantity} there") == frozenset()


@pytest.mark.parametrize("name", ["ERR_4031", "v4.2.1", "4.2.1", "AB-1234", "RFC7519", "api/v2_users"])
def test_names_with_digits_or_underscores_identify_something(name: str) -> None:
    assert identifiers(f"What about {name}?")


def test_content_words_keep_their_case_and_leave_out_function_words() -> None:
    assert content_words("What is the PTO policy in Germany?") == ["PTO", "policy", "Germany"]


def test_a_capital_letter_behind_a_word_is_a_name_and_not_an_article() -> None:
    assert content_words("A day in zone A. A badge for a day") == ["day", "zone", "A", "badge", "day"]


def test_inflections_share_a_stem() -> None:
    assert content_stems("reviewed policies") == content_stems("The policy reviews")


@settings(deadline=None)
@given(st.text(), st.text())
def test_words_of_two_lines_are_the_words_of_each(a: str, b: str) -> None:
    assert words(f"{a}\n{b}") == words(a) + words(b)
