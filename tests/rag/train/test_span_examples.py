"""Every span of an example is its answer, and what has none holds none."""

import random

import pytest

from rag.config import LexicalIndexConfig
from rag.embed.hashing import HashingEmbedder
from rag.train.labelled import LabelledQuestion
from rag.train.negatives import MiningOptions, PassagePool
from rag.train.pairs import TrainingPair
from rag.train.span_examples import SpanData, SpanExample, Table, dev_questions, mine, table_examples, tables_of, window

PAGE = """# Codes

Text with a | bar.

| code | meaning | what to do |
| --- | :-: | --- |
| E-1 | **no power** | [plug it in](a.md) |
| E-2 | too hot | wait |
| broken row |

## Sizes
| size | cm |
|---|---|
| S | 10 |
| L | 30 |
"""


def asked(number: int, answer: str) -> LabelledQuestion:
    passage = f"The form of team {number} is signed by {answer} on every second day of the month."
    return LabelledQuestion(
        f"who signs the form of team {number}", passage, answer, f"d{number}", "a", f"Form {number}"
    )


def said(example: SpanExample) -> str | None:
    return None if example.answer is None else example.passage[slice(*example.answer)]


def test_the_tables_of_a_page_are_found_below_their_headings() -> None:
    codes, sizes = tables_of(PAGE, "page")
    assert codes == Table(
        "Codes",
        ("code", "meaning", "what to do"),
        (("E-1", "no power", "plug it in"), ("E-2", "too hot", "wait")),
    )
    assert (sizes.heading, sizes.rows) == ("Sizes", (("S", "10"), ("L", "30")))


def test_a_cell_is_asked_for_by_its_row_and_column_and_stands_where_the_span_says() -> None:
    found = table_examples(tables_of(PAGE, "page"), 200, random.Random(0))
    answers = {said(example) for example in found}
    assert answers == {"no power", "plug it in", "too hot", "wait", "10", "30", None}
    by_question = {example.question: said(example) for example in found if example.answer}
    assert by_question["What is the meaning of E-2?"] == "too hot"
    assert table_examples([], 200, random.Random(0)) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_window_keeps_the_span(seed: int) -> None:
    drawn = random.Random(seed)
    words = [f"word{number}" for number in range(600)]
    passage = " ".join(words)
    start = passage.index(drawn.choice(words))
    shown, span = window(passage, (start, start + 6), drawn)
    assert span is not None
    assert shown[slice(*span)] == passage[start : start + 6]
    assert len(shown) < 1_000
    assert passage[passage.index(shown) - 1] == " " or passage.startswith(shown)
    assert window(passage, None, drawn)[1] is None


def test_mined_passages_lack_the_answer_and_examples_mix_all_kinds() -> None:
    questions = [asked(number, answer) for number, answer in enumerate(["Ann", "Bob", "Ann", "Cem", "Dee"])]
    pairs = [TrainingPair(q.question, q.passage, q.source, q.document, q.passage) for q in questions]
    pool = PassagePool(pairs, HashingEmbedder(), LexicalIndexConfig())
    titles = {question.passage: question.title for question in questions}
    options = MiningOptions(num_encoder=2, num_bm25=2, max_lead=1.0, max_similarity=1.1)
    mined = list(mine(questions, pool, titles, options))
    assert [one.question for one in mined] == questions
    assert all(one.negatives for one in mined)
    assert not any("Ann" in text for one in mined if one.question.answer == "Ann" for _, text in one.negatives)
    assert mined[0].negatives[0][0].startswith("Form ")

    data = SpanData(mined, [LabelledQuestion("who lost it", "Nobody knows.", "", "d9", "u")], tables_of(PAGE, "page"))
    drawn = data.draw(0, table_questions=4)
    assert drawn == data.draw(0, table_questions=4)
    assert drawn != data.draw(1, table_questions=4)
    assert {said(example) for example in drawn} >= {"Ann", "Bob", "Cem", "Dee"}
    dev = dev_questions(data, 4, random.Random(0))
    assert [bool(passages[0].answer) for passages in dev] == [True, False, True, False]
