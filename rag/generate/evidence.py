"""How much the passages look like they hold an answer: features of a question and its passages, and their sum.

A calibration turns the features into P(answerable). It is trained by `python -m bench.abstention` and stored as JSON
beside the reranker whose logits it reads; without one, `rag.generate.abstain` falls back on the dense cosine alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag.config import RagConfig
from rag.data import FirstStageScores, Passage
from rag.errors import ConfigError
from rag.generate.overlap import (
    TextFacts,
    answer_type,
    around_sentence,
    best_sentence_place,
    facts_of,
    holds_type,
    share_in,
)
from rag.ids import ChunkId
from rag.logistic import Calibration, Floats, LogisticModel
from rag.rewrite.words import identifiers, words


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for an answer in the passages. Shares are of the question's words, in the passage that holds most.

    Where one is None, what it is read from was not there: the reranker or the reader was late, or there is no reader.
    """

    dense: float  # largest cosine
    dense_margin: float  # above the mean of the others
    bm25: float  # log(1 + largest score)
    bm25_margin: float  # share of the largest score by which it is above the second
    logit: float | None  # largest of the reranker
    logit_margin: float | None  # above the second
    coverage: float  # content words in one passage
    union_coverage: float  # in all passages together
    sentence_coverage: float  # in one sentence
    pair_coverage: float  # neighbouring content words in one passage
    rare_coverage: float  # long words in one passage
    identifiers_held: float  # 1.0: the question names identifiers, and one passage holds them all
    exact_missing: float  # numbers and identifiers that the passage lacks
    names_missing: float  # names that the passage lacks
    type_missing: float  # 1.0: asks who, when, where or how many, and nothing of the kind is near the best sentence
    negation_differs: float  # 1.0: either the question or the best sentence is negated, but not both
    num_words: float  # log(1 + content words of the question)
    answer_score: float | None = None  # of the likeliest span, by the reader


LOGIT_FEATURES, READER_FEATURES = ("logit", "logit_margin"), ("answer_score",)
FEATURES: tuple[str, ...] = tuple(field.name for field in fields(Evidence))
# More of the first never speaks against an answer, more of the last never for one: this keeps out what few questions
# teach by chance.
SIGNS: Mapping[str, int] = {
    **dict.fromkeys(("dense", "dense_margin", "bm25", "logit", "logit_margin", "answer_score"), 1),
    **dict.fromkeys(("coverage", "union_coverage", "sentence_coverage", "pair_coverage", "rare_coverage"), 1),
    **dict.fromkeys(("exact_missing", "names_missing", "type_missing", "negation_differs"), -1),
}
# What the models of a calibration read, the best first: a later one does without what may be missing.
FEATURE_SETS: tuple[tuple[str, ...], ...] = tuple(
    tuple(name for name in FEATURES if name not in without)
    for without in ((), LOGIT_FEATURES, READER_FEATURES, LOGIT_FEATURES + READER_FEATURES)
)


def evidence_of(
    query: str,
    passages: Sequence[Passage],
    scores: Mapping[ChunkId, FirstStageScores],
    logits: Mapping[ChunkId, float] | None = None,
    answer_score: float | None = None,
) -> Evidence:
    """The evidence that the passages, at least one, are for the query.

    `logits` are the reranker's and `answer_score` is the reader's, None where they gave none in time. A passage without
    a score counts as 0.0.
    """
    if not passages:
        raise ValueError("no passages: there is no evidence to measure")
    asked = TextFacts(query)
    shown = [facts_of(shown_text(passage)) for passage in passages]
    best = max(range(len(shown)), key=lambda place: (share_in(asked.stems, shown[place].stems), -place))
    sentences = [(_sentence_share(asked, text), -place, text) for place, text in enumerate(shown)]
    answering = max(sentences, key=lambda item: item[:2])[2]
    place = best_sentence_place(answering, asked.stems)
    kind = answer_type(query)
    found = [scores.get(passage.chunk.id, FirstStageScores(0.0, 0.0)) for passage in passages]
    dense = sorted((score.dense for score in found), reverse=True)
    bm25 = sorted((score.bm25 for score in found), reverse=True)
    read = None if logits is None else sorted((logits.get(p.chunk.id, -math.inf) for p in passages), reverse=True)
    if read is not None and not all(map(math.isfinite, read)):
        read = None
    return Evidence(
        dense=dense[0],
        dense_margin=dense[0] - math.fsum(dense[1:]) / len(dense[1:]) if len(dense) > 1 else 0.0,
        bm25=math.log1p(max(bm25[0], 0.0)),
        bm25_margin=(bm25[0] - bm25[1]) / bm25[0] if len(bm25) > 1 and bm25[0] > 0 else 0.0,
        logit=None if read is None else read[0],
        logit_margin=None if read is None else read[0] - read[1] if len(read) > 1 else 0.0,
        coverage=share_in(asked.stems, shown[best].stems),
        union_coverage=share_in(asked.stems, frozenset().union(*(text.stems for text in shown))),
        sentence_coverage=_sentence_share(asked, answering),
        pair_coverage=max(share_in(asked.pairs, text.pairs) for text in shown),
        rare_coverage=max(share_in(asked.rare, text.stems) for text in shown),
        identifiers_held=float(names_all(query, passages)),
        exact_missing=min(1.0 - share_in(asked.exact, text.exact) for text in shown),
        names_missing=min(1.0 - share_in(asked.names, text.stems) for text in shown),
        type_missing=float(not holds_type(around_sentence(answering, place), kind, asked)),
        negation_differs=float(asked.negated != answering.sentences[place].negated),
        num_words=math.log1p(len(asked.content)),
        answer_score=answer_score,
    )


