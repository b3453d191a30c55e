"""The entailment scorer learns from labelled claims, and is judged on documents that it never saw."""

import numpy as np
import pytest

from rag.embed.hashing import HashingEmbedder
from rag.evaluate.calibration import area_under_roc
from rag.evaluate.entailment import FEATURES, overlap_entailment
from rag.train.claims import make_claims
from rag.train.entailment import best_threshold, features_and_labels, fit_entailment, read_claims
from rag.train.labelled import LabelledQuestion, held_out
from tests.conftest import SHARED_DATA


def test_the_best_threshold_is_right_most_often() -> None:
    assert best_threshold(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, False, True, True])) == 0.6
    assert best_threshold(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, True, True, True])) == 0.4


def test_weights_are_fitted_and_named() -> None:
    questions = [
        LabelledQuestion(
            f"When was bridge {number} built?",
            f"Bridge {number} was built in {1900 + number} by Ms Weber. It costs {number} CHF.",
            str(1900 + number),
            f"document {number % 4}",
            "test",
        )
        for number in range(24)
    ]
    weights = fit_entailment(make_claims(questions, []), HashingEmbedder(), "hashing", "a test")
    assert (weights.encoder, weights.command, weights.model.features) == ("hashing", "a test", FEATURES)
    assert 0.0 <= weights.threshold <= 1.0


@pytest.mark.shared_data
def test_training_and_held_out_claims_share_no_document() -> None:
    training, testing = (read_claims(SHARED_DATA, 60, 0, test=test) for test in (False, True))
    assert not any(held_out(claim.document) for claim in training)
    assert all(held_out(claim.document) for claim in testing)


@pytest.mark.shared_data
def test_a_scorer_tells_unseen_claims_apart_better_than_overlap() -> None:
    embedder = HashingEmbedder()
    weights = fit_entailment(read_claims(SHARED_DATA, 150, 0, test=False), embedder, "hashing", "a test")
    claims = read_claims(SHARED_DATA, 150, 0, test=True)
    values, labels = features_and_labels(claims, embedder)
    overlap = np.asarray(overlap_entailment([(claim.premise, claim.claim) for claim in claims]))
    scorer = area_under_roc(weights.model.probabilities(values), labels)
    assert scorer > 0.78
    assert scorer > area_under_roc(overlap, labels) + 0.1
