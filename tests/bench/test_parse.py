from pathlib import Path
from typing import Any

import pytest

from bench.parse import claims, figures_of, summary_of
from bench.parse_awkward import EXPECTED, Expected
from bench.parse_engines import EngineReport, Outcome
from bench.parse_regression import DOCUMENTS
from bench.parse_sets import SETS, ParseCase, read_set
from rag.evaluate.parsing.facts import fact_of
from tests.conftest import SHARED_DATA

TABLE = "<table><tr><td>a</td><td>b</td></tr></table>"


def table_case(name: str, num_pages: int = 1) -> ParseCase:
    return ParseCase("tables-icdar2013", Path(f"{name}.pdf"), TABLE, ("teds",), num_pages=num_pages)


def report_of(*outcomes: Outcome) -> EngineReport:
    return EngineReport("quire", "1", outcomes, wall_s=2.0, cpu_s=4.0, peak_mib=100.0)


def test_a_report_becomes_quality_speed_and_what_went_wrong() -> None:
    cases = [table_case("a", 3), table_case("b", 1)]
    report = report_of(Outcome(TABLE, "", 1.0), Outcome("", "damaged", 1.0, lost=True))
    figures = figures_of(cases, report)
    assert figures["teds"] == 0.5
    assert (figures["pages"], figures["pages_per_s"], figures["pages_per_core_s"]) == (4, 2.0, 1.0)
    assert (figures["lost"], figures["errors"], figures["reasons"]) == (1, 1, {"b": "damaged"})


def test_facts_are_counted_and_measures_averaged_over_the_documents_that_have_them() -> None:
    assert summary_of([{"nid": 0.5, "facts": 2.0}, {"facts": 3.0}]) == {"nid": 0.5, "facts": 5.0}


def test_a_case_scores_its_facts_and_its_expected_outcome() -> None:
    facts = (fact_of({"type": "present", "text": "one"}), fact_of({"type": "present", "text": "two"}))
    scores = ParseCase("unit-tests", Path("a.pdf"), facts=facts, expected=Expected(("three",))).score("one and three")
    assert scores == {"facts": 1.0, "right": 1.0}


def test_beside_plain_text_a_table_stays_as_it_was_written() -> None:
    table = "| a | b |\n| --- | --- |\n| c | d |"
    plain = ParseCase("text-arxiv", Path("a.pdf"), "a b c d", ("nid",), is_plain=True).score(table)
    tagged = ParseCase("text-arxiv", Path("a.pdf"), "a b c d", ("nid",)).score(table)
    assert plain["nid"] > tagged["nid"]


def test_quire_has_to_be_above_the_best_other_parser() -> None:
    measured: dict[str, Any] = {
        "quire": {"nid": 0.95},
        "a": {"nid": 0.90},
        "b": {"nid": 0.96},
    }
    figures = {"text-arxiv": measured}
    assert list(claims(figures).values()) == [False]
    measured["quire-text"] = {"nid": 0.97}  # without the words inside pictures, as the others read
    assert list(claims(figures).values()) == [True]
    assert claims({"text-arxiv": {"quire": measured["quire"], "quire-text": measured["quire-text"]}}) == {}


def test_the_speed_on_pages_of_text_alone_is_a_cores() -> None:
    assert list(claims({"text-pages": {"quire": {"pages_per_core_s": 101.0}}}).values()) == [True]
    assert list(claims({"text-pages": {"quire": {"pages_per_core_s": 99.0}}}).values()) == [False]


@pytest.mark.parametrize(
    ("expected", "markdown", "error", "right"),
    [
        (Expected(("Hello World",)), "**hello**\nworld", "", True),
        (Expected(("Hello World",)), "", "encrypted: needs a password", False),
        (Expected(reason="blank"), "", "blank: no text", True),
        (Expected(reason="blank"), "", "damaged", False),
        (Expected(reason="blank"), "some words", "", False),
        (Expected(("Hello",), hidden=("secret",)), "Hello, secret", "", False),
        (Expected(("حبيبي",)), "حَبيبي", "", True),
        (Expected(("Stellungnahme Archivgesetz",)), "Stel1ungnahme Archivgesetz", "", True),
    ],
)
def test_the_right_outcome_is_the_words_or_the_reason(
    expected: Expected, markdown: str, error: str, right: bool
) -> None:
    assert expected.met_by(markdown, error) == right


@pytest.mark.shared_data
def test_every_document_of_the_sets_is_there_with_something_to_compare() -> None:
    cases = {name: read_set(SHARED_DATA, name) for name in SETS}
    assert {name: len(found) for name, found in cases.items()} == {
        "md-source": 5,
        "tables-icdar2013": 34,
        "text-arxiv": 3,
        "text-pages": 7,
        "unit-tests": 10,
        "awkward": 46,
    }
    assert {case.name for case in cases["awkward"]} == set(EXPECTED)
    assert sum(len(case.facts) for case in cases["unit-tests"]) == 52
    assert sum(case.num_pages for case in cases.pop("text-pages")) > 250
    for name, found in cases.items():
        assert all(case.truth or case.facts or case.expected for case in found), name
    for name, documents in DOCUMENTS.items():
        assert set(documents) <= {case.name for case in cases[name]}
