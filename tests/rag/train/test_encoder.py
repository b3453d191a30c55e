"""A tiny BERT learns which words belong together; what is saved can be merged, and embeds as it was trained."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from rag.config import EmbedConfig, RerankConfig
from rag.data import FirstStageScores
from rag.embed.sentence import SentenceEncoder
from rag.errors import InputError, ModelError
from rag.models import merge_adapter
from rag.rerank.late_interaction import LateInteractionReranker
from rag.train.encoder import EncoderEvaluation, EncoderOptions, EncoderTrainer, TokenBatch, also_right, interaction
from rag.train.encoder_card import encoder_card
from rag.train.fit import FitState
from rag.train.negatives import RankingExample, ScoredPassage
from tests.tiny_models import tiny_encoder

SERVING = EmbedConfig(engine="torch", num_threads=1, device="cpu")
OPTIONS = EncoderOptions(
    learning_rate=1e-2, epochs=20, max_tokens=32, batch_questions=8, evaluate_every=20, precision="float32"
)
TOGETHER = {
    "policy": "travel",
    "manager": "office",
    "project": "report",
    "leave": "month",
    "team": "year",
    "day": "work",
}
FILLERS = ("a", "the", "this", "that", "our", "your", "for", "with")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


def passage(word: str, drawn: random.Random, chunk: str = "") -> ScoredPassage:
    words = [*drawn.sample(FILLERS, 2), word]
    drawn.shuffle(words)
    return ScoredPassage(" ".join(words), FirstStageScores(drawn.random(), drawn.random()), chunk or word)


def examples(count: int, seed: int) -> list[RankingExample]:
    """The right passage holds the word that belongs to the question's, the wrong ones those of other questions."""
    drawn = random.Random(seed)
    found = []
    for _ in range(count):
        asked = drawn.choice(list(TOGETHER))
        others = drawn.sample([word for key, word in TOGETHER.items() if key != asked], 3)
        negatives = tuple(passage(word, drawn) for word in others)
        found.append(RankingExample(f"{asked} {drawn.choice(FILLERS)}", passage(TOGETHER[asked], drawn), negatives))
    return found


def test_what_belongs_together_is_learnt_and_what_is_saved_serves_it(encoder: Path, tmp_path: Path) -> None:
    train, dev = examples(120, seed=1), examples(24, seed=2)
    trainer = EncoderTrainer(encoder, OPTIONS, SERVING)
    told: list[FitState[EncoderEvaluation]] = []
    report = trainer.train(train, dev, told.append)
    assert report.before.dense.mrr < 0.7
    assert report.after.dense.mrr > 0.9
    assert report.after.interaction.mrr > report.before.interaction.mrr
    assert told[-1].step == report.steps

    adapter, merged = tmp_path / "adapter", tmp_path / "merged"
    trainer.save(adapter, "some-encoder")
    (adapter / "README.md").write_text("terms", encoding="utf-8")
    merged.mkdir()
    merge_adapter(encoder, adapter, merged, "encoder")
    served = SentenceEncoder(merged, SERVING)
    ranked_first = []
    for example in dev:
        vectors = served.embed_passages([each.text for each in example.passages])
        ranked_first.append(int(np.argmax(vectors @ served.embed_queries([example.question])[0])) == 0)
    assert np.mean(ranked_first) == pytest.approx(report.after.dense.hit_at_1, abs=0.05)
    reranker = LateInteractionReranker(merged, RerankConfig(engine="torch", num_threads=1, device="cpu"))
    assert len(reranker.score(dev[0].question, [each.text for each in dev[0].passages])) == 4

    again = EncoderTrainer(encoder, EncoderOptions(max_minutes=1e-9, precision="float32"), SERVING, start=adapter)
    more = again.train(train, dev)
    assert (more.stopped, more.steps) == ("time", 1)
    assert more.before.dense.mrr == pytest.approx(report.after.dense.mrr, abs=0.05)


def test_another_text_of_the_chunk_is_no_negative() -> None:
    drawn = random.Random(0)
    one, other = passage("travel", drawn, "c1"), passage("office", drawn, "c2")
    batch = [RankingExample("Who?", one, (other,)), RankingExample("who?", other, ()), RankingExample("When?", one, ())]
    hidden = also_right(batch, [one, other, one, passage("report", drawn, "c3")])
    assert hidden == [[False, True, True, False], [True, False, True, False], [True, False, False, False]]


def test_interaction_is_the_mean_of_each_question_tokens_nearest() -> None:
    def batch(states: list[list[list[float]]], mask: list[list[bool]]) -> TokenBatch:
        values = torch.tensor(states)
        return TokenBatch(values[:, 0], values, torch.tensor(mask))

    questions = batch([[[1.0, 0.0], [0.0, 1.0]]], [[True, True]])
    passages = batch([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [0.0, 1.0]]], [[True, True], [True, False]])
    assert interaction(questions, passages)[0].tolist() == pytest.approx([1.0, 0.7])


def test_sides_that_are_empty_and_folders_without_an_encoder_are_errors(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 examples to train on and 2 to measure with"):
        EncoderTrainer(encoder, OPTIONS, SERVING).train([], examples(2, seed=1))
    with pytest.raises(ModelError, match="holds no encoder"):
        EncoderTrainer(tmp_path, OPTIONS, SERVING)


def test_the_card_names_what_it_was_taught_and_what_it_is_worth(encoder: Path) -> None:
    report = EncoderTrainer(encoder, OPTIONS, SERVING).train(examples(8, seed=1), examples(4, seed=2))
    page = encoder_card("some-encoder", OPTIONS, report, {"synthetic-rules": 8}, 4, "the command")
    assert "| questions made of documents | 8 |" in page
    assert "    the command\n" in page
    assert f"| vectors | {report.before.dense.mrr:.3f} | {report.after.dense.mrr:.3f} |" in page
