"""The abstention benchmark runs questions through the real pipeline, and judges on what it was not fitted on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.abstention import (
    GOLDEN,
    REMOVED,
    SQUAD,
    Asked,
    Observed,
    calibration_half,
    figures_of,
    fit,
    golden_questions,
    is_judged,
    judged_half,
    labels_of,
    observe,
    probabilities_of,
    read_observed,
    removed_questions,
    room_of,
    single_feature_aucs,
    squad_questions,
    stored_models,
    thinned,
    write_calibration,
    write_observed,
)
from rag.config import EmbedConfig, GenerateConfig, IndexConfig, RagConfig, RerankConfig
from rag.data import Principal
from rag.embed.hashing import HashingEmbedder
from rag.evaluate.beir import CorpusDocument
from rag.evaluate.calibration import abstention_curve
from rag.evaluate.collection_index import READER, chunk_of
from rag.generate.evidence import FEATURES, Evidence, open_calibration
from rag.rerank.overlap import OverlapReranker
from tests.conftest import SHARED_DATA

CHUNKS = [
    chunk_of(CorpusDocument("leave#1", "Leave", "Every employee has 25 days of paid leave a year.")),
    chunk_of(CorpusDocument("parking#1", "Parking", "Parking in zone B costs 12 CHF a day.")),
]


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return RagConfig(
        store=tmp_path,
        var=tmp_path,
        models=tmp_path,
        embed=EmbedConfig(embedder="hashing"),
        index=IndexConfig(num_shards=2),
        rerank=RerankConfig(reranker="overlap"),
        generate=GenerateConfig(generator="extractive"),
    )


def asked(text: str, answer: str = "") -> Asked:
    return Asked(SQUAD, text, READER, "d", bool(answer), answer)


def observed(name: str, num: int, seed: int = 0) -> list[Observed]:
    """Questions in twenty documents; the answerable have a larger cosine and logit."""
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(num):
        answerable = number % 2 == 0
        values = dict.fromkeys(FEATURES, 0.0)
        values |= {"dense": generator.normal(answerable), "logit": generator.normal(2.0 * answerable)}
        evidence = Evidence(**values)
        rows.append(Observed(name, f"q{number}", f"d{number % 40 // 2}", answerable, answerable, evidence))
    return rows


def test_questions_are_observed_with_their_evidence_and_whether_it_holds_the_answer(
    config: RagConfig, tmp_path: Path
) -> None:
    questions = [asked("How many days of paid leave does an employee have?", "25 days"), asked("Who sells paid leave?")]
    first, second = observe(questions, CHUNKS, config, HashingEmbedder(), OverlapReranker(), tmp_path / "index")
    assert (first.answerable, first.found, second.answerable, second.found) == (True, True, False, False)
    assert first.evidence.coverage == 1.0 > second.evidence.coverage
    assert first.evidence.logit is not None
    assert first.evidence.logit == pytest.approx(
        max(OverlapReranker().score(first.question, [chunk.embedded_text for chunk in CHUNKS]))
    )


def test_who_may_read_nothing_is_left_out(config: RagConfig, tmp_path: Path) -> None:
    outsider = replace(asked("How many days?", "25"), asker=Principal("x", "bench", frozenset()))
    kept = observe(
        [outsider, asked("How many days?", "25")], CHUNKS, config, HashingEmbedder(), OverlapReranker(), tmp_path / "i"
    )
    assert len(kept) == 1


def test_evidence_survives_its_file(tmp_path: Path) -> None:
    rows = observed(SQUAD, 5)
    write_observed(rows, tmp_path / "kept" / "observed.jsonl")
    assert read_observed(tmp_path / "kept" / "observed.jsonl") == rows


def test_what_is_fitted_on_and_what_is_judged_on_share_no_document() -> None:
    rows = [*observed(SQUAD, 80), *observed(REMOVED, 80), *observed(GOLDEN, 20)]
    fitted = calibration_half(rows)
    assert {one.set for one in fitted} == {SQUAD, REMOVED}
    assert not any(is_judged(one) for one in fitted)
    assert all(is_judged(one) for one in judged_half(rows, SQUAD))
    assert len(judged_half(rows, GOLDEN)) == 20
    assert len(fitted) + len(judged_half(rows, SQUAD)) + len(judged_half(rows, REMOVED)) == 160


def test_figures_are_of_the_given_questions() -> None:
    rows = observed(SQUAD, 400)
    model = fit(rows, FEATURES, "temperature")
    judged = judged_half(rows, SQUAD)
    figures = figures_of(model, judged)
    assert figures["questions"] == len(judged)
    assert figures["auc"] > 0.85
    assert figures["at_own_share"]["answered_share"] >= 0.9
    assert figures["at_own_share"]["declined_share"] > 0.4
    assert figures["costs"]["cheapest_cost"] <= min(
        figures["costs"]["cost"], figures["costs"]["cost_of_always_answering"]
    )
    assert fit(rows, ("dense",), "isotonic").threshold <= 1.0
    assert single_feature_aucs(judged)["logit"] > single_feature_aucs(judged)["num_words"] == 0.5


def test_a_held_identifier_is_never_declined() -> None:
    rows = observed(SQUAD, 200)
    model = fit(rows, FEATURES, "temperature")
    naming = [replace(one, evidence=replace(one.evidence, identifiers_held=1.0)) for one in rows[:3]]
    assert probabilities_of(model, naming).tolist() == [1.0, 1.0, 1.0]


def test_what_is_written_can_be_run_with(tmp_path: Path, config: RagConfig) -> None:
    rows = observed(SQUAD, 200)
    models = stored_models(rows, "temperature")
    assert list(models) == ["all", "without reranker", "without reader", "without reranker and reader"]
    path = tmp_path / "evidence.json"
    write_calibration(tuple(models.values()), config, "a test", path)
    running = config.model_copy(update={"generate": GenerateConfig(evidence_file=path)})
    calibration = open_calibration(running)
    assert calibration is not None
    judged = calibration.judge(rows[0].evidence)
    assert judged == pytest.approx((models["all"].probability(rows[0].evidence), models["all"].threshold))


def test_a_curve_is_thinned_and_keeps_its_ends() -> None:
    rows = observed(SQUAD, 200)
    curve = abstention_curve(np.random.default_rng(0).random(200), labels_of(rows))
    few = thinned(curve, 10)
    assert (len(few), few[0], few[-1]) == (10, curve[0], curve[-1])
    assert thinned(few, 10) == few


def test_a_golden_question_is_asked_by_its_asker() -> None:
    questions = golden_questions(Path("bench/sample"))
    assert {question.answerable for question in questions} == {True, False}
    assert all(question.golden is not None and not question.golden.history for question in questions)
    assert len({question.asker.subject for question in questions}) > 5


@pytest.mark.shared_data
def test_questions_of_an_article_are_answerable_or_not() -> None:
    chunks, questions = squad_questions(SHARED_DATA, 40, 10)
    assert sum(question.answerable for question in questions) == 20
    texts = {chunk.text for chunk in chunks}
    assert len(chunks) == len(texts)
    assert all(any(question.answer in text for text in texts) for question in questions)
    assert squad_questions(SHARED_DATA, 40, 10)[1] == questions


@pytest.mark.shared_data
def test_who_is_asked_to_leave_out_a_page_may_not_read_it() -> None:
    chunks, questions = removed_questions(SHARED_DATA, ["ir-product-docs"], 10)
    readers = {chunk.metadata.uri: set(chunk.metadata.access.groups) for chunk in chunks}
    assert [question.answerable for question in questions] == [True, False] * 10
    for question in questions:
        readable = {bool(readers[uri] & question.asker.groups) for uri in question.relevant}
        assert readable == {question.answerable}
    assert room_of("page#1") == room_of("page#2")
