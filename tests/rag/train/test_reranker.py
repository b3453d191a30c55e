"""A tiny BERT learns a rule in seconds; what is saved can be merged and served."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rag.config import RerankConfig
from rag.data import FirstStageScores
from rag.errors import InputError, ModelError
from rag.models import merge_adapter
from rag.rerank.cross_encoder import CrossEncoder
from rag.train.negatives import RankingExample, ScoredPassage
from rag.train.ranking_quality import ranking_quality
from rag.train.reranker import (
    RerankerOptions,
    RerankerTrainer,
    TrainingState,
    evaluate_rankings,
    mrr_by_model_weight,
)
from rag.train.reranker_card import adapter_card
from tests.tiny_models import WORDS, tiny_encoder

SERVING = RerankConfig(engine="torch", num_threads=1, device="cpu")
OPTIONS = RerankerOptions(
    rank=16,
    alpha=32,
    learning_rate=3e-3,
    epochs=8,
    max_tokens=32,
    batch_questions=4,
    evaluate_every=40,
    precision="float32",
)
FILLERS = [word for word in WORDS.split() if word not in ("policy", "travel")]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


def examples(count: int, seed: int) -> list[RankingExample]:
    """The right passage holds "policy", the wrong ones "travel"; the cosine is noise."""
    drawn = random.Random(seed)

    def passage(word: str) -> ScoredPassage:
        words = [*drawn.sample(FILLERS, 2), word]
        drawn.shuffle(words)
        return ScoredPassage(" ".join(words), FirstStageScores(drawn.random(), drawn.random()))

    return [
        RankingExample(drawn.choice(FILLERS), passage("policy"), tuple(passage("travel") for _ in "abc"))
        for _ in range(count)
    ]


def test_a_rule_is_learnt_and_what_is_saved_serves_it(encoder: Path, tmp_path: Path) -> None:
    train, dev = examples(160, seed=1), examples(24, seed=2)
    trainer = RerankerTrainer(encoder, OPTIONS, SERVING)
    told: list[TrainingState] = []
    report = trainer.train(train, dev, progress=told.append)
    assert report.before.rankings["model"].mrr < 0.75
    assert report.after.rankings["model"].mrr > 0.9
    assert report.after.rankings["combined"].mrr > report.before.rankings["combined"].mrr
    assert report.after.rankings["dense"] == report.before.rankings["dense"]
    assert report.best_model_weight > 0.2
    assert report.examples >= report.steps > 1
    assert told[-1].step == report.steps
    assert report.evaluations[0] == report.before

    adapter, merged = tmp_path / "adapter", tmp_path / "merged"
    adapter.mkdir()
    trainer.save(adapter, "some-encoder")
    (adapter / "README.md").write_text("terms", encoding="utf-8")
    settings = json.loads((adapter / "adapter_config.json").read_text())
    assert (settings["base_model_name_or_path"], settings["r"]) == ("some-encoder", 16)
    weights = load_file(adapter / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    merge_adapter(encoder, adapter, merged)
    served = CrossEncoder(merged, SERVING)
    for example, logits in zip(dev[:4], trainer.logits(dev[:4]), strict=True):
        found = served.score(example.question, [passage.text for passage in example.passages])
        assert found == pytest.approx(logits, abs=0.05)

    again = RerankerTrainer(encoder, OPTIONS, SERVING, start=adapter)
    assert again.logits(dev[:2])[1] == pytest.approx(trainer.logits(dev[:2])[1], abs=0.05)
    short = RerankerOptions(max_minutes=1e-9, max_tokens=32, precision="float32")
    more = RerankerTrainer(encoder, short, SERVING, start=adapter).train(train, dev)
    assert (more.stopped, more.steps) == ("time", 1)
    assert more.before.rankings["model"].mrr == pytest.approx(report.after.rankings["model"].mrr, abs=0.03)


def test_the_same_seed_gives_the_same_weights(encoder: Path) -> None:
    train, dev = examples(24, seed=1), examples(4, seed=2)
    runs = []
    for _ in range(2):
        # So much time that the clock has no say in the learning rate, however busy the machine is.
        options = RerankerOptions(epochs=1, max_minutes=1e6, max_tokens=32, precision="float32")
        trainer = RerankerTrainer(encoder, options, SERVING)
        trainer.train(train, dev)
        runs.append(trainer.logits(dev))
    assert runs[0] == runs[1]


def test_training_on_top_of_the_cosine_and_towards_a_teacher(encoder: Path) -> None:
    train, dev = examples(160, seed=1), examples(16, seed=2)
    teacher = [[5.0, 0.0, 0.0, 0.0] for _ in train]
    options = replace(OPTIONS, residual_scale=4.0, distill_weight=0.5)
    report = RerankerTrainer(encoder, options, SERVING).train(train, dev, teacher)
    assert report.after.rankings["residual"].mrr > report.before.rankings["residual"].mrr
    assert report.after.rankings["residual"].mrr > report.after.rankings["dense"].mrr


def test_training_stops_without_a_gain(encoder: Path) -> None:
    options = RerankerOptions(
        learning_rate=1e-12, epochs=50, max_tokens=32, evaluate_every=1, patience=2, precision="float32"
    )
    report = RerankerTrainer(encoder, options, SERVING).train(examples(20, seed=1), examples(4, seed=2))
    assert (report.stopped, report.steps, report.after.step) == ("no_gain", 2, 0)


def test_no_examples_and_no_models_are_errors(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 examples to train on and 1 to measure with"):
        RerankerTrainer(encoder, OPTIONS, SERVING).train([], examples(1, seed=0))
    with pytest.raises(ModelError, match="holds no encoder"):
        RerankerTrainer(tmp_path, OPTIONS, SERVING)
    with pytest.raises(ModelError, match=r"holds no adapter: adapter_config\.json is missing"):
        RerankerTrainer(encoder, OPTIONS, SERVING, start=tmp_path)
    other = tmp_path / "adapter"
    RerankerTrainer(encoder, OPTIONS, SERVING).save(other, "x")
    weights = other / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ModelError, match="is not one of this encoder"):
        RerankerTrainer(encoder, OPTIONS, SERVING, start=other)


def test_a_tie_counts_against_the_positive() -> None:
    quality = ranking_quality([[2.0, 1.0], [1.0, 1.0], [0.0, 1.0, 2.0, -1.0]])
    assert quality.mrr == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert quality.hit_at_1 == pytest.approx(1 / 3)


def test_rankings_are_measured_alone_on_top_of_the_cosine_and_as_served() -> None:
    passages = [ScoredPassage("p", FirstStageScores(0.5, 0.0)), ScoredPassage("n", FirstStageScores(0.6, 0.0))]
    example = RankingExample("q", passages[0], (passages[1],))
    serving = SERVING.model_copy(update={"dense_weight": 1.0, "model_weight": 0.75})
    found = evaluate_rankings(3, [example], [[1.5, 0.0]], serving, residual_scale=20.0).rankings
    by_rank = {name: quality.mrr for name, quality in found.items()}
    assert by_rank == {"dense": 0.5, "first_stage": 0.5, "model": 1.0, "combined": 0.5, "residual": 0.5}
    weights = mrr_by_model_weight([example], [[1.5, 0.0]], SERVING)
    assert (weights[0.75], weights[1.5]) == (0.5, 1.0)


def test_the_card_names_sources_and_what_training_went_on_from(encoder: Path) -> None:
    report = RerankerTrainer(encoder, OPTIONS, SERVING).train(examples(8, seed=1), examples(4, seed=2))
    questions = {"medquad": 5, "synthetic-rules": 2, "mine": 1}
    page = adapter_card("some-encoder", OPTIONS, report, questions, 4, "the command", earlier="# Earlier\ntext\n")
    assert "| MedQuAD | 5 | Ben Abacha" in page
    assert "| questions made of documents | 2 |" in page
    assert "| mine | 1 | given by path | not known |" in page
    assert "    the command\n" in page
    assert page.endswith("## Earlier\ntext\n")
