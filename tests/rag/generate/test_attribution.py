"""Answers cited while they stream."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.data import Citation
from rag.generate.attribution import AnswerStream, attribute
from rag.generate.citations import cited_numbers
from rag.generate.prompt import REFUSAL
from tests.rag.generate.make import make_passage

PASSAGES = [
    make_passage(1, "In zone B the parking fee is 12 CHF per day. Zone A is free for electric cars."),
    make_passage(2, "Trips above 500 CHF need the approval of a manager. Error ERR_4031 means an expired token."),
    make_passage(3, "Trips need the approval of a manager."),
]


def answer(pieces: Sequence[str], min_attribution: float = 0.6) -> AnswerStream:
    stream, emitted = AnswerStream(PASSAGES, min_attribution), list[str | Citation]()
    for piece in pieces:
        emitted += stream.feed(piece)
    emitted += stream.close()
    assert "".join(item for item in emitted if isinstance(item, str)) == stream.text
    assert tuple(item for item in emitted if isinstance(item, Citation)) == stream.citations
    return stream


def text_of(text: str) -> str:
    return answer([text]).text


# ---------------------------------------------------------------- attribution of one sentence


def test_the_passage_with_the_largest_share_of_the_words_is_named() -> None:
    assert attribute("The fee for parking in zone B is 12 CHF.", PASSAGES, 0.6) == 1


def test_ties_go_to_the_better_rank() -> None:
    assert attribute("A trip needs approval by the manager.", PASSAGES, 0.6) == 2


def test_too_small_a_share_names_nothing() -> None:
    sentence = "The fee for parking is paid at the red machine by the entrance."
    assert attribute(sentence, PASSAGES, 0.6) is None
    assert attribute(sentence, PASSAGES, 0.2) == 1


@pytest.mark.parametrize(
    "sentence",
    [
        "The parking fee in zone B is 15 CHF per day.",
        "Error ERR_4032 means an expired token.",
        "Trips above 5000 CHF need approval.",
    ],
)
def test_a_number_or_identifier_that_the_passage_lacks_is_never_attributed(sentence: str) -> None:
    assert attribute(sentence, PASSAGES, 0.1) is None


def test_the_number_of_a_list_line_is_no_claim() -> None:
    assert attribute("7. The parking fee in zone B is 12 CHF.", PASSAGES, 0.6) == 1


def test_titles_count_as_words_of_their_passage() -> None:
    passages = [make_passage(1, "It is 12 CHF.", title="Parking fee of zone B")]
    assert attribute("The parking fee in zone B is 12 CHF.", passages, 0.9) == 1


def test_a_sentence_that_says_nothing_is_not_attributed() -> None:
    assert attribute("Yes.", PASSAGES, 0.0) is None
    assert attribute("Parking.", PASSAGES, 0.0) is None


# ---------------------------------------------------------------- a whole answer


def test_a_sentence_without_citation_gets_one_before_its_full_stop() -> None:
    stream = answer(["The parking fee in zone B is 12 CHF. I like it."])
    assert stream.text == "The parking fee in zone B is 12 CHF [1]. I like it."
    (citation,) = stream.citations
    assert citation.attributed
    assert citation.quote == "In zone B the parking fee is 12 CHF per day."


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("The fee is low [1].", "The fee is low [1]."),
        ("The fee is low. [1] Trips are not.", "The fee is low [1]. Trips are not."),
        ("The fee is low.[1][2]\nTrips are not.", "The fee is low [1][2].\nTrips are not."),
        ("The fee is low\n[1]\nTrips are not", "The fee is low [1]\nTrips are not"),
        ("The fee [1] is low, and [2, 2] so on.", "The fee [1] is low, and [2] so on."),
        ("[2] Trips need one thing.", "[2] Trips need one thing."),
        ("The fee is low [8].", "The fee is low."),
        ("- Zone A is free for electric cars\n- ok", "- Zone A is free for electric cars [1]\n- ok"),
        ("Is zone A free for electric cars?", "Is zone A free for electric cars?"),
        ("Use array[0] and [optional] parts.", "Use array[0] and [optional] parts."),
        ("\n\n The fee is low.\n\n", "The fee is low."),
        ("", ""),
    ],
)
def test_citations_move_to_their_place_and_text_stays(written: str, text: str) -> None:
    assert text_of(written) == text


def test_a_citation_of_the_model_is_not_marked_as_attributed_and_comes_once() -> None:
    stream = answer(["Trips need approval [3]. Zone A is free for electric cars. Managers approve [3]."])
    assert [(c.number, c.attributed) for c in stream.citations] == [(3, False), (1, True)]


def test_citations_that_do_not_resolve_are_counted() -> None:
    assert answer(["Nothing [7] here [8, 1]."]).num_removed == 2


def test_a_sentence_leaves_as_soon_as_the_next_one_begins() -> None:
    stream = AnswerStream(PASSAGES, 0.6)
    assert stream.feed("Zone A is free for electric cars.") == []
    citation, text = stream.feed(" T")
    assert isinstance(citation, Citation)
    assert citation.number == 1
    assert text == "Zone A is free for electric cars [1]."


def test_a_refusal_is_noticed_and_not_cited() -> None:
    stream = answer([REFUSAL])
    assert stream.refused
    assert stream.citations == ()
    assert not answer(["The parking fee in zone B is 12 CHF."]).refused


def test_a_sentence_said_three_times_stops_the_answer() -> None:
    sentence = "The parking fee in zone B is 12 CHF. "
    stream = AnswerStream(PASSAGES, 0.6)
    looping = []
    for piece in (sentence * 2 + "And", " so on. " + sentence + "X"):
        stream.feed(piece)
        looping.append(stream.looping)
    assert looping == [False, True]
    assert stream.feed("More text. And more. ") == stream.close() == []
    assert stream.text == "The parking fee in zone B is 12 CHF [1]. And so on."


def test_a_short_sentence_may_come_twice() -> None:
    assert text_of("Is it? Yes. Is it free? Yes.") == "Is it? Yes. Is it free? Yes."


def test_private_use_characters_of_a_model_are_not_taken_for_citations() -> None:
    assert text_of("Odd \ue001 text.") == "Odd  text."


answers = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "The parking fee in zone B is 12 CHF",
                "Trips need approval of a manager",
                "Zone A. ",
                ". ",
                ".",
                " [1]",
                "[2]",
                "[9]",
                "\n",
                "\n- ",
                " ",
                "e.g. ",
                "Yes. ",
                "1. ",
                '."',
                REFUSAL,
                "? ",
            ]
        ),
        st.text(alphabet="[]12 .ab\nC!", max_size=6),
    ),
    max_size=14,
).map("".join)


@settings(deadline=None)
@given(answers, st.lists(st.integers(0, 400), max_size=12))
def test_how_the_answer_is_cut_changes_nothing(text: str, places: list[int]) -> None:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    whole = answer([text])
    for pieces in ([text[start:end] for start, end in pairwise(ends)], list(text)):
        cut = answer(pieces)
        assert (cut.text, cut.citations, cut.num_removed, cut.looping) == (
            whole.text,
            whole.citations,
            whole.num_removed,
            whole.looping,
        )


@settings(deadline=None)
@given(answers)
def test_the_citations_are_the_numbers_in_the_text(text: str) -> None:
    stream = answer([text])
    numbers = {citation.number for citation in stream.citations}
    assert len(numbers) == len(stream.citations)
    assert all(f"[{number}]" in stream.text for number in numbers)
    assert {number for number in cited_numbers(stream.text) if number in (1, 2, 3)} <= numbers


def test_without_support_a_sentence_is_dropped_whether_the_model_cited_for_it_or_not() -> None:
    stream = AnswerStream(PASSAGES, 0.6, keep_unsupported=False)
    written = "Dragons guard the vault every 77 weeks [1]. In zone B the fee is 12 CHF per day. Bears live here too. "
    parts = [*stream.feed(written), *stream.close()]
    texts = [part for part in parts if isinstance(part, str)]
    assert "".join(texts) == stream.text
    assert stream.text.strip() == "In zone B the fee is 12 CHF per day [1]."
    assert stream.num_unsupported == 2
    assert not stream.lost


@pytest.mark.parametrize(("written", "lost"), [("Dragons guard the vault.", False), ("Dragons fly. Bears eat.", True)])
def test_a_model_whose_first_sentences_have_no_support_is_lost(written: str, lost: bool) -> None:
    stream = AnswerStream(PASSAGES, 0.6, keep_unsupported=False)
    stream.feed(written)
    stream.close()
    assert stream.lost == lost
    assert (stream.text, stream.citations) == ("", ())


def test_a_refusal_needs_no_support() -> None:
    stream = AnswerStream(PASSAGES, 0.6, keep_unsupported=False)
    stream.feed(REFUSAL)
    stream.close()
    assert stream.refused
