"""A golden set is read as it was written, and its spans are found in the chunks that hold them and in no others."""

import json
from pathlib import Path

import pytest

from rag.data import Principal, Turn
from rag.errors import InputError
from rag.evaluate.golden import (
    GoldenQuestion,
    GoldenSpan,
    first_rank,
    holds_span,
    plain_text,
    read_golden,
    read_principals,
    span_recall,
    spans_found,
)

ROW: dict[str, object] = {
    "id": "g1",
    "kind": "follow_up",
    "question": "Until when?",
    "as": "new-hire",
    "history": [{"role": "user", "content": "How many days?"}],
    "relevant": [{"document": "a.md", "span": "by 31 March"}],
    "answer": "By 31 March.",
    "must_include": ["31 March"],
}


def write_golden(folder: Path, *rows: dict[str, object]) -> Path:
    path = folder / "golden.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def question(*spans: tuple[str, str]) -> GoldenQuestion:
    relevant = tuple(GoldenSpan(document, text) for document, text in spans)
    return GoldenQuestion("g1", "lookup", "?", "new-hire", (), relevant, "", ())


def test_a_question_is_read_with_its_history_and_spans(tmp_path: Path) -> None:
    (found,) = read_golden(write_golden(tmp_path, ROW))
    assert found == GoldenQuestion(
        id="g1",
        kind="follow_up",
        text="Until when?",
        asker="new-hire",
        history=(Turn("user", "How many days?"),),
        relevant=(GoldenSpan("a.md", "by 31 March"),),
        answer="By 31 March.",
        must_include=("31 March",),
    )
    assert found.answerable


def test_a_question_without_spans_is_not_answerable(tmp_path: Path) -> None:
    (found,) = read_golden(write_golden(tmp_path, {**ROW, "relevant": []}))
    assert not found.answerable


@pytest.mark.parametrize("change", [{"as": 3}, {"asks": "x"}, {"relevant": [{"document": "a.md"}]}])
def test_a_wrong_row_is_named_with_its_line(tmp_path: Path, change: dict[str, object]) -> None:
    path = write_golden(tmp_path, ROW, {**ROW, **change})
    with pytest.raises(InputError, match="line 2"):
        read_golden(path)


def test_principals_are_read_with_their_groups(tmp_path: Path) -> None:
    path = tmp_path / "principals.yaml"
    path.write_text("principals:\n  - {name: counsel, tenant: t, groups: [legal, staff]}\n", encoding="utf-8")
    assert read_principals(path) == {"counsel": Principal("counsel", "t", frozenset({"legal", "staff"}))}


def test_principals_of_another_shape_are_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "principals.yaml"
    path.write_text("principals:\n  - {name: counsel}\n", encoding="utf-8")
    with pytest.raises(InputError, match="principals"):
        read_principals(path)


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        ("Up to **5 unused** days\nmove  on.", "Up to 5 unused days move on."),
        ("run `fleetctl map push` now", "run fleetctl map push now"),
        ("| Region | EUR |\n|---|---:|\n| North America | 78 EUR |", "Region EUR North America 78 EUR"),
        ("see [the policy](../leave.md) and _this_", "see the policy and this"),
        ("ERR_4031 and snake_case stay", "ERR_4031 and snake_case stay"),
        ("a &amp; b, 3 \\* 4", "a & b, 3 4"),
        ("A [cited] word", "A [cited] word"),
    ],
)
def test_plain_text_is_what_a_reader_sees(markdown: str, plain: str) -> None:
    assert plain_text(markdown) == plain


def test_a_span_is_found_across_lines_and_emphasis() -> None:
    span = GoldenSpan("a.md", "must be taken by 31 March.")
    assert holds_span(span, "a.md", "Up to 5 days *must be\ntaken* by **31 March**.")


def test_a_span_is_found_in_a_cell_of_a_table() -> None:
    assert holds_span(
        GoldenSpan("a.md", "North America"), "a.md", "| Region | EUR |\n|---|---|\n| North America | 78 |"
    )


def test_a_span_is_not_found_in_another_document_or_in_a_part_of_itself() -> None:
    span = GoldenSpan("a.md", "by 31 March")
    assert not holds_span(span, "b.md", "by 31 March")
    assert not holds_span(span, "a.md", "by 31")


def test_the_first_rank_is_that_of_the_first_chunk_with_any_span() -> None:
    asked = question(("a.md", "one"), ("b.md", "two"))
    found = spans_found(asked, [("c.md", "one"), ("b.md", "x two"), ("a.md", "one")])
    assert found == [frozenset(), frozenset({1}), frozenset({0})]
    assert first_rank(found) == 2
    assert first_rank(found[:1]) is None


def test_span_recall_counts_each_span_once() -> None:
    asked = question(("a.md", "one"), ("b.md", "two"))
    found = spans_found(asked, [("a.md", "one"), ("a.md", "one again"), ("b.md", "two")])
    assert span_recall(asked, found, 2) == 0.5
    assert span_recall(asked, found, 3) == 1.0
