"""Questions are drafted, filtered and counted; what is kept finds its chunk."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from rag.config import IndexConfig, SearchConfig
from rag.data import Chunk, Prompt, Vectors
from rag.embed.hashing import HashingEmbedder
from rag.ids import ChunkId
from rag.train.question_prompt import EXAMPLE_QUESTIONS
from rag.train.question_rules import QuestionDraft
from rag.train.round_trip import CorpusSearch
from rag.train.synthesize import (
    FILTERS,
    SynthesisOptions,
    SynthesisReport,
    SyntheticQuestion,
    draft_by_model,
    draft_by_rules,
    failed_check,
    keep_good,
    near_duplicates,
    pick_chunks,
    sample_key,
    skip_reason,
)
from tests.rag.index.factories import make_chunk

TEXTS = {
    "leave.md": "Every employee has 25 days of paid leave a year. You can move five days into the next year.",
    "parking.md": "Parking in zone B costs 12 CHF a day. To renew a permit, send the form to the garage desk.",
    "visitors.md": "Visitors collect a badge at the front desk. If you lose your badge, call the front desk at once.",
    "vpn.md": "The company network is reached with a hardware token. A token is a small device that shows a code.",
}
CHUNKS = [make_chunk(text, uri, title=uri.removesuffix(".md").title()) for uri, text in TEXTS.items()]
PARKING = CHUNKS[1]
PAGE_NUMBERS = "1 Parking permits for all staff ..... 3\n2 Leave and holidays ..... 9\n3 Visitors of us ..... 12"
LINKS = "- [Parking for staff](a.md)\n- [Leave for staff](b.md)\n- [Visitors and their badges](c.md)"
ANSWER = "Parking in zone B costs 12 CHF a day."


def search_over(chunks: Sequence[Chunk]) -> CorpusSearch:
    vectors = HashingEmbedder().embed_passages([chunk.embedded_text for chunk in chunks])
    return CorpusSearch(chunks, vectors, IndexConfig(), SearchConfig())


def keep(
    drafts: Sequence[QuestionDraft], options: SynthesisOptions | None = None
) -> tuple[list[SyntheticQuestion], SynthesisReport]:
    report = SynthesisReport()
    options = options or SynthesisOptions(k_round_trip=1)
    rows = keep_good(drafts, HashingEmbedder(), search_over(CHUNKS), options, report, "a-model")
    return rows, report


def draft(question: str, answer: str = ANSWER, chunk: Chunk = PARKING, source: str = "llm") -> QuestionDraft:
    return QuestionDraft(question, answer, chunk, source, "llm" if source == "llm" else "heading_what")


class Parrot:
    """A model that asks what the last words of its prompt cost."""

    def write(self, prompts: Sequence[Prompt]) -> list[str]:
        return [f"What does {' '.join(p.messages[-1].content.split()[-3:]).rstrip('.')} cost?" for p in prompts]


# ---------------------------------------------------------------- chunks


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (PARKING, ""),
        (replace(PARKING, flags=("instruction_like",)), "instruction_like"),
        (make_chunk(TEXTS["vpn.md"], groups=()), "no_readers"),
        (make_chunk("Too short to be asked about."), "short"),
        (make_chunk(TEXTS["vpn.md"], headings=("Table of contents",)), "contents"),
        (make_chunk(PAGE_NUMBERS), "contents"),
        (make_chunk(LINKS), "contents"),
        (make_chunk("yes no yes no yes no yes no yes no yes no yes"), "no_sentence"),
    ],
)
def test_some_chunks_are_not_asked_about(chunk: Chunk, reason: str) -> None:
    assert skip_reason(chunk) == reason


def test_chunks_are_picked_until_there_are_enough_and_every_one_is_counted() -> None:
    report = SynthesisReport()
    short = make_chunk("Short.")
    picked = pick_chunks([short, *CHUNKS], SynthesisOptions(max_chunks=2), report)
    assert picked == CHUNKS[:2]
    assert (report.chunks_seen, report.chunks_skipped, report.chunks_used) == (3, {"short": 1}, 2)


def test_the_order_of_the_sample_does_not_depend_on_other_chunks() -> None:
    keys = [sample_key(chunk.id, 0) for chunk in CHUNKS]
    assert keys == [sample_key(chunk.id, 0) for chunk in CHUNKS]
    assert not set(keys) & {sample_key(chunk.id, 1) for chunk in CHUNKS}
    assert len(set(keys)) == len(CHUNKS)


# ---------------------------------------------------------------- drafts


def test_rules_draft_as_many_as_asked_for_one_of_each_first() -> None:
    drafts = list(draft_by_rules(CHUNKS, SynthesisOptions(questions_per_chunk=3)))
    for chunk in CHUNKS:
        mine = [one for one in drafts if one.chunk == chunk]
        assert len(mine) == 3
        assert len({one.rule for one in mine}) == 3
    assert drafts == list(draft_by_rules(CHUNKS, SynthesisOptions(questions_per_chunk=3)))


def test_a_model_is_asked_about_whole_sentences_which_are_the_answers() -> None:
    told: list[tuple[int, int]] = []
    drafts = draft_by_model(
        CHUNKS, Parrot(), SynthesisOptions(questions_per_chunk=1), lambda done, total: told.append((done, total))
    )
    assert [one.chunk for one in drafts] == CHUNKS
    assert all(one.answer in one.chunk.text and one.question.startswith("What does") for one in drafts)
    assert told == [(4, 4)]


# ---------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("question", "failed"),
    [
        ("What does parking in zone B cost?", ""),
        ("What does parking in zone B cost", "malformed"),
        ("What is parking?", "malformed"),
        ("What does parking cost " + "in zone B " * 9 + "?", "malformed"),
        ("What does the passage say about parking in zone B?", "self_reference"),
        ("What does it cost in zone B?", "dangling"),
        (EXAMPLE_QUESTIONS[1], "copied_prompt"),
        ("What does parking in zone B cost in 2031?", "off_topic"),
        ("What does the cafeteria cook on Sundays?", "off_topic"),
        ("How do I send the renewal form?", "off_answer"),
        ("Parking in zone B costs 12 CHF a day?", "copied_answer"),
    ],
)
def test_a_model_s_question_is_checked(question: str, failed: str) -> None:
    assert failed_check(draft(question)) == failed


def test_what_rules_make_may_be_short_and_an_answer_turned_around() -> None:
    assert failed_check(draft("What is parking?", source="rules")) == ""
    assert failed_check(draft("What is a parking gnome?", source="rules")) == "off_topic"
    query = QuestionDraft("parking zone b", ANSWER, PARKING, "rules", "heading_query")
    assert failed_check(query) == ""
    assert failed_check(replace(query, question="parking")) == "malformed"


def test_an_answer_must_be_words_of_the_chunk() -> None:
    assert failed_check(draft("What does parking in zone B cost?", "Parking costs 12 CHF.")) == "answer_not_in_chunk"
    wrapped = replace(PARKING, text=PARKING.text.replace(" costs", "\ncosts"))
    assert failed_check(draft("What does parking in zone B cost?", chunk=wrapped)) == ""


def test_near_duplicates_are_dropped_within_a_tenant_and_the_first_stays() -> None:
    vectors: Vectors = np.array([[1, 0], [0.999, 0.0447], [0, 1], [1, 0]], np.float32)
    assert near_duplicates(vectors, ["a", "a", "a", "b"], 0.95) == [False, True, False, False]
    assert near_duplicates(vectors[:0], [], 0.95) == []


# ---------------------------------------------------------------- the whole


def test_what_is_kept_names_its_chunk_its_readers_and_its_maker() -> None:
    (row,), _ = keep([draft("What does parking in zone B cost?")])
    assert (row.question, row.answer, row.chunk_id, row.uri) == (
        "What does parking in zone B cost?",
        ANSWER,
        PARKING.id,
        "parking.md",
    )
    assert (row.positive, row.tenant, row.groups) == (PARKING.embedded_text, "acme", ("staff",))
    assert (row.source, row.rule, row.model, row.rank) == ("llm", "llm", "a-model", 1)
    assert row.prompt_version


def test_a_question_that_does_not_find_its_chunk_is_dropped() -> None:
    stray = QuestionDraft(
        "visitors badge front desk",
        ANSWER,
        replace(PARKING, text=PARKING.text + " Visitors badge desk."),
        "rules",
        "key_words",
    )
    rows, report = keep([stray])
    assert rows == []
    assert report.dropped == {("rules", "not_found"): 1}
    assert len(keep([stray], SynthesisOptions(k_round_trip=4))[0]) == 1


def test_a_question_made_of_a_heading_has_a_positive_without_it() -> None:
    chunk = make_chunk(TEXTS["parking.md"], "parking.md", title="Garage", headings=("Zone B parking",))
    rows = keep_good(
        [QuestionDraft("What is zone B parking?", ANSWER, chunk, "rules", "heading_what", "Zone B parking")],
        HashingEmbedder(),
        search_over([chunk]),
        SynthesisOptions(),
        SynthesisReport(),
    )
    assert rows[0].positive == f"Garage > Zone B parking\n{chunk.text}"
    assert rows[0].positive_masked == f"Garage\n{chunk.text}"
    assert (rows[0].model, rows[0].prompt_version) == ("", "")


def test_repeated_questions_are_kept_once() -> None:
    asked = [
        "What does parking in zone B cost?",
        "what does parking in zone b cost ?",
        "What does the parking in zone B cost?",
    ]
    rows, report = keep([draft(question) for question in asked])
    assert [row.question for row in rows] == asked[:1]
    assert report.dropped == {("llm", "duplicate"): 1, ("llm", "near_duplicate"): 1}


def test_every_draft_is_kept_or_counted_under_one_filter() -> None:
    drafts = [*draft_by_rules(CHUNKS, SynthesisOptions(questions_per_chunk=9)), draft("What is it?"), draft("Parking")]
    rows, report = keep(drafts)
    assert len(rows) == sum(report.kept.values()) == sum(report.kept_by_rule.values())
    assert sum(report.drafted.values()) == len(drafts) == len(rows) + sum(report.dropped.values())
    assert {name for _, name in report.dropped} <= set(FILTERS)
    shown = report.rows()
    assert shown[0][1:] == (report.drafted["rules"], report.drafted["llm"])
    assert sum(rules + llm for _, rules, llm in shown[1:]) == len(drafts)
    assert report.to_json()["kept"] == dict(report.kept)


def test_nothing_drafted_is_nothing_kept() -> None:
    assert keep([])[0] == []


def test_tenants_are_searched_apart() -> None:
    class Remembering:
        def __init__(self) -> None:
            self.asked: list[tuple[str, int]] = []

        def find(self, questions: Sequence[str], vectors: Vectors, tenant: str, k: int) -> list[list[ChunkId]]:
            self.asked.append((tenant, len(questions)))
            return [[] for _ in questions]

    search = Remembering()
    others = [replace(c, metadata=replace(c.metadata, access=replace(c.metadata.access, tenant="b"))) for c in CHUNKS]
    drafts = list(draft_by_rules([*CHUNKS, *others[:1]], SynthesisOptions(questions_per_chunk=1)))
    keep_good(drafts, HashingEmbedder(), search, SynthesisOptions(), SynthesisReport())
    assert search.asked == [("acme", 4), ("b", 1)]
