from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from rag.config import RerankConfig
from rag.errors import ModelError
from rag.models import resolve
from rag.rerank.cross_encoder import CrossEncoder
from tests.tiny_models import tiny_cross_encoder, tiny_encoder

CONFIG = RerankConfig(engine="torch", num_threads=1, device="cpu", max_tokens=64, batch_tokens=256)
QUESTION = "how many days of leave"
PASSAGES = ["an employee has two days", "", "the travel policy " * 40, "Zebra 42!", "more work"]
DEFAULT_MODELS = Path("var/models")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_cross_encoder(tmp_path_factory.mktemp("cross_encoder"))


@pytest.fixture
def cross_encoder(directory: Path) -> CrossEncoder:
    return CrossEncoder(directory, CONFIG)


def one_by_one(directory: Path, question: str, passages: list[str], max_tokens: int) -> list[float]:
    """The definition, without batches or padding."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    logits = []
    for passage in passages:
        # As lists: a tokenizer takes the bare string "" for no passage at all, and leaves out the last [SEP].
        inputs = tokenizer([question], [passage], truncation="only_second", max_length=max_tokens, return_tensors="pt")
        with torch.no_grad():
            logits.append(model(**inputs).logits.item())
    return logits


def test_logits_come_in_the_order_of_the_passages(directory: Path, cross_encoder: CrossEncoder) -> None:
    expected = one_by_one(directory, QUESTION, PASSAGES, max_tokens=64)
    assert np.ptp(expected) > 0.01  # else any order would do
    np.testing.assert_allclose(cross_encoder.score(QUESTION, PASSAGES), expected, atol=1e-5)


def test_no_passages_give_no_logits(cross_encoder: CrossEncoder) -> None:
    assert cross_encoder.score(QUESTION, []) == []
    assert cross_encoder.score_many([]) == []
    assert cross_encoder.score_many([(QUESTION, []), ("who", [])]) == [[], []]


def test_the_same_request_gets_the_same_bits(cross_encoder: CrossEncoder) -> None:
    assert cross_encoder.score(QUESTION, PASSAGES) == cross_encoder.score(QUESTION, PASSAGES)


def test_many_questions_score_as_each_alone(cross_encoder: CrossEncoder) -> None:
    queries = [(QUESTION, PASSAGES), ("who", []), ("what is the policy", PASSAGES[2:]), (QUESTION, PASSAGES[:1])]
    together = cross_encoder.score_many(queries)
    assert [len(logits) for logits in together] == [5, 0, 3, 1]
    for logits, (question, passages) in zip(together, queries, strict=True):
        np.testing.assert_allclose(logits, cross_encoder.score(question, passages), atol=1e-5)


def test_in_8_bits_a_pair_keeps_every_bit_in_any_company(directory: Path, cross_encoder: CrossEncoder) -> None:
    in_8_bits = CrossEncoder(directory, CONFIG.model_copy(update={"engine": "int8"}))
    logits = in_8_bits.score(QUESTION, PASSAGES)
    assert np.corrcoef(logits, cross_encoder.score(QUESTION, PASSAGES))[0, 1] > 0.95
    mixed = in_8_bits.score_many([("who", PASSAGES[:2]), (QUESTION, PASSAGES[1:])])
    assert mixed[1] == logits[1:]


def test_the_end_of_a_long_passage_is_cut_and_counted(cross_encoder: CrossEncoder) -> None:
    long = "work " * 80
    first, second = cross_encoder.score(QUESTION, [long + "travel", long + "leave"])
    assert first == pytest.approx(second, abs=1e-5)
    assert cross_encoder.num_truncated == 2
    assert cross_encoder.num_questions_truncated == 0


def test_a_question_is_whole_as_long_as_a_passage_has_room(cross_encoder: CrossEncoder) -> None:
    longest = "what " * 60  # of 64 tokens, with 3 special ones and 1 of the passage
    with_one_word, with_more = cross_encoder.score(longest, ["leave", "leave work travel"])
    assert cross_encoder.num_questions_truncated == 0
    assert with_one_word == pytest.approx(with_more, abs=1e-5)
    assert cross_encoder.score(longest + "who", ["leave"])[0] != with_one_word
    assert cross_encoder.num_questions_truncated == 1


def test_a_question_beyond_the_window_is_cut_to_half_of_it(directory: Path, cross_encoder: CrossEncoder) -> None:
    expected = one_by_one(directory, "what " * 32, PASSAGES, max_tokens=64)
    np.testing.assert_allclose(cross_encoder.score("what " * 500, PASSAGES), expected, atol=1e-5)
    assert cross_encoder.num_questions_truncated == 1


def test_a_model_of_another_kind_is_refused(tmp_path: Path, directory: Path) -> None:
    with pytest.raises(ModelError, match="no cross-encoder"):
        CrossEncoder(tmp_path, CONFIG)
    with pytest.raises(ModelError, match="gives 2 logits a pair; expected 1"):
        CrossEncoder(tiny_encoder(tmp_path / "encoder"), CONFIG)


@pytest.mark.models
def test_the_default_reranker_puts_the_answer_first() -> None:
    reranker = CrossEncoder(resolve("quire-reranker", DEFAULT_MODELS), RerankConfig(device="cpu"))
    passages = [
        "Berlin has been the seat of the German parliament since 1999.",
        "Paris is the capital and largest city of France.",
        "The capital of a company is the money its owners put in.",
    ]
    logits = reranker.score("What is the capital of France?", passages)
    assert int(np.argmax(logits)) == 1
