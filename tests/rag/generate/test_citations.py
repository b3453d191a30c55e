"""Citations in a streamed text."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.generate.citations import (
    CitationStream,
    StreamEvent,
    best_sentence,
    cite,
    cite_span,
    cited_numbers,
    keep_citations,
)
from tests.rag.generate.make import make_chunk, make_passage


def stream(pieces: Sequence[str], numbers: Sequence[int] = (1, 2, 3)) -> tuple[list[StreamEvent], int]:
    """All events, neighbouring texts joined, and how many citations were removed."""
    citations = CitationStream(numbers)
    events: list[StreamEvent] = []
    for event in [event for piece in pieces for event in citations.feed(piece)] + citations.close():
        if isinstance(event, str) and events and isinstance(events[-1], str):
            events[-1] += event
        else:
            events.append(event)
    return events, citations.num_removed


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("Fee is 12 [1].", ["Fee is 12 ", 1, "."]),
        ("Fee [1, 2] and [3]", ["Fee ", 1, 2, " and ", 3]),
        ("Fee [1][2].", ["Fee ", 1, 2, "."]),
        ("Fee [1-3].", ["Fee ", 1, 2, 3, "."]),
        ("Fee [1–2]【3】【2†source】.", ["Fee ", 1, 2, 3, 2, "."]),
        ("Fee [passage 2] [Source #1]", ["Fee ", 2, " ", 1]),
        ("Fee.[2] Next", ["Fee.", 2, " Next"]),
    ],
)
def test_every_form_of_citation_is_found(text: str, events: list[StreamEvent]) -> None:
    assert stream([text]) == (events, 0)


@pytest.mark.parametrize(
    "text",
    [
        "an [optional] word",
        "array[0] = table[1][2]",
        "f(x)[y]",
        "an open [1",
        "[",
        "a [[note]] b",
        "[x\n1]",
        "year [2024]",
        "[ ]",
        "a 【note】",
        "[this bracket is far too long to be a citation of anything] [",
    ],
)
def test_other_brackets_pass_unchanged(text: str) -> None:
    assert stream([text]) == ([text], 0)


@pytest.mark.parametrize(
    ("text", "clean", "num_removed"),
    [
        ("Fee is 12 [9].", "Fee is 12.", 1),
        ("Fee [9] is 12", "Fee is 12", 1),
        ("[9] Fee [7, 8].", " Fee.", 3),
        ("Fee [1, 9].", "Fee [1].", 1),
        ("Fee [9][1].", "Fee [1].", 1),
        ("Fee (see [9])", "Fee (see)", 1),
        ("Fee [9]Next", "Fee Next", 1),
        ("Fee [9]", "Fee", 1),
        ("Fee [0]", "Fee", 1),
        ("Fee [1-9]", "Fee [1][2][3]", 6),
        ("Fee [1-999]", "Fee [1]", 1),
    ],
)
def test_numbers_without_a_passage_vanish_and_are_counted(text: str, clean: str, num_removed: int) -> None:
    assert keep_citations(text, {1, 2, 3}) == (clean, num_removed)


texts = st.lists(
    st.one_of(
        st.sampled_from(
            ["[1]", "[9]", "[1, 9]", "[1-3]", "【2】", "[opt]", "a[0]", "[", "]", " ", "\n", ".", "word", "[passage 1]"]
        ),
        st.text(alphabet="[]【】 1239-,.a\n", max_size=8),
    ),
    max_size=12,
).map("".join)


def cut(text: str, places: Sequence[int]) -> list[str]:
    """The text in pieces that end at the places."""
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


@settings(deadline=None)
@given(texts, st.lists(st.integers(0, 200), max_size=10))
def test_how_the_text_is_cut_changes_nothing(text: str, places: list[int]) -> None:
    assert stream(cut(text, places)) == stream([text]) == stream(list(text))


@settings(deadline=None)
@given(texts)
def test_cleaning_a_clean_text_changes_nothing(text: str) -> None:
    clean, _ = keep_citations(text, {1, 2, 3})
    if "[" not in clean.replace("[1]", "").replace("[2]", "").replace("[3]", ""):
        assert keep_citations(clean, {1, 2, 3}) == (clean, 0)


@settings(deadline=None)
@given(texts)
def test_every_number_left_in_a_text_has_a_passage(text: str) -> None:
    events, _ = stream([text])
    assert {event for event in events if isinstance(event, int)} <= {1, 2, 3}


def test_cited_numbers_are_listed_once_in_order_of_use() -> None:
    assert cited_numbers("B [2], A [1, 2], array[5], x[4][3].") == [2, 1]


def test_a_citation_names_the_place_of_its_passage() -> None:
    when = datetime(2024, 5, 1, tzinfo=UTC)
    chunk = make_chunk("Fee.", "c7", document="d7", headings=("Zones",), page=3, updated_at=when)
    citation = cite(
        make_passage(2, "Zone A is free. The fee in zone B is 12 CHF.", chunk=chunk), "In zone B: fee 12 CHF"
    )
    assert (citation.number, citation.chunk_id, citation.document_id) == (2, "c7", "d7")
    assert (citation.uri, citation.title, citation.headings) == ("d7.md", "Handbook", ("Zones",))
    assert (citation.page, citation.regions, citation.updated_at) == (3, chunk.regions, when)
    assert citation.quote == "The fee in zone B is 12 CHF."
    assert not citation.attributed


def test_without_pages_or_a_shared_word_the_whole_passage_is_quoted() -> None:
    citation = cite(make_passage(1, "Zone A is free. Zone B is not."), "Lunch")
    assert citation.page is None
    assert citation.quote == "Zone A is free. Zone B is not."


def test_of_equally_good_sentences_the_shorter_is_quoted() -> None:
    text = "The parking fee that everybody pays is low. The parking fee is low."
    assert best_sentence(text, "parking fee") == (44, 67)
    assert best_sentence("Nothing here.", "parking fee") is None


def test_a_quote_is_a_stretch_of_its_passage() -> None:
    passage = make_passage(1, "Zone A is free. Zone B is not.")
    citation = cite_span(passage, 16, 22)
    assert (citation.quote, citation.start, citation.end) == ("Zone B", 16, 22)
    found = cite(passage, "zone B")
    assert found.quote == passage.text[found.start : found.end] == "Zone B is not."
    assert (cite(passage, "Lunch").start, cite(passage, "Lunch").end) == (None, None)
