"""Labelled questions are read as they are, and split by document."""

import gzip
import json
from pathlib import Path

import pytest

from rag.errors import InputError
from rag.train.labelled import held_out, read_answerable, read_labelled, read_unanswerable
from tests.conftest import SHARED_DATA


def write(path: Path, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_pairs_without_an_answer_are_left_out_and_titles_are_one(tmp_path: Path) -> None:
    rows = [
        {"question": "When?", "passage": "In 1870.", "answer": " 1870 ", "title": "Robert_Lee"},
        {"question": "Why?", "passage": "No reason.", "answer": "", "title": "Robert Lee"},
        {"question": "Who?", "passage": "Ann did.", "answer": "Ann"},
    ]
    write(tmp_path / "qa-pairs" / "some.jsonl.gz", rows)
    first, second = read_answerable(tmp_path, ["some"])
    assert (first.answer, first.document, first.answerable, first.source) == ("1870", "robert lee", True, "some")
    assert second.document == "ann did."


def test_unanswerable_questions_have_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "qa-unanswerable" / "squad-v2.0-dev-unanswerable.jsonl.gz"
    write(path, [{"question": "Who?", "passage": "Ann did.", "title": "Ann", "id": "1"}])
    (only,) = read_unanswerable(tmp_path)
    assert (only.answerable, only.document) == (False, "ann")


def test_a_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl\.gz: no such file"):
        read_answerable(tmp_path, ["none"])
    path = tmp_path / "qa-pairs" / "broken.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"{\n"))
    with pytest.raises(InputError, match="not JSON"):
        read_answerable(tmp_path, ["broken"])


def test_a_document_is_always_on_the_same_side_and_the_sides_have_their_shares() -> None:
    names = [f"document {number}" for number in range(2_000)]
    assert sum(map(held_out, names)) == pytest.approx(1_000, abs=100)
    assert {name for name in names if held_out(name, 0.2)} <= {name for name in names if held_out(name, 0.5)}


@pytest.mark.shared_data
def test_the_answerable_and_the_unanswerable_are_asked_of_the_same_articles() -> None:
    answerable = {question.document for question in read_answerable(SHARED_DATA, ["squad-v1.1-dev"])}
    unanswerable = {question.document for question in read_unanswerable(SHARED_DATA)}
    assert unanswerable <= answerable
    assert 10 < sum(map(held_out, sorted(unanswerable))) < 21


def test_labelled_files_say_what_is_answered_and_what_is_not(tmp_path: Path) -> None:
    rows: dict[str, list[dict[str, object]]] = {
        "a.jsonl": [
            {"question": "How long?", "passage": "Two days.", "answer": " Two days ", "title": "Leave_policy"},
            {"question": "How long?", "passage": "Two days."},  # nobody knows whether it answers
            {"question": "Who?", "passage": "Two days.", "unanswerable": True},
        ],
        "b-unanswerable.jsonl": [{"question": "Where?", "passage": "Two days.", "source": "b"}],
        "c.jsonl": [
            {"question": "When?", "positive": "Leave > When\nNow.", "positive_masked": "Leave\nNow.", "answer": "Now",
             "document_id": "d1", "source": "rules"},
        ],
    }  # fmt: skip
    for name, listed in rows.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in listed))
    found = read_labelled([tmp_path])
    assert [(q.question, q.passage, q.answer, q.source) for q in found] == [
        ("How long?", "Two days.", "Two days", "a"),
        ("Who?", "Two days.", "", "a"),
        ("Where?", "Two days.", "", "b-unanswerable"),
        ("When?", "Leave\nNow.", "Now", "synthetic-rules"),
    ]
    assert (found[0].title, found[0].document, found[3].document) == ("Leave policy", "leave policy", "d1")


def test_labelled_files_without_questions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"question": "Who?", "passage": "Two days."}\n')
    with pytest.raises(InputError, match="no questions with an answer"):
        read_labelled([path])
    path.write_text('{"passage": "Two days.", "answer": "two"}\n')
    with pytest.raises(InputError, match=r"a\.jsonl:1: expected a question"):
        read_labelled([path])
