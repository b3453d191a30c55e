"""Copied words found in the passage that they were copied from."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.generate.quotes import find_quote

TEXT = "Leave: unused days move\ninto the next year. At most “5 days” can be moved, by 31 March (see ﬁle 7)."


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("unused days move into the next year", "unused days move\ninto the next year"),
        ("At most '5 days' can be moved", "At most “5 days” can be moved"),
        ("SEE FILE 7", "see ﬁle 7"),
        ("Leave", "Leave"),
    ],
)
def test_case_punctuation_and_line_breaks_do_not_count(quote: str, found: str) -> None:
    span = find_quote(quote, TEXT, 1.0)
    assert span is not None
    assert (TEXT[span.start : span.end], span.similarity) == (found, 1.0)


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("12 a day", "$12 a day"),
        ("-5 degrees", "-5 degrees"),
        ("20 to the plan", "20 to the plan"),
        ("rose by 25%", "rose by 25%"),
        ("the treaty (now TFEU).", "the treaty (now TFEU)"),
        ("now TFEU", "now TFEU"),
        ("slow ones (and few) of", "slow ones [and few] of"),
        ("see it as 'no risk'.", "see it as ‘no risk’"),
        ("old) and new", "(old) and new"),
    ],
)
def test_signs_and_brackets_belong_to_the_words_beside_them(quote: str, found: str) -> None:
    text = (
        "It costs $12 a day at -5 degrees, and 2019-20 to the plan rose by 25%. See the treaty (now TFEU). The slow "
        "ones [and few] of us see it as ‘no risk’. The (old) and new."
    )
    span = find_quote(quote, text, 1.0)
    assert span is not None
    assert (text[span.start : span.end], span.similarity) == (found, 1.0)


def test_the_closest_stretch_of_whole_words_is_found() -> None:
    span = find_quote("Most 5 days can be move by 31 March", TEXT, 0.85)
    assert span is not None
    assert TEXT[span.start : span.end] == "most “5 days” can be moved, by 31 March"
    assert 0.85 <= span.similarity < 1.0


@pytest.mark.parametrize(
    "quote",
    ["", " ... ", "Bears eat honey in the deep forest", "eave", "day", "31 April", f"{TEXT} And much more than that."],
)
def test_what_is_not_there_is_not_found(quote: str) -> None:
    assert find_quote(quote, TEXT, 0.85) is None


@settings(deadline=None)
@given(st.text(alphabet='ab ß½Ⅳﬁ.\n"İ', max_size=30), st.data())
def test_every_stretch_of_whole_words_is_found_where_it_stands(text: str, data: st.DataObject) -> None:
    words = text.split(" ")
    low = data.draw(st.integers(0, len(words) - 1))
    high = data.draw(st.integers(low + 1, len(words)))
    quote = " ".join(words[low:high])
    span = find_quote(quote, text, 1.0)
    if span is not None:
        again = find_quote(text[span.start : span.end], quote, 1.0)
        assert again is not None
        assert 0 <= span.start < span.end <= len(text)
    else:
        assert not any(character.isalnum() for character in quote)


@settings(deadline=None)
@given(st.text(alphabet="abc d", max_size=40), st.text(alphabet="abc d", max_size=40))
def test_what_is_found_begins_and_ends_with_a_word(quote: str, text: str) -> None:
    span = find_quote(quote, text, 0.7)
    if span is not None:
        assert f" {text} "[span.start] == " " == f" {text} "[span.end + 1]
        assert text[span.start : span.end].strip() == text[span.start : span.end]
