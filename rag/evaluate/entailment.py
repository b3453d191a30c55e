"""Does a passage say what a sentence claims? A probability out of words and the encoder, without a model of its own.

What tells a supported claim from another is counted: which of its words, neighbours, numbers and names one place of the
passage holds, whether only one side is negated, and how near the encoder sees them. `entailment.json` holds the weights
of a logistic regression over these features, and the command that made it.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag.data import Vectors
from rag.embed.hashing import HashingEmbedder
from rag.errors import ConfigError
from rag.generate.overlap import TextFacts, around_sentence, best_sentence_place, facts_of, share_in
from rag.logistic import Floats, LogisticModel
from rag.protocols import Embedder

WEIGHTS = Path(__file__).parent / "entailment.json"
WORD_WEIGHTS = Path(__file__).parent / "entailment_words.json"

FEATURES = (
    "coverage",  # content words of the claim that the passage holds
    "sentence_coverage",  # that its best sentence holds
    "window_coverage",  # that this sentence and its neighbours hold
    "pair_coverage",  # neighbouring content words that are neighbours in the passage too
    "exact_missing",  # numbers and identifiers that the passage lacks
    "window_exact_missing",  # that the best sentence and its neighbours lack
    "names_missing",  # names that the passage lacks
    "any_name_missing",  # 1.0: one at least
    "negation_differs",  # 1.0: either the claim or the best sentence is negated, but not both
    "cosine",  # of the claim with the sentence of the passage that is nearest to it
    "num_words",  # content words of the claim
)
# More of what the passage holds never speaks against a claim, more of what it lacks never for it.
SIGNS = {
    "coverage": 1,
    "sentence_coverage": 1,
    "window_coverage": 1,
    "pair_coverage": 1,
    "exact_missing": -1,
    "window_exact_missing": -1,
    "names_missing": -1,
    "any_name_missing": -1,
    "negation_differs": -1,
    "cosine": 1,
}


class EntailmentWeights(BaseModel):
    """The regression, the encoder that its cosines come from, and the probability from which a claim is supported."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder: str
    command: str  # that made it
    threshold: float = Field(ge=0.0, le=1.0)
    model: LogisticModel


class FeatureEntailment:
    """Implements `EntailmentScorer` with the features above and the encoder's cosine."""

    def __init__(self, weights: EntailmentWeights, embedder: Embedder) -> None:
        self.threshold = weights.threshold
        self._model, self._embedder = weights.model, embedder

    def entail(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability that each premise entails its hypothesis; an empty premise entails nothing, exactly 0.0."""
        if not pairs:
            return []
        probabilities = self._model.probabilities(entailment_features(pairs, self._embedder))
        return [
            float(probability) if premise.strip() and hypothesis.strip() else 0.0
            for (premise, hypothesis), probability in zip(pairs, probabilities, strict=True)
        ]


def entailment_features(pairs: Sequence[tuple[str, str]], embedder: Embedder) -> Floats:
    """The features of (premise, hypothesis) pairs as float64 (n, len(FEATURES)); each sentence is embedded once."""
    texts = sorted({text for premise, hypothesis in pairs for text in (hypothesis, *_sentences(premise))})
    vectors = embedder.embed_passages(texts)
    place = {text: row for row, text in enumerate(texts)}
    rows = [
        (*_counted(facts_of(premise), TextFacts(hypothesis)), _nearest(premise, hypothesis, vectors, place))
        for premise, hypothesis in pairs
    ]
    lengths = [len(TextFacts(hypothesis).content) for _, hypothesis in pairs]
    return np.column_stack([np.asarray(rows, np.float64).reshape(len(pairs), -1), np.log1p(lengths)])


def overlap_entailment(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """The baseline: the share of the claim's content words that the passage holds."""
    return [share_in(TextFacts(hypothesis).stems, facts_of(premise).stems) for premise, hypothesis in pairs]


def read_weights(path: Path = WEIGHTS) -> EntailmentWeights:
    """The weights in the file. Raises ConfigError."""
    try:
        return EntailmentWeights.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: no entailment weights: {error.strerror}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: not entailment weights: {error.errors()[0]['msg']}") from error


def build_word_entailment() -> FeatureEntailment:
    """The scorer with hashed words in the place of an encoder: no model, and quick enough for every sentence that is
    served."""
    return build_entailment("hashing", HashingEmbedder(), WORD_WEIGHTS)


def build_entailment(encoder: str, embedder: Embedder, path: Path = WEIGHTS) -> FeatureEntailment:
    """The scorer with the weights of the file, over the embedder of that name.

    Raises ConfigError for weights of another encoder: cosines of two encoders are on different scales.
    """
    weights = read_weights(path)
    if weights.encoder != encoder:
        raise ConfigError(
            f"{path} was made with the encoder {weights.encoder}, not {encoder}; make one with "
            f"`python -m jobs.train_entailment`"
        )
    return FeatureEntailment(weights, embedder)


def _counted(premise: TextFacts, claim: TextFacts) -> tuple[float, ...]:
    place = best_sentence_place(premise, claim.stems)
    best, window = premise.sentences[place], around_sentence(premise, place)
    return (
        share_in(claim.stems, premise.stems),
        share_in(claim.stems, best.stems),
        share_in(claim.stems, window.stems),
        share_in(claim.pairs, premise.pairs),
        1.0 - share_in(claim.exact, premise.exact),
        1.0 - share_in(claim.exact, window.exact),
        1.0 - share_in(claim.names, premise.stems),
        float(not claim.names <= premise.stems),
        float(claim.negated != best.negated),
    )


def _nearest(premise: str, hypothesis: str, vectors: Vectors, place: dict[str, int]) -> float:
    rows = [place[sentence] for sentence in _sentences(premise)]
    return float(np.max(vectors[rows] @ vectors[place[hypothesis]]))


def _sentences(premise: str) -> list[str]:
    return [sentence.text for sentence in facts_of(premise).sentences]
