"""When not to answer."""

import pytest

from rag.config import GenerateConfig
from rag.data import AbstainReason, FirstStageScores
from rag.generate.abstain import abstain_reason, abstention_text
from rag.ids import ChunkId
from tests.rag.generate.make import make_passage
from tests.rag.generate.test_evidence import calibration

CONFIG = GenerateConfig(min_evidence=0.3)
PASSAGES = [make_passage(1, "ERR_4031 means that the token of v4.2.1 expired."), make_passage(2, "Lunch in 2024.")]


def reason(query: str, *dense: float) -> AbstainReason:
    scores = {ChunkId(f"c{n}"): FirstStageScores(cosine, 0.0) for n, cosine in enumerate(dense, start=1)}
    return abstain_reason(query, PASSAGES, scores, CONFIG)


def test_nothing_found_is_no_evidence() -> None:
    assert abstain_reason("Who?", [], {}, CONFIG) == "no_passages"


def test_one_close_passage_is_enough() -> None:
    assert reason("What is for lunch?", 0.1, 0.3) == ""


def test_far_passages_are_not() -> None:
    assert reason("What is for lunch?", 0.1, 0.29) == "low_evidence"


def test_passages_without_a_score_are_not() -> None:
    assert reason("What is for lunch?") == "low_evidence"


def test_a_passage_that_holds_the_identifier_is_evidence() -> None:
    assert reason("What does err_4031 mean?", 0.1, 0.1) == ""
    assert reason("What does ERR_4031 mean in v4.2.1?", 0.1, 0.1) == ""


@pytest.mark.parametrize("query", ["What does ERR_4032 mean?", "What does ERR_4031 mean in v4.2.2?", "Lunch in 2024?"])
def test_another_identifier_or_a_mere_number_is_none(query: str) -> None:
    assert reason(query, 0.1, 0.1) == "low_evidence"


def test_an_identifier_in_the_title_counts() -> None:
    passages = [make_passage(1, "Sign in again.", title="ERR_4031")]
    assert abstain_reason("How do I fix ERR_4031?", passages, {}, CONFIG) == ""


CALIBRATION = calibration()  # P(answerable) from the logit, threshold 0.7; without one from the cosine, 0.6


def calibrated(
    logit: float | None, cosine: float, config: GenerateConfig = CONFIG, query: str = "Lunch?"
) -> AbstainReason:
    scores = {ChunkId(f"c{n}"): FirstStageScores(cosine, 0.0) for n in (1, 2)}
    logits = None if logit is None else {ChunkId("c1"): logit, ChunkId("c2"): -9.0}
    return abstain_reason(query, PASSAGES, scores, config, CALIBRATION, logits)


def test_with_a_calibration_the_probability_decides_and_not_the_cosine() -> None:
    assert calibrated(2.0, 0.0) == ""
    assert calibrated(0.5, 0.99) == "low_evidence"


def test_a_late_reranker_leaves_the_decision_to_the_model_without_it() -> None:
    assert calibrated(None, 0.5) == ""
    assert calibrated(None, 0.3) == "low_evidence"


def test_the_configuration_may_ask_for_more_or_less_than_the_calibration() -> None:
    assert calibrated(2.0, 0.0, GenerateConfig(min_answerable=0.95)) == "low_evidence"
    assert calibrated(-5.0, 0.0, GenerateConfig(min_answerable=0.0)) == ""


def test_an_identifier_that_a_passage_holds_is_evidence_with_a_calibration_too() -> None:
    assert calibrated(-9.0, 0.0, query="What does ERR_4031 mean?") == ""
    assert calibrated(-9.0, 0.0, query="What does ERR_4032 mean?") == "low_evidence"


def test_every_reason_has_words_of_its_own_and_none_speaks_of_permissions() -> None:
    reasons: list[AbstainReason] = ["no_passages", "low_evidence", "refused_by_model", "disallowed"]
    texts = [abstention_text(reason) for reason in reasons]
    assert len(set(texts)) == len(texts)
    assert not any(word in text.lower() for text in texts for word in ("permission", "forbidden", "allowed", "access"))
    with pytest.raises(KeyError):
        abstention_text("")
