"""Rewriting without a model."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.config import RewriteConfig
from rag.rewrite.rules import expand_acronyms, normalise, rewrite_by_rules

GLOSSARY = {"PTO": "paid time off", "SLA": "service level agreement", "IT": "information technology", "A/B": "split"}
CONFIG = RewriteConfig(glossary=GLOSSARY)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("How much PTO do I get?", "How much PTO (paid time off) do I get?"),
        ("Which SLAs exist?", "Which SLAs (service level agreement) exist?"),
        ("The SLA's owner", "The SLA's (service level agreement) owner"),
        ("PTO or more PTO?", "PTO (paid time off) or more PTO?"),
        ("how much pto is left", "how much pto (paid time off) is left"),
        ("Run the A/B test", "Run the A/B (split) test"),
        # not a whole word, another case, a common word, already spelled out
        ("PTO_2024 and PTOX", "PTO_2024 and PTOX"),
        ("Is Pto a word?", "Is Pto a word?"),
        ("is it there", "is it there"),
        ("PTO, that is Paid Time Off", "PTO, that is Paid Time Off"),
    ],
)
def test_acronyms_are_spelled_out_once_beside_themselves(text: str, expanded: str) -> None:
    assert expand_acronyms(text, GLOSSARY) == expanded


def test_the_longest_acronym_wins_and_a_meaning_is_not_expanded_again() -> None:
    glossary = {"SLA": "service level agreement", "SLA X": "the SLA of X"}
    assert expand_acronyms("Show SLA X", glossary) == "Show SLA X (the SLA of X)"


def test_each_rule_that_changed_something_is_named() -> None:
    query = rewrite_by_rules("  What’s\u00a0our\u200b PTO? ", CONFIG)
    assert query.text == "What's our PTO (paid time off)?"
    assert query.original == "  What’s\u00a0our\u200b PTO? "
    assert query.rewrites == ("normalised", "glossary")


def test_a_clean_question_is_its_own_query() -> None:
    query = rewrite_by_rules("Who owns billing?", CONFIG)
    assert (query.text, query.rewrites) == ("Who owns billing?", ())


@settings(deadline=None)
@given(st.text())
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@settings(deadline=None)
@given(st.text(alphabet="PTOSLA s'(?", max_size=30))
def test_expansion_only_adds_text(text: str) -> None:
    expanded = expand_acronyms(text, GLOSSARY)
    for meaning in GLOSSARY.values():
        if meaning not in text:
            expanded = expanded.replace(f" ({meaning})", "")
    assert expanded == text
