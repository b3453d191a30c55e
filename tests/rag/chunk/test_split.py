import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.chunk.split import split_block, split_evenly
from rag.data import BlockKind


def pieces(kind: BlockKind, text: str) -> list[str]:
    return [text[start:end] for start, end in split_block(kind, text)]


def test_sentences_end_where_a_reader_ends_them() -> None:
    text = 'Ask Dr. Lee, e.g. at 3.5 p.m. today. "Really?" Yes! See No. 7 of the U.S. Code… Done'
    assert pieces("paragraph", text) == [
        "Ask Dr. Lee, e.g. at 3.5 p.m. today.",
        '"Really?"',
        "Yes!",
        "See No. 7 of the U.S. Code…",
        "Done",
    ]


def test_sentences_of_scripts_without_spaces_end_at_their_own_marks() -> None:
    assert pieces("paragraph", "第一句。第二句！第三") == ["第一句。", "第二句！", "第三"]


def test_tables_split_at_rows_code_at_lines_and_lists_at_items() -> None:
    assert pieces("table", "| a |\n| --- |\n| 1. b |") == ["| a |", "| --- |", "| 1. b |"]
    assert pieces("code", "```\n  x = 1\n\ny\n```") == ["```", "x = 1", "y", "```"]
    assert pieces("list", "- one\n  more\n  1. inner\n- two") == ["- one\n  more", "1. inner", "- two"]


@pytest.mark.parametrize("kind", ["paragraph", "table", "code", "list"])
@given(text=st.text(alphabet='ab1 .\n-|!?。"A', max_size=80))
def test_nothing_but_white_space_lies_between_pieces(kind: BlockKind, text: str) -> None:
    at = 0
    for start, end in split_block(kind, text):
        assert at <= start < end
        assert not text[at:start].strip()
        at = end
    assert not text[at:].strip()


@given(text=st.text(alphabet="ab \n", max_size=60), num_pieces=st.integers(1, 9))
def test_even_pieces_cover_the_text_and_are_no_longer_than_asked(text: str, num_pieces: int) -> None:
    spans = split_evenly(text, 0, len(text), num_pieces)
    covered = {at for start, end in spans for at in range(start, end)}
    assert all(at in covered or text[at].isspace() for at in range(len(text)))
    assert all(start < end for start, end in spans)
    if num_pieces > 1 and len(text.strip()) > 1:
        assert len(spans) > 1 or spans[0] != (0, len(text))
