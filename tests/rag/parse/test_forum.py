import json
from datetime import UTC, datetime

import pytest

from rag.errors import ParseError
from tests.rag.parse.parsing import parse, shown

THREAD = {
    "id": "7",
    "title": "How do I reset my badge?",
    "question": "It **beeps**.\n\nTwice.",
    "asked_at": "2024-01-01T10:00:00",
    "tags": ["badge", "door"],
    "answers": [
        {"text": "Low", "score": 1, "accepted": False, "answered_at": "2024-01-02"},
        {
            "text": "# Right\n\nGo to the desk.",
            "score": 0,
            "accepted": True,
            "answered_at": "2024-02-01T00:00:00+01:00",
        },
        {"text": "High", "score": 9, "accepted": False},
    ],
}


def test_a_thread_reads_question_accepted_answer_then_the_others_by_score() -> None:
    document = parse(json.dumps(THREAD), "forum.jsonl#7")
    assert shown(document) == [
        ("heading1", "How do I reset my badge?"),
        ("paragraph", "It beeps."),
        ("paragraph", "Twice."),
        ("paragraph", "Tags: badge, door"),
        ("heading2", "Accepted answer"),
        ("paragraph", "Right"),
        ("paragraph", "Go to the desk."),
        ("heading2", "Other answer"),
        ("paragraph", "High"),
        ("heading2", "Other answer"),
        ("paragraph", "Low"),
    ]
    assert document.metadata.title == "How do I reset my badge?"
    assert document.metadata.updated_at == datetime(2024, 1, 31, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    "row",
    [
        {"id": 1, "question": "Only a question"},
        {"id": 1, "answers": [{"text": "Only an answer"}, 3, {}, {"text": None, "score": "x"}]},
        {"id": 1, "title": None, "question": "q", "answers": None, "tags": "t", "asked_at": 5},
    ],
)
def test_missing_fields_are_tolerated(row: dict[str, object]) -> None:
    document = parse(json.dumps(row), "forum.jsonl#1")
    assert document.blocks
    assert document.metadata.title == "forum 1"


def test_a_row_with_a_text_is_a_page() -> None:
    row = {"id": 1, "title": "Page", "body": "One\n\n- two"}
    assert shown(parse(json.dumps(row), "x.jsonl#1")) == [
        ("heading1", "Page"),
        ("paragraph", "One"),
        ("list", "- two"),
    ]


def test_any_other_row_shows_its_fields() -> None:
    row = {"id": 1, "groups": ["hr"], "city": "Köln", "seats": 4}
    assert parse(json.dumps(row), "x.jsonl#1").text == "city: Köln\nseats: 4"


def test_lone_surrogates_can_be_written() -> None:
    document = parse('{"id": 1, "title": "a\\ud800b", "text": "x\\udfffy"}', "x.jsonl#1")
    assert f"{document.text}{document.metadata.title}".encode()


def test_an_empty_row_is_an_error() -> None:
    with pytest.raises(ParseError, match="no text"):
        parse('{"id": 1}', "x.jsonl#1")
