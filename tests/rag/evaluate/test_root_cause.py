"""A bad answer is traced back to the stage that lost the words, and to no other."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag.config import RagConfig
from rag.data import Question
from rag.errors import InputError
from rag.evaluate.golden import GoldenQuestion, GoldenSpan
from rag.evaluate.root_cause import (
    Corpus,
    RootCause,
    StageFinding,
    full_standings,
    golden_question,
    recorded_config,
    root_cause,
)
from rag.trace import Trace
from tests.rag.evaluate.libraries import Library, cheap_config, with_settings
from tests.rag.index.factories import EVERYONE, make_chunk

LEAVE = "Every employee has 25 days of paid leave a year."
CHUNKS = [
    make_chunk(LEAVE, "leave.md"),
    make_chunk("A contractor has no paid leave, whatever the year.", "contractors.md"),
    make_chunk("Parking in zone B costs 12 CHF a day.", "parking.md"),
    make_chunk("Visitors collect a badge at the front desk.", "visitors.md"),
    make_chunk("The pay band of level four starts at 90 thousand a year.", "pay.md", groups=["people"]),
    replace(make_chunk("Unused days move into the", "carry.md"), start=0, end=25),
    replace(make_chunk("next year until March.", "carry.md", ordinal=1), start=26, end=48),
]
ASKED = Question("How many days of paid leave does an employee have?", EVERYONE)
DAYS = GoldenSpan("leave.md", "25 days of **paid** leave")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(cheap_config(tmp_path), CHUNKS)


def why(
    library: Library,
    trace: Trace,
    *gold: GoldenSpan,
    config: RagConfig | None = None,
    must_include: Sequence[str] = (),
    operator: bool = True,
    problems: dict[str, str] | None = None,
    hidden: bool = False,
) -> RootCause:
    """The root cause, the index asked as the command asks it; `hidden` leaves out what the asker may not read."""
    chunks = tuple(c for c in library.chunks if not hidden or "staff" in c.metadata.access.groups)
    corpus = Corpus(chunks, {chunk.id: chunk for chunk in chunks}, 2, problems or {})
    standings = full_standings(library.shards(), library.encoded(trace), 100)
    return root_cause(trace, gold, corpus, standings, config or library.config, must_include, operator)


def stage(found: RootCause, name: str) -> StageFinding:
    (one,) = [stage for stage in found.spans[0].stages if stage.stage == name]
    return one


async def test_a_good_answer_is_fine(library: Library) -> None:
    found = why(library, await library.ask(ASKED), DAYS, must_include=["25 days"])
    assert found.cause == "fine"
    assert [one.passed for one in found.spans[0].stages] == [True] * 8
    assert stage(found, "reranked").rank == 1
    assert stage(found, "prompt").detail == "passage [1]"


async def test_a_document_that_was_never_indexed_is_named_with_what_the_ingest_said(library: Library) -> None:
    trace = await library.ask(ASKED)
    span = GoldenSpan("scan.pdf", "25 days")
    found = why(library, trace, span, problems={"scan.pdf": "ParseError: no text; needs OCR"})
    assert found.cause == "not_indexed"
    assert "needs OCR" in found.sentence
    assert [one.passed for one in found.spans[0].stages] == [False] + [None] * 7


async def test_words_that_the_document_does_not_have_are_not_in_its_text(library: Library) -> None:
    found = why(library, await library.ask(ASKED), GoldenSpan("leave.md", "30 days"))
    assert found.cause == "not_in_text"


async def test_words_that_no_chunk_holds_whole_were_cut_by_chunking(library: Library) -> None:
    found = why(library, await library.ask(ASKED), GoldenSpan("carry.md", "into the next year"))
    assert found.cause == "cut_by_chunking"


async def test_an_operator_is_told_that_the_asker_may_not_read_it(library: Library) -> None:
    trace = await library.ask(replace(ASKED, text="What is the pay band of level four?"))
    found = why(library, trace, GoldenSpan("pay.md", "90 thousand"))
    assert found.cause == "not_permitted"
    assert "readers are people; the asker is in staff" in found.sentence


@pytest.mark.parametrize("span", [GoldenSpan("pay.md", "90 thousand"), GoldenSpan("", "90 thousand")])
async def test_nobody_else_learns_that_it_exists(library: Library, span: GoldenSpan) -> None:
    trace = await library.ask(replace(ASKED, text="What is the pay band of level four?"))
    there = why(library, trace, span, operator=False, problems={"pay.md": "secret"})
    assert there == why(library, trace, span, operator=False, hidden=True)
    assert there.cause == "not_indexed"
    ghost = why(library, trace, replace(span, document="ghost.md" if span.document else ""), operator=False)
    assert ghost.sentence.replace("ghost.md", "pay.md") == there.sentence


async def test_what_neither_leg_proposed_is_placed_by_exact_search(library: Library) -> None:
    config = with_settings(library.config, search={"k_dense": 1, "k_bm25": 1})
    trace = await library.ask(ASKED, config)
    found = why(library, trace, GoldenSpan("visitors.md", "front desk"), config=config)
    assert found.cause == "not_retrieved"
    standings = full_standings(library.shards(), library.encoded(trace), 100)
    rank, candidate = next(
        (rank, c) for rank, c in enumerate(standings.dense, start=1) if c.chunk_id == library.chunks[3].id
    )
    assert stage(found, "dense") == StageFinding(
        "dense", False, rank, candidate.score, "by exact search; the leg proposed 1"
    )
    assert f"dense rank {rank} of 6" in found.sentence  # pay.md is not the asker's
    assert "bm25 holds no word of the query" in found.sentence


async def test_what_a_leg_proposed_may_be_cut_at_fusion(library: Library) -> None:
    config = with_settings(library.config, search={"k_each_leg": 0}, rerank={"k_rerank": 1})
    found = why(library, await library.ask(ASKED, config), GoldenSpan("contractors.md", "no paid leave"), config=config)
    assert found.cause == "cut_at_fusion"
    assert stage(found, "bm25").passed
    assert stage(found, "fused").passed is False


async def test_what_stands_behind_the_passages_is_mis_ranked_and_its_score_is_explained(library: Library) -> None:
    config = with_settings(library.config, rerank={"k_passages": 1})
    trace = await library.ask(ASKED, config)
    found = why(library, trace, GoldenSpan("contractors.md", "no paid leave"), config=config)
    assert found.cause == "mis_ranked"
    reranked = stage(found, "reranked")
    assert (reranked.rank, reranked.passed) == (2, False)
    assert "rank 1 scored" in reranked.detail
    own_terms = reranked.detail.split(";")[0]
    terms = [float(part.rsplit(" ", 1)[1]) for part in own_terms.split(", ")]
    assert sum(terms) == pytest.approx(reranked.score, abs=0.03)  # four terms, two digits each


async def test_what_did_not_fit_the_budget_was_cut_from_the_prompt(tmp_path: Path) -> None:
    long = "Employees have paid leave. " + "An employee may look this up in the calendar of the office. " * 5
    library = Library(cheap_config(tmp_path), [make_chunk(long, "long.md"), *CHUNKS])
    config = with_settings(library.config, assemble={"budget_tokens": 64})
    trace = await library.ask(replace(ASKED, text="Can an employee look up paid leave in the calendar?"), config)
    assert trace.reranked[0][0] == library.chunks[0].id
    found = why(library, trace, DAYS, config=config)
    assert (found.cause, "budget of 64 tokens" in found.sentence) == ("cut_from_prompt", True)


async def test_what_repeats_a_better_chunk_was_cut_from_the_prompt_as_a_duplicate(tmp_path: Path) -> None:
    copy = make_chunk(LEAVE, "copy.md", title="Paid leave of an employee")
    library = Library(cheap_config(tmp_path), [copy, *CHUNKS])
    trace = await library.ask(ASKED)
    assert trace.reranked[0][0] == copy.id
    found = why(library, trace, DAYS)
    assert (found.cause, "repeats" in found.sentence) == ("cut_from_prompt", True)


async def test_a_passage_that_the_answer_does_not_cite_was_ignored(library: Library) -> None:
    trace = await library.ask(ASKED, says="A contractor has no paid leave [2].")
    assert trace.answer == "A contractor has no paid leave [2]."
    found = why(library, trace, DAYS)
    assert found.cause == "ignored"
    assert found.sentence.endswith("ignores it: not cited")


async def test_an_answer_without_the_words_ignored_the_passage_that_it_cites(library: Library) -> None:
    trace = await library.ask(ASKED)
    found = why(library, trace, DAYS, must_include=["25 days", "per calendar year"])
    assert (found.cause, found.sentence.endswith("cited; without 'per calendar year'")) == ("ignored", True)


async def test_an_abstention_over_the_right_passage_is_told_from_an_answer_that_ignores_it(library: Library) -> None:
    config = with_settings(library.config, generate={"min_evidence": 2.0})
    trace = await library.ask(ASKED, config)
    assert trace.abstained
    assert why(library, trace, DAYS, config=config).cause == "abstained"


async def test_a_shard_that_did_not_answer_is_the_cause_and_not_the_ranking(library: Library) -> None:
    trace = await library.ask(ASKED)
    gone = replace(trace, dense=(), bm25=(), fused=(), reranked=(), passages=(), partial=("shard 0", "shard 1"))
    assert why(library, gone, DAYS).cause == "shard_missing"


async def test_a_search_ends_with_the_ranking(library: Library) -> None:
    trace = await library.search(ASKED)
    found = why(library, trace, DAYS)
    assert (found.cause, found.sentence) == ("fine", "leave.md was found at rank 1")
    assert [one.passed for one in found.spans[0].stages][-2:] == [None, None]
    config = with_settings(library.config, rerank={"k_passages": 1})
    late = why(library, trace, GoldenSpan("contractors.md", ""), config=config)
    assert late.cause == "mis_ranked"


async def test_a_document_alone_is_gold_with_any_of_its_chunks(library: Library) -> None:
    assert why(library, await library.ask(ASKED), GoldenSpan("leave.md", "")).cause == "fine"


async def test_words_alone_are_found_in_whatever_document_holds_them(library: Library) -> None:
    assert why(library, await library.ask(ASKED), GoldenSpan("", "25 days of paid leave")).cause == "fine"
    assert why(library, await library.ask(ASKED), GoldenSpan("", "31 days of paid leave")).cause == "not_indexed"


async def test_of_several_spans_the_one_that_was_lost_first_is_named(library: Library) -> None:
    found = why(library, await library.ask(ASKED), DAYS, GoldenSpan("ghost.md", "x"), GoldenSpan("carry.md", "days"))
    assert found.cause == "not_indexed"
    assert [one.cause for one in found.spans][:2] == ["fine", "not_indexed"]


async def test_where_nothing_answers_abstaining_is_right(library: Library) -> None:
    trace = await library.ask(ASKED)
    assert why(library, trace).cause == "answered_without_evidence"
    assert why(library, replace(trace, abstained="low_evidence")).cause == "fine"


async def test_an_error_is_the_cause_of_a_question_that_it_ended(library: Library) -> None:
    trace = replace(await library.ask(ASKED), error="ModelError: the engine is gone")
    found = why(library, trace, DAYS)
    assert (found.cause, found.sentence) == (
        "failed",
        "the question ended before its end: ModelError: the engine is gone",
    )


async def test_the_settings_of_the_trace_stand_in_for_those_of_today(library: Library) -> None:
    trace = await library.ask(ASKED, with_settings(library.config, rerank={"k_passages": 1}))
    assert recorded_config(trace, library.config).rerank.k_passages == 1
    assert recorded_config(replace(trace, settings={}), library.config) == library.config


def golden(name: str, text: str, asker: str = "ann", **changes: Any) -> GoldenQuestion:  # Any: any field
    return replace(GoldenQuestion(name, "lookup", text, asker, (), (DAYS,), "", ()), **changes)


async def test_the_golden_question_is_found_by_its_words_and_then_by_its_asker(library: Library) -> None:
    trace = await library.ask(ASKED)
    mine, other = golden("g1", ASKED.text), golden("g2", ASKED.text, "bob")
    principals = {"ann": EVERYONE, "bob": replace(EVERYONE, subject="bob")}
    assert golden_question([golden("g0", "Else?"), mine], {}, trace) == mine
    assert golden_question([other, mine], principals, trace) == mine
    with pytest.raises(InputError, match="2 golden questions"):
        golden_question([other, mine], {}, trace)
    with pytest.raises(InputError, match="no golden question"):
        golden_question([golden("g0", "Else?")], principals, trace)
