"""Where sentences end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.generate.sentences import sentence_end, sentences, split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Upgrade to v4.2.1 now. It costs 12.50 CHF.", ["Upgrade to v4.2.1 now.", "It costs 12.50 CHF."]),
        ("Use e.g. Badges. Ask Dr. Smith.", ["Use e.g. Badges.", "Ask Dr. Smith."]),
        ("See fig. 3 and no. 5. The answer is no. Really.", ["See fig. 3 and no. 5.", "The answer is no.", "Really."]),
        ("It takes approx. five days etc. and more.", ["It takes approx. five days etc. and more."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("Steps:\n1. Restart it.\n2. Sign in\n- Done", ["Steps:", "1. Restart it.", "2. Sign in", "- Done"]),
        ("A line that was\nonly wrapped. Next.", ["A line that was\nonly wrapped.", "Next."]),
        ("Title\n\nlower case paragraph", ["Title", "lower case paragraph"]),
        ("停车费12元。电动车免费。", ["停车费12元。", "电动车免费。"]),
        ("| a | It is out. Sign in! |\n| b | No. |\n\nThen.", ["| a | It is out. Sign in! |", "| b | No. |", "Then."]),
        ("Wait... what? Yes!", ["Wait... what?", "Yes!"]),
        ("  \n ", []),
        ("", []),
    ],
)
def test_texts_split_where_a_reader_would(text: str, expected: list[str]) -> None:
    assert list(sentences(text)) == expected


def test_an_end_is_not_decided_before_the_next_sentence_begins() -> None:
    assert sentence_end("It costs 12.", final=False) is None
    assert sentence_end("It costs 12. ", final=False) is None
    assert sentence_end("It costs 12. T", final=False) == 12
    assert sentence_end("It costs 12. t", final=False) is None


texts = st.text(alphabet="aB1.!?。」|\n \"')e", max_size=40)


@settings(deadline=None)
@given(texts)
def test_only_white_space_lies_between_sentences(text: str) -> None:
    spans = split_sentences(text)
    covered = [i for start, end in spans for i in range(start, end)]
    assert covered == sorted(set(covered))
    assert all(text[i].isspace() for i in set(range(len(text))) - set(covered))


@settings(deadline=None)
@given(texts, st.integers(0, 40))
def test_ends_found_while_a_text_is_written_are_the_ends_of_the_whole_text(text: str, length: int) -> None:
    early = sentence_end(text[:length], final=False)
    if early is not None:
        assert early == sentence_end(text)
