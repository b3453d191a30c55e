"""Golden questions and judged queries in one shape: the same needs, and a digest that changes with what decides."""

from dataclasses import replace

import pytest

from rag.data import Principal, Turn
from rag.errors import InputError
from rag.evaluate.beir import Collection, CorpusDocument, JudgedQuery
from rag.evaluate.collection_index import READER
from rag.evaluate.golden import GoldenQuestion, GoldenSpan
from rag.evaluate.tasks import DocumentGold, SpanGold, collection_tasks, golden_tasks

ADA = Principal("ada", "acme", frozenset({"staff"}))
QUESTION = GoldenQuestion(
    "g1", "lookup", "How long is leave?", "ada", (), (GoldenSpan("leave.md", "25 days"),), "25 days.", ("25",)
)


def test_a_golden_question_is_asked_by_its_principal_and_needs_its_spans() -> None:
    (task,) = golden_tasks([QUESTION], {"ada": ADA})
    assert (task.id, task.kind, task.asker, task.question.principal) == ("g1", "lookup", "ada", ADA)
    assert task.gold == SpanGold(QUESTION.relevant)
    assert task.answerable
    assert not golden_tasks([replace(QUESTION, relevant=())], {"ada": ADA})[0].answerable


def test_an_asker_whom_nobody_describes_is_named() -> None:
    with pytest.raises(InputError, match="golden question g1 is asked by 'ada'; the principals are bob"):
        golden_tasks([QUESTION], {"bob": ADA})


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"text": "How long is the leave?"}, False),
        ({"relevant": (GoldenSpan("leave.md", "26 days"),)}, False),
        ({"history": (Turn("user", "Hello"),)}, False),
        ({"answer": "Twenty-five days.", "must_include": ()}, True),  # nothing of retrieval is judged by it
    ],
)
def test_the_digest_changes_with_what_decides(change: dict[str, object], same: bool) -> None:
    (before,) = golden_tasks([QUESTION], {"ada": ADA})
    (after,) = golden_tasks([replace(QUESTION, **change)], {"ada": ADA})  # type: ignore[arg-type]
    assert (before.digest == after.digest) is same


def test_the_digest_changes_with_the_groups_of_the_asker() -> None:
    (before,) = golden_tasks([QUESTION], {"ada": ADA})
    (after,) = golden_tasks([QUESTION], {"ada": replace(ADA, groups=frozenset({"staff", "board"}))})
    assert before.digest != after.digest


def test_a_span_is_met_by_a_chunk_of_its_document_that_holds_it_whole() -> None:
    gold = SpanGold((GoldenSpan("a.md", "25 days"), GoldenSpan("a.md", "see [3]")))
    assert gold.met_by("a.md", "You have **25 days** of leave.") == {0}
    assert gold.met_by("b.md", "You have 25 days of leave.") == frozenset()
    assert gold.met_by("a.md", "You have 25 working days.") == frozenset()
    # A prompt shows "[3]" as "(3)", so that it can't pass for a number of ours.
    assert gold.met_by("a.md", "25 days, see (3)") == {0, 1}
    assert gold.name(0) == "a.md: 25 days"


def test_a_judged_query_needs_its_relevant_documents() -> None:
    documents = tuple(CorpusDocument(name, name, "text") for name in ("d1", "d2", "d3"))
    collection = Collection("set", documents, (JudgedQuery("q1", "what?", {"d2": 2, "d1": 0, "d3": 1}),))
    (task,) = collection_tasks(collection)
    assert task.gold == DocumentGold(("d2", "d3"), (2, 1))
    assert task.gold.met_by("d3", "whatever") == {1}
    assert task.gold.met_by("d1", "whatever") == frozenset()
    assert (task.question.principal, task.kind) == (READER, "set")
