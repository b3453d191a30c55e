"""Fits the entailment scorer: features of labelled claims -> the weights in `rag/evaluate/entailment.json`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rag.evaluate.calibration import Flags, fit_logistic, out_of_fold_logits
from rag.evaluate.entailment import FEATURES, SIGNS, EntailmentWeights, entailment_features
from rag.logistic import Floats, sigmoid
from rag.protocols import Embedder
from rag.train.claims import LabelledClaim, make_claims
from rag.train.labelled import LabelledQuestion, held_out, read_answerable, read_unanswerable

SOURCES = ("squad-v1.1-dev", "qed-dev", "nq-open-gold")  # with short answers out of a passage
HELD_OUT = 0.5  # share of the documents that training never sees


def read_claims(data: Path, num_questions: int, seed: int, *, test: bool) -> list[LabelledClaim]:
    """Claims of about `num_questions` answerable questions, and of half as many without an answer.

    `test` picks the held-out documents, else the others. A sample is made of whole documents, so that other passages
    and other answers of a document are there to draw from; the same seed takes the same ones.
    """
    answerable = [q for q in read_answerable(data, SOURCES) if held_out(q.document, HELD_OUT) == test]
    unanswerable = [q for q in read_unanswerable(data) if held_out(q.document, HELD_OUT) == test]
    rows = np.random.default_rng(seed)
    kept = _some(answerable, num_questions, rows)
    passages = {question.passage for question in kept}
    asked_of_them = [question for question in unanswerable if question.passage in passages]
    return make_claims(kept, _some(asked_of_them, num_questions // 2, rows), seed)


def fit_entailment(
    claims: Sequence[LabelledClaim], embedder: Embedder, encoder: str, command: str
) -> EntailmentWeights:
    """The weights that tell the claims' labels apart. The threshold is the one that is right most often, each class
    counting the same, on claims of documents that the regression had not seen."""
    values, labels = features_and_labels(claims, embedder)
    documents = [claim.document for claim in claims]
    unseen = sigmoid(out_of_fold_logits(values, labels, FEATURES, documents, signs=SIGNS))
    return EntailmentWeights(
        encoder=encoder,
        command=command,
        threshold=round(best_threshold(unseen, labels), 3),
        model=fit_logistic(values, labels, FEATURES, signs=SIGNS),
    )


def features_and_labels(claims: Sequence[LabelledClaim], embedder: Embedder) -> tuple[Floats, Flags]:
    """The features (n, num_features) and the labels (n,) of the claims."""
    values = entailment_features([(claim.premise, claim.claim) for claim in claims], embedder)
    return values, np.asarray([claim.supported for claim in claims], np.bool_)


def best_threshold(probabilities: Floats, labels: Flags) -> float:
    """The threshold with the best balanced accuracy, the lowest of equals."""
    candidates = np.unique(probabilities)
    rates = [(probabilities[labels] >= t).mean() + (probabilities[~labels] < t).mean() for t in candidates]
    return float(candidates[int(np.argmax(rates))])


def _some(questions: Sequence[LabelledQuestion], limit: int, rows: np.random.Generator) -> list[LabelledQuestion]:
    """Whole passages with their questions, in a drawn order, until there are enough."""
    by_passage: dict[str, list[LabelledQuestion]] = {}
    for question in questions:
        by_passage.setdefault(question.passage, []).append(question)
    members = list(by_passage.values())
    kept: list[LabelledQuestion] = []
    for place in rows.permutation(len(members)).tolist():
        if len(kept) >= limit:
            break
        kept += members[place]
    return kept[:limit]
