"""The evidence for an answer, and what a calibration makes of it."""

from pathlib import Path

import numpy as np
import pytest

from rag.config import EmbedConfig, GenerateConfig, RagConfig
from rag.data import FirstStageScores
from rag.errors import ConfigError
from rag.generate.evidence import (
    FEATURE_SETS,
    FEATURES,
    SIGNS,
    AnswerabilityModel,
    Evidence,
    EvidenceCalibration,
    evidence_matrix,
    evidence_of,
    open_calibration,
)
from rag.ids import ChunkId
from rag.logistic import LogisticModel, Temperature
from tests.rag.generate.make import make_passage

PASSAGES = [
    make_passage(1, "Parking in zone B costs 12 CHF a day. Ms Weber sells permits.", title="Parking"),
    make_passage(2, "Lunch is at noon.", title="Cafeteria"),
]
SCORES = {ChunkId("c1"): FirstStageScores(0.6, 5.0), ChunkId("c2"): FirstStageScores(0.2, 1.0)}
LOGITS = {ChunkId("c1"): 3.0, ChunkId("c2"): -1.0}


def evidence(query: str, logits: dict[ChunkId, float] | None = None) -> Evidence:
    return evidence_of(query, PASSAGES, SCORES, LOGITS if logits is None else logits, 2.5)


def test_scores_are_the_best_passage_and_its_lead() -> None:
    found = evidence("What does parking in zone B cost?")
    assert found.dense == 0.6
    assert found.dense_margin == pytest.approx(0.4)
    assert found.bm25 == pytest.approx(np.log(6.0))
    assert found.bm25_margin == pytest.approx(0.8)
    assert (found.logit, found.logit_margin) == (3.0, 4.0)


def test_a_question_in_the_words_of_a_sentence_is_covered() -> None:
    found = evidence("What does parking in zone B cost a day?")
    assert found.coverage == found.sentence_coverage == found.union_coverage == 1.0
    assert found.exact_missing == found.names_missing == 0.0


def test_what_no_passage_holds_is_missing() -> None:
    found = evidence("What does parking at Osmund cost in 2031 near gate G7_2?")
    assert found.exact_missing == 1.0
    assert found.names_missing == 1.0
    assert found.coverage < 0.5


def test_asking_who_where_no_name_is_near() -> None:
    assert evidence("Who sells permits?").type_missing == 0.0
    assert evidence("Who serves lunch at noon?").type_missing == 1.0


def test_negation_on_one_side_only() -> None:
    assert evidence("Where does parking not cost 12 CHF?").negation_differs == 1.0
    assert evidence("Where does parking cost 12 CHF?").negation_differs == 0.0


def test_a_late_reranker_leaves_its_features_out() -> None:
    late = evidence_of("parking", PASSAGES, SCORES, None)
    partly = evidence("parking", {ChunkId("c1"): 3.0})
    assert late.logit is late.logit_margin is partly.logit is None


def test_one_passage_has_no_lead_and_a_passage_without_a_score_counts_as_zero() -> None:
    found = evidence_of("lunch", PASSAGES[1:], {}, {ChunkId("c2"): 1.5})
    assert (found.dense, found.dense_margin, found.bm25, found.bm25_margin) == (0.0, 0.0, 0.0, 0.0)
    assert (found.logit, found.logit_margin) == (1.5, 0.0)


def test_without_passages_there_is_nothing_to_measure() -> None:
    with pytest.raises(ValueError, match="no passages"):
        evidence_of("lunch", [], {})


def test_a_matrix_has_a_row_a_question_and_a_column_a_feature() -> None:
    rows = [evidence("parking"), evidence("lunch")]
    assert evidence_matrix(rows).shape == (2, len(FEATURES))
    assert evidence_matrix(rows, ("logit", "dense")).tolist() == [[3.0, 0.6], [3.0, 0.6]]
    assert evidence_matrix([], ("dense",)).shape == (0, 1)
    with pytest.raises(ValueError, match="is missing"):
        evidence_matrix([evidence_of("parking", PASSAGES, SCORES, None)])


def test_every_sign_is_of_a_feature() -> None:
    assert set(SIGNS) <= set(FEATURES)
    assert FEATURE_SETS[0] == FEATURES
    missing = [set(FEATURES) - set(names) for names in FEATURE_SETS[1:]]
    assert missing == [{"logit", "logit_margin"}, {"answer_score"}, {"logit", "logit_margin", "answer_score"}]


def model_of(name: str, threshold: float = 0.5) -> AnswerabilityModel:
    """P = sigmoid(value)."""
    plain = LogisticModel(features=(name,), means=(0.0,), scales=(1.0,), weights=(1.0,), intercept=0.0)
    return AnswerabilityModel(model=plain, calibration=Temperature(temperature=1.0), threshold=threshold)


def calibration(encoder: str = "all-MiniLM-L6-v2", reranker: str = "all-MiniLM-L6-v2") -> EvidenceCalibration:
    models = (model_of("logit", 0.7), model_of("dense", 0.6))
    return EvidenceCalibration(encoder=encoder, reranker=reranker, command="made in a test", models=models)


def test_the_first_model_that_can_read_the_evidence_judges() -> None:
    whole, late = evidence("parking"), evidence_of("parking", PASSAGES, SCORES, None)
    assert calibration().judge(whole) == pytest.approx((1 / (1 + np.exp(-3.0)), 0.7))
    assert calibration().judge(late) == pytest.approx((1 / (1 + np.exp(-0.6)), 0.6))
    alone = calibration().model_copy(update={"models": (model_of("logit"),)})
    assert alone.judge(late) is None


def config_with(path: Path | None) -> RagConfig:
    return RagConfig(store=Path(), var=Path(), models=Path(), generate=GenerateConfig(evidence_file=path))


def test_a_calibration_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(calibration().model_dump_json(), encoding="utf-8")
    assert open_calibration(config_with(path)) == calibration()
    assert open_calibration(config_with(None)) is None


def test_a_calibration_of_another_encoder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(calibration(encoder="e5").model_dump_json(), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"made for the encoder, reranker and reader \('e5'"):
        open_calibration(config_with(path))
    other = config_with(path).model_copy(update={"embed": EmbedConfig(model="e5")})
    assert open_calibration(other) is not None
    path.write_text(calibration().model_copy(update={"reader": "mine"}).model_dump_json(), encoding="utf-8")
    assert open_calibration(config_with(path)) is not None  # without a reader a later model judges
    reading = config_with(path).model_copy(update={"generate": GenerateConfig(evidence_file=path, reader="other")})
    with pytest.raises(ConfigError, match=r"'mine'.*'other'"):
        open_calibration(reading)


@pytest.mark.parametrize("content", ["", "{}", '{"models": []}'])
def test_a_file_that_is_no_calibration_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"evidence\.json: not a calibration"):
        open_calibration(config_with(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"generate\.evidence_file: .*not readable"):
        open_calibration(config_with(tmp_path / "none.json"))