def names_all(query: str, passages: Sequence[Passage]) -> bool:
    """Whether the query has identifiers, and one passage holds them all."""
    wanted = identifiers(query)
    return bool(wanted) and any(wanted <= set(words(shown_text(passage))) for passage in passages)


def shown_text(passage: Passage) -> str:
    """What the model sees of a passage: title and headings above the text."""
    return "\n".join((passage.chunk.metadata.title, *passage.chunk.headings, passage.text))


def _sentence_share(asked: TextFacts, text: TextFacts) -> float:
    return max(share_in(asked.stems, sentence.stems) for sentence in text.sentences)


# ---------------------------------------------------------------- what it adds up to


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AnswerabilityModel(_Record):
    """Features -> P(answerable), and the probability below which nothing is answered."""

    model: LogisticModel
    calibration: Annotated[Calibration, Field(discriminator="kind")]
    threshold: float = Field(ge=0.0, le=1.0)

    def reads(self, evidence: Evidence) -> bool:
        """Whether every feature of the model is there."""
        return all(getattr(evidence, name) is not None for name in self.model.features)

    def probabilities(self, values: Floats) -> Floats:
        """P(answerable) of rows of features, in the order of `model.features`."""
        return self.calibration(self.model.logits(values))

    def probability(self, evidence: Evidence) -> float:
        return float(self.probabilities(evidence_matrix([evidence], self.model.features))[0])


class EvidenceCalibration(_Record):
    """The models of one encoder, reranker and reader, the best first; a later one does without what may be missing."""

    encoder: str
    reranker: str
    reader: str = ""
    command: str  # that made it
    models: tuple[AnswerabilityModel, ...] = Field(min_length=1)

    def judge(self, evidence: Evidence) -> tuple[float, float] | None:
        """(P(answerable), threshold) by the first model that can read the evidence; None where none can."""
        model = next((model for model in self.models if model.reads(evidence)), None)
        return None if model is None else (model.probability(evidence), model.threshold)


def evidence_matrix(evidence: Sequence[Evidence], names: Sequence[str] = FEATURES) -> Floats:
    """The features as float64 (n, num_features). Raises ValueError for one that is missing."""
    rows = [[getattr(one, name) for name in names] for one in evidence]
    if any(value is None for row in rows for value in row):
        raise ValueError(f"a feature of {', '.join(names)} is missing in one of {len(rows)} rows")
    return np.asarray(rows, np.float64).reshape(len(rows), len(names))


def open_calibration(config: RagConfig) -> EvidenceCalibration | None:
    """The calibration that the configuration names, None where it names none.

    Raises ConfigError for a file that is missing or not one, and for one of another encoder or reranker: its numbers
    mean nothing for these.
    """
    path = config.generate.evidence_file
    if path is None:
        return None
    calibration = read_calibration(path)
    made_for = (calibration.encoder, calibration.reranker, calibration.reader)
    # Without a reader on one side, a model that does without judges.
    reader = config.generate.reader if calibration.reader else ""
    here = (config.embed.model, config.rerank.model, reader or calibration.reader)
    if made_for != here:
        raise ConfigError(
            f"generate.evidence_file: {path} was made for the encoder, reranker and reader {made_for}, the "
            f"configuration has {here}; make one with `python -m bench.abstention --write FILE`"
        )
    return calibration


def read_calibration(path: Path) -> EvidenceCalibration:
    """The calibration in the file. Raises ConfigError."""
    try:
        return EvidenceCalibration.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"generate.evidence_file: {path}: not readable: {error.strerror}") from error
    except ValidationError as error:
        raise ConfigError(f"generate.evidence_file: {path}: not a calibration: {error.errors()[0]['msg']}") from error
