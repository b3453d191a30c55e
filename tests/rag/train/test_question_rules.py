"""Headings and sentences become questions that somebody might ask."""

from collections.abc import Mapping

import pytest

from rag.train.question_rules import answer_sentences, clean_heading, rule_drafts
from tests.rag.index.factories import make_chunk

SENTENCE = "The garage desk sells permits for visitors and for staff."


def questions(text: str, title: str = "", headings: tuple[str, ...] = ()) -> Mapping[str, list[str]]:
    """rule -> questions."""
    made: dict[str, list[str]] = {}
    for draft in rule_drafts(make_chunk(text, title=title, headings=headings), {}, 1):
        made.setdefault(draft.rule, []).append(draft.question)
    return made


@pytest.mark.parametrize(
    ("heading", "rule", "question"),
    [
        ("Can I extend my leave?", "heading_question", "Can I extend my leave?"),
        ("What to pack for travel", "heading_question", "What to pack for travel?"),
        ("2.1 Request a laptop:", "heading_how", "How do I request a laptop?"),
        ("Renewing your badge", "heading_how", "How do I renew my badge?"),
        ("Setting up email", "heading_how", "How do I set up email?"),
        ("How to submit your timesheet", "heading_how", "How do I submit my timesheet?"),
        ("Court leave", "heading_what", "What is court leave?"),
        ("Office hours", "heading_what", "What are office hours?"),
        ("Google Calendar", "heading_what", "What is Google Calendar?"),
        ("SLA", "heading_what", "What is SLA?"),
        ("**Court** [leave](x.md)", "heading_what", "What is court leave?"),
    ],
)
def test_a_heading_becomes_a_question(heading: str, rule: str, question: str) -> None:
    assert questions(SENTENCE, "Handbook", (heading,))[rule] == [question]


def test_a_heading_that_says_nothing_is_only_a_query_with_its_title() -> None:
    made = questions(SENTENCE, "Parking", ("Overview",))
    assert not any(rule in made for rule in ("heading_what", "heading_how", "heading_question"))
    assert made["heading_query"] == ["parking overview"]


def test_a_long_heading_is_a_sentence_and_makes_nothing() -> None:
    assert "heading_what" not in questions(
        SENTENCE, "Parking", ("Why we think that everybody here should park at home",)
    )


@pytest.mark.parametrize(
    ("sentence", "rule", "question"),
    [
        ("To renew a permit, write to the garage desk.", "sentence_how", "How do I renew a permit?"),
        (
            "If you lose your badge, call the front desk at once.",
            "sentence_if",
            "What should I do if I lose my badge?",
        ),
        ("When you're new at work, ask the front desk.", "sentence_if", "What should I do when I am new at work?"),
        (
            "You can extend your parental leave past sixteen weeks.",
            "sentence_may",
            "Can I extend my parental leave past sixteen weeks?",
        ),
        (
            "You must wear a yellow helmet in the yard.",
            "sentence_may",
            "Do I have to wear a yellow helmet in the yard?",
        ),
        (
            "Supervisors must approve travel requests.",
            "sentence_may",
            "Do supervisors have to approve travel requests?",
        ),
        ("A detail is a temporary assignment to another team.", "sentence_what", "What is a detail?"),
        ("The Digital Council is an advisory body of engineers.", "sentence_what", "What is the Digital Council?"),
    ],
)
def test_a_sentence_is_turned_around(sentence: str, rule: str, question: str) -> None:
    (draft,) = [draft for draft in rule_drafts(make_chunk(sentence), {}, 1) if draft.rule == rule]
    assert (draft.question, draft.answer) == (question, sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "You can find it on the shelf behind the desk.",
        "It is a temporary assignment to another team.",
        "To be honest, nobody at the desk knows.",
    ],
)
def test_what_points_elsewhere_makes_no_question(sentence: str) -> None:
    assert not any(rule.startswith("sentence") for rule in questions(sentence))


def test_key_words_are_what_other_chunks_do_not_have() -> None:
    chunk = make_chunk("The kestrel gateway drops telemetry packets from the kestrel fleet today.")
    common = {"drop": 90, "packet": 90, "today": 90, "kestrel": 1, "gateway": 2, "telemetri": 2, "fleet": 3}
    (draft,) = [draft for draft in rule_drafts(chunk, common, 100) if draft.rule == "key_words"]
    assert draft.question == "kestrel gateway telemetry fleet"


def test_answers_are_sentences_of_the_text_without_list_markers() -> None:
    text = "- Permits are sold at\nthe desk by Weber.\n- Why?\nSee below:\nShort one."
    assert answer_sentences(make_chunk(text)) == ["Permits are sold at the desk by Weber."]


def test_a_chunk_without_a_sentence_makes_nothing() -> None:
    assert rule_drafts(make_chunk("Yes. No.", title="Parking", headings=("Zones",)), {}, 1) == []


@pytest.mark.parametrize(
    ("name", "cleaned"), [("Step 3: Sign", "Sign"), ("1. Scope.", "Scope"), ("a) First `x`", "First x"), ("ABC", "ABC")]
)
def test_headings_lose_numbers_and_mark_up(name: str, cleaned: str) -> None:
    assert clean_heading(name) == cleaned
