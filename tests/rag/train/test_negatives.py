"""Negatives are hard and wrong: near the question, and neither the positive, a copy of it nor another right passage."""

from dataclasses import replace

import numpy as np
import pytest

from rag.config import LexicalIndexConfig
from rag.embed.hashing import HashingEmbedder
from rag.train.negatives import MiningOptions, PassagePool
from rag.train.pairs import TrainingPair

TOPICS = ("leave", "travel", "laptop", "invoice", "badge", "parking")
OPTIONS = MiningOptions(num_encoder=1, num_bm25=1, depth=4, max_lead=1.0, max_similarity=1.1)


def pair(question: str, passage: str, chunk: str = "") -> TrainingPair:
    return TrainingPair(question, passage, "s", chunk or passage, chunk or passage)


PAIRS = [
    pair(f"who signs the {topic} form number {n}", f"The {topic} form number {n} is signed by the {topic} office.")
    for topic in TOPICS
    for n in (1, 2, 3, 4)
]


def pool_of(pairs: list[TrainingPair]) -> PassagePool:
    return PassagePool(pairs, HashingEmbedder(), LexicalIndexConfig())


@pytest.fixture(scope="module")
def pool() -> PassagePool:
    return pool_of(PAIRS)


def everything(pool: PassagePool) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(len(pool.texts), np.bool_)


def test_each_question_gets_so_many_near_passages_of_each_kind(pool: PassagePool) -> None:
    examples = pool.draw(PAIRS, everything(pool), OPTIONS)
    assert [example.question for example in examples] == [p.question for p in PAIRS]
    for example, asked in zip(examples, PAIRS, strict=True):
        texts = [passage.text for passage in example.passages]
        assert texts[0] == asked.passage
        assert len(set(texts)) == 3
    on_topic = [n.text.split()[1] in e.question for e in examples for n in e.negatives]
    assert sum(on_topic) > 0.6 * len(on_topic)


def test_scores_are_those_of_the_first_stage(pool: PassagePool) -> None:
    embedder = HashingEmbedder()
    (example,) = pool.draw(PAIRS[:1], everything(pool), OPTIONS)
    question = embedder.embed_queries([example.question])[0]
    for passage in example.passages:
        cosine = float(embedder.embed_passages([passage.text])[0] @ question)
        assert passage.first.dense == pytest.approx(cosine, abs=1e-6)
        assert passage.first.bm25 > 0.0


def test_the_same_seed_draws_the_same_and_another_draws_others(pool: PassagePool) -> None:
    drawn = [pool.draw(PAIRS, everything(pool), replace(OPTIONS, seed=seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    alone = pool.draw(PAIRS[:3], everything(pool), OPTIONS)
    # The passages are the same; a matrix product of fewer rows may differ in the last bit of a cosine.
    assert [[p.text for p in e.passages] for e in alone] == [[p.text for p in e.passages] for e in drawn[0][:3]]


def test_only_allowed_passages_are_drawn_and_a_question_without_any_is_left_out(pool: PassagePool) -> None:
    allowed = pool.rows(PAIRS[:4])
    found = {n.text for e in pool.draw(PAIRS, allowed, OPTIONS) for n in e.negatives}
    assert found <= {p.passage for p in PAIRS[:4]}
    assert pool.draw(PAIRS[:1], pool.rows(PAIRS[:1]), OPTIONS) == []


def test_other_right_passages_and_other_texts_of_the_chunk_are_not_negatives() -> None:
    question = "who signs the leave form"
    pairs = [
        pair(question, "The office signs the leave form.", "chunk 1"),
        pair("who signs", "Leave form. The office signs the leave form.", "chunk 1"),
        pair(question.upper(), "Every leave form: who signs it is the office.", "chunk 2"),
        pair("what else", "Nobody signs a leave form twice.", "chunk 3"),
    ]
    pool = pool_of(pairs)
    (example,) = pool.draw(pairs[:1], everything(pool), OPTIONS)
    assert [n.text for n in example.negatives] == ["Nobody signs a leave form twice."]


def test_copies_and_candidates_that_lead_too_far_are_taken_for_right() -> None:
    question = "who signs the leave form"
    copy = "the office SIGNS the form for leave."
    pairs = [
        pair(question, "The office signs the form for leave."),
        pair("a", copy),
        pair("b", "Who signs the leave form?"),  # leads by far
        pair("c", "The leave form is blue."),
    ]
    pool = pool_of(pairs)
    options = replace(OPTIONS, max_similarity=0.95)
    (strict,) = pool.draw(pairs[:1], everything(pool), replace(options, max_lead=0.05))
    assert [n.text for n in strict.negatives] == ["The leave form is blue."]
    (loose,) = pool.draw(pairs[:1], everything(pool), options)
    assert {n.text for n in loose.negatives} == {"Who signs the leave form?", "The leave form is blue."}
    (measured,) = pool.best(pairs[:1], everything(pool), replace(options, max_lead=0.05))
    assert measured.negatives[0].text == "Who signs the leave form?"
