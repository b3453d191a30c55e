import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.config import LexicalIndexConfig
from rag.index.analysis import Analyzer

ANALYZER = Analyzer(LexicalIndexConfig())


@pytest.mark.parametrize(
    ("text", "whole", "part"),
    [
        ("see ERR_4031.", "err_4031", "4031"),
        ("part TR-88-B, sold out", "tr-88-b", "88"),
        ("(since v4.2.1)", "v4.2.1", "v4"),
        ("call foo.bar_baz()", "foo.bar_baz", "baz"),
        ("host 10.0.0.1:8080", "10.0.0.1:8080", "8080"),
        ("billing-svc-2 is down", "billing-svc-2", "bill"),
        ("TR\u201188\u2011B typeset with non-breaking hyphens", "tr-88-b", "tr"),
        ("1,250 units", "1,250", "250"),
        ("使用v4.2版本", "v4.2", "v4"),
    ],
)
def test_identifiers_are_found_by_their_whole_and_by_their_parts(text: str, whole: str, part: str) -> None:
    assert {whole, part} <= set(ANALYZER.terms(text))


def test_plain_words_are_folded_stemmed_and_freed_of_stop_words() -> None:
    assert ANALYZER.terms("The employees' Vacations and/or the employee’s vacation") == [
        "employe",
        "vacat",
        "employe",
        "vacat",
    ]


def test_plain_compounds_are_their_words() -> None:
    assert ANALYZER.terms("rate-limit example.com") == ["rate", "limit", "exampl", "com"]


def test_cjk_runs_become_bigrams() -> None:
    assert ANALYZER.terms("年次休暇。税") == ["年次", "次休", "休暇", "税"]


def test_what_typesetting_hides_does_not_change_a_term() -> None:
    assert ANALYZER.terms("infor\u00admation ﬁnance ＡＢＣ") == ANALYZER.terms("information finance abc")


def test_nothing_to_index_gives_no_terms() -> None:
    for text in ("", "to be, or: not to be!", "--- ... ***"):
        assert ANALYZER.terms(text) == []


def test_stemmer_and_stop_words_can_be_switched_off() -> None:
    plain = Analyzer(LexicalIndexConfig(stemmer="none", stop_words="none"))
    assert plain.terms("The Vacations") == ["the", "vacations"]


@given(st.text(st.characters(max_codepoint=0x17F), max_size=60))
def test_capitals_do_not_matter(text: str) -> None:
    assert ANALYZER.terms(text) == ANALYZER.terms(text.casefold())


@given(st.text(max_size=60))
def test_any_text_can_be_analyzed_and_stored(text: str) -> None:
    for term in ANALYZER.terms(text):
        assert term.encode()


@given(st.lists(st.text(max_size=20), max_size=4))
def test_words_do_not_depend_on_their_line(lines: list[str]) -> None:
    assert ANALYZER.terms("\n".join(lines)) == [term for line in lines for term in ANALYZER.terms(line)]


def test_question_words_and_single_letters_are_not_indexed_but_parts_of_identifiers_are() -> None:
    analyzer = Analyzer(LexicalIndexConfig())
    assert analyzer.terms("Can I take x days, and how do you plan it?") == ["take", "day", "plan"]
    assert "b" in analyzer.terms("TR-88-B")
