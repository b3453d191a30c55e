"""A claim is supported by what a passage says, and by nothing that it does not say."""

from pathlib import Path

import numpy as np
import pytest

from rag.embed.hashing import HashingEmbedder
from rag.errors import ConfigError
from rag.evaluate.entailment import (
    FEATURES,
    SIGNS,
    FeatureEntailment,
    build_entailment,
    build_word_entailment,
    entailment_features,
    overlap_entailment,
    read_weights,
)
from rag.generate.overlap import TextFacts

PASSAGE = (
    "Parking in zone B costs 12 CHF a day. Permits are sold by Ms Weber at the garage desk. "
    "Visitors do not need a permit on Sundays."
)


@pytest.fixture(scope="module")
def scorer() -> FeatureEntailment:
    """The committed weights over an embedder that is not theirs: what it is sure of must not hang on the cosine."""
    return FeatureEntailment(read_weights(), HashingEmbedder())


def features(premise: str, claim: str) -> dict[str, float]:
    row = entailment_features([(premise, claim)], HashingEmbedder())[0]
    return dict(zip(FEATURES, row.tolist(), strict=True))


def test_a_sentence_of_the_passage_is_supported(scorer: FeatureEntailment) -> None:
    (probability,) = scorer.entail([(PASSAGE, "Parking in zone B costs 12 CHF a day.")])
    assert probability > scorer.threshold


@pytest.mark.parametrize(
    "claim",
    [
        "Parking in zone B costs 15 CHF a day.",
        "Permits are sold by Ms Keller at the garage desk.",
        "Parking in zone B does not cost 12 CHF a day.",
        "Lunch is served at noon in the cafeteria.",
    ],
)
def test_another_number_name_or_sense_is_less_likely(scorer: FeatureEntailment, claim: str) -> None:
    said, other = scorer.entail([(PASSAGE, "Parking in zone B costs 12 CHF a day."), (PASSAGE, claim)])
    assert other < said


def test_nothing_entails_and_nothing_is_entailed(scorer: FeatureEntailment) -> None:
    assert scorer.entail([("", "Parking is free."), (PASSAGE, " ")]) == [0.0, 0.0]
    assert scorer.entail([]) == []


def test_features_by_hand() -> None:
    found = features(PASSAGE, "Permits cost 15 CHF, says Ms Keller.")
    # permit, cost, 15, chf, says, ms, keller: the passage lacks 15, say and Keller.
    assert found["coverage"] == pytest.approx(4 / 7)
    assert found["exact_missing"] == 1.0
    assert found["any_name_missing"] == 1.0
    assert found["num_words"] == pytest.approx(np.log(8))
    assert features(PASSAGE, "Visitors need a permit on Sundays.")["negation_differs"] == 1.0


def test_the_cosine_is_that_of_the_nearest_sentence() -> None:
    claim, embedder = "Permits are sold at the desk.", HashingEmbedder()
    sentences = [sentence.text for sentence in TextFacts(PASSAGE).sentences]
    best = float(np.max(embedder.embed_passages(sentences) @ embedder.embed_passages([claim])[0]))
    assert features(PASSAGE, claim)["cosine"] == pytest.approx(best)


def test_a_pair_scores_the_same_in_any_company(scorer: FeatureEntailment) -> None:
    pairs = [
        (PASSAGE, "Permits are sold by Ms Weber."),
        ("Lunch is at noon.", "Lunch is at two."),
        (PASSAGE, "Sundays."),
    ]
    together = scorer.entail(pairs)
    assert together == pytest.approx([scorer.entail([pair])[0] for pair in pairs])
    assert all(0.0 <= probability <= 1.0 for probability in together)


def test_the_committed_weights_are_on_the_right_side() -> None:
    """More of what is held never speaks against a claim."""
    model = read_weights().model
    assert model.features == FEATURES
    assert all(
        weight * SIGNS[name] >= 0 for name, weight in zip(model.features, model.weights, strict=True) if name in SIGNS
    )


def test_overlap_is_the_share_of_content_words() -> None:
    assert overlap_entailment([(PASSAGE, "Parking is free."), (PASSAGE, "Parking costs 12 CHF.")]) == [0.5, 1.0]


def test_weights_of_another_encoder_are_refused() -> None:
    assert build_entailment(read_weights().encoder, HashingEmbedder()).threshold == read_weights().threshold
    with pytest.raises(ConfigError, match=r"made with the encoder .*, not e5"):
        build_entailment("e5", HashingEmbedder())


@pytest.mark.parametrize("content", [None, "{}"])
def test_a_file_that_holds_no_weights_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "weights.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"weights\.json"):
        read_weights(path)


def test_the_scorer_of_words_needs_no_model_and_tells_a_supported_statement_from_others() -> None:
    passage = "Parking in zone B costs 12 CHF per day. Zone A is free for electric cars."
    claims = ("Parking in zone B costs 12 CHF per day.", "Parking in zone B costs 15 CHF per day.", "Bears eat honey.")
    scorer = build_word_entailment()
    right, number, other = scorer.entail([(passage, claim) for claim in claims])
    assert right >= scorer.threshold > number
    assert other < scorer.threshold
