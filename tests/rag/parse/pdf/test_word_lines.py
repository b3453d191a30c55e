from dataclasses import replace

import pymupdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.data import Box
from rag.parse.pdf.text_layer import PageText, read_page
from rag.parse.pdf.word_lines import Word, is_numeric, lines_of, page_words, words_between, words_in, words_outside
from tests.rag.parse.pdf.drawing import Draw, pdf_bytes, write, write_lines

# Small integers: their middles are exact, so that words often lie right on a box's side.
numbers = st.integers(0, 12).map(float)
boxes = st.tuples(numbers, numbers, numbers, numbers).map(
    lambda sides: Box(
        min(sides[0], sides[2]), min(sides[1], sides[3]), max(sides[0], sides[2]), max(sides[1], sides[3])
    )
)
pages_of_words = st.lists(boxes, max_size=20).map(
    lambda places: sorted(
        (Word(box.x0, box.y0, box.x1, box.y1, f"w{at}") for at, box in enumerate(places)),
        key=lambda word: (word.y0 + word.y1, word.x0),
    )
)


def holds(box: Box, word: Word) -> bool:
    x, y = (word.x0 + word.x1) / 2, (word.y0 + word.y1) / 2
    return box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1


@given(words=pages_of_words, box=boxes, others=st.lists(boxes, max_size=3))
def test_words_are_in_a_box_where_their_middles_are(words: list[Word], box: Box, others: list[Box]) -> None:
    assert words_in(words, box) == [word for word in words if holds(box, word)]
    assert words_outside(words, others) == [word for word in words if not any(holds(other, word) for other in others)]
    level = Box(-1, box.y0, 100, box.y1)
    assert list(words_between(words, box.y0, box.y1)) == [word for word in words if holds(level, word)]


@given(words=pages_of_words)
def test_every_word_stands_on_one_line_and_lines_run_from_left_to_right(words: list[Word]) -> None:
    lines = lines_of(words)
    assert sorted(word.text for line in lines for word in line.words) == sorted(word.text for word in words)
    for line in lines:
        assert [word.x0 for word in line.words] == sorted(word.x0 for word in line.words)
        assert (line.y0, line.y1) == (min(w.y0 for w in line.words), max(w.y1 for w in line.words))


def cut_by_a_path(page: pymupdf.Page) -> None:
    write(page, 72, 100, "Certi")
    end = 72 + pymupdf.get_text_length("Certi", fontsize=10)
    page.draw_rect(pymupdf.Rect(60, 80, 400, 110), fill=(0.9, 0.9, 1.0), overlay=True)
    write(page, end, 100, "ficate")


def beyond_the_page(page: pymupdf.Page) -> None:
    write_lines(page, 72, 100, ["These words can be seen", "and so can these"])
    write(page, 590, 300, "cut off")


def with_odd_spaces(page: pymupdf.Page) -> None:
    page.insert_htmlbox(pymupdf.Rect(72, 100, 400, 200), "<p>12\u202f000 people, 3\u2009kg each</p>")


def usual(page: pymupdf.Page) -> None:
    write_lines(page, 72, 100, ["Some words on two lines", "with a rule below them"])
    page.draw_line((72, 120), (300, 120))


@pytest.mark.parametrize("draw", [usual, cut_by_a_path, beyond_the_page, with_odd_spaces])
@pytest.mark.parametrize("rotation", [0, 90])
def test_words_kept_from_the_text_are_those_that_a_pass_for_words_alone_gives(draw: Draw, rotation: int) -> None:
    with pymupdf.open(stream=pdf_bytes(draw, rotation=rotation), filetype="pdf") as pdf:
        page = pdf.load_page(0)
        text = read_page(page, 1)
        assert (text.words is not None) == (draw is usual)
        assert page_words(page, text) == page_words(page, replace(text, words=None)) != []


def test_a_page_without_words_keeps_none() -> None:
    with pymupdf.open(stream=pdf_bytes(lambda page: None), filetype="pdf") as pdf:
        text: PageText = read_page(pdf.load_page(0), 1)
        assert text.words is not None
        assert list(text.words.unpacked()) == []


@pytest.mark.parametrize("text", ["1,200", "(3.1)", "$5", "-", "n/a", "12%"])
def test_numbers_and_the_marks_in_their_place_are_numeric(text: str) -> None:
    assert is_numeric(text)
