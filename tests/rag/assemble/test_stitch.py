"""Chunks put together again."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rag.assemble.stitch import same_section, stitch
from rag.data import Chunk
from tests.rag.generate.make import make_chunk

TEXT = "The fee is 12 CHF.\n\nIt is paid monthly. Receipts follow."


def span(start: int, end: int, text: str = TEXT) -> Chunk:
    return make_chunk(text[start:end], f"{start}-{end}", start=start)


def test_a_blank_line_that_no_chunk_holds_comes_back() -> None:
    assert stitch([span(0, 18), span(20, 39)]) == TEXT[:39]


def test_what_two_chunks_share_is_said_once() -> None:
    assert stitch([span(20, 39), span(0, 39)]) == TEXT[:39]
    assert stitch([span(0, 25), span(20, 56)]) == TEXT


def test_a_chunk_inside_another_adds_nothing() -> None:
    assert stitch([span(0, 39), span(4, 10), span(20, 39)]) == TEXT[:39]


def test_a_gap_of_one_character_is_a_line_break() -> None:
    assert stitch([span(20, 39), span(40, 57)]) == "It is paid monthly.\nReceipts follow."


def row(start: int, end: int, context: str = "| zone |") -> Chunk:
    return make_chunk(f"| {start} |".ljust(end - start, "."), f"{start}", start=start, context=context)


def test_context_stands_above_the_first_chunk_and_not_above_one_that_follows_on() -> None:
    assert stitch([row(10, 20)]) == f"| zone |\n{row(10, 20).text}"
    assert stitch([row(10, 20), row(21, 30)]) == f"| zone |\n{row(10, 20).text}\n{row(21, 30).text}"


def test_context_comes_back_behind_a_gap_unless_the_text_shows_it() -> None:
    far = row(50, 60)
    assert stitch([row(0, 9, ""), far]).endswith(f"\n\n| zone |\n{far.text}")
    assert stitch([row(0, 9), far]).count("| zone |") == 1


def test_nothing_makes_an_empty_text() -> None:
    assert stitch([]) == ""


def test_sections_are_told_apart_by_document_and_number() -> None:
    one = make_chunk("a", "x", document="d1", section=1)
    assert same_section(one, make_chunk("b", "y", document="d1", section=1))
    assert not same_section(one, make_chunk("b", "y", document="d1", section=2))
    assert not same_section(one, make_chunk("b", "y", document="d2", section=1))
    assert not same_section(one, make_chunk("b", "y", document="d1", section=1, parent=(0, 9)))


@settings(deadline=None)
@given(
    text=st.text(alphabet="ab .\n", min_size=1, max_size=40),
    spans=st.lists(st.tuples(st.integers(0, 39), st.integers(1, 20)), min_size=1, max_size=6),
)
def test_every_character_covered_by_a_chunk_appears_once_and_in_order(text: str, spans: list[tuple[int, int]]) -> None:
    chunks = [span(start, min(start + length, len(text)), text) for start, length in spans if start < len(text)]
    covered = sorted({i for chunk in chunks for i in range(chunk.start, chunk.end)})
    expected = ""
    for place, i in enumerate(covered):
        gap = i - covered[place - 1] - 1 if place else 0
        expected += ("" if gap == 0 else "\n" if gap == 1 else "\n\n") + text[i]
    assert stitch(chunks) == expected
