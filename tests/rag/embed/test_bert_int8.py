import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from rag.embed.bert_int8 import Head, Int8Bert, can_run_in_int8
from rag.errors import ModelError
from tests.tiny_models import tiny_cross_encoder, tiny_encoder, tiny_language_model

ROWS = [[5, 9, 6], [5, 6], [5, *range(10, 70), 6], [5, 30, 31, 30, 6]]
TYPES = [[0, 0, 1], [0, 1], [0] * 31 + [1] * 31, [0, 0, 1, 1, 1]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


def float32_states(directory: Path, row: list[int]) -> np.ndarray:
    model = AutoModel.from_pretrained(directory).eval()
    with torch.no_grad():
        states: np.ndarray = model(torch.tensor([row])).last_hidden_state[0].numpy()
    return states


@pytest.mark.parametrize("head", ["mean", "cls"])
def test_states_are_near_those_in_float32(directory: Path, head: Head) -> None:
    found = Int8Bert(directory, head, num_threads=2).run(ROWS)
    for row, vector in zip(ROWS, found, strict=True):
        states = float32_states(directory, row)
        exact = states.mean(axis=0) if head == "mean" else states[0]
        cosine = vector @ exact / np.linalg.norm(vector) / np.linalg.norm(exact)
        assert cosine > 0.99


def test_logits_are_near_those_in_float32_and_see_the_token_types(tmp_path: Path) -> None:
    directory = tiny_cross_encoder(tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    with torch.no_grad():
        pairs = zip(ROWS, TYPES, strict=True)
        exact = [model(torch.tensor([r]), token_type_ids=torch.tensor([t])).logits.item() for r, t in pairs]
    int8 = Int8Bert(directory, "logit", num_threads=1)
    found = np.concatenate(int8.run(ROWS, TYPES))
    assert np.corrcoef(exact, found)[0, 1] > 0.95
    assert not np.array_equal(found, np.concatenate(int8.run(ROWS)))


def test_a_text_keeps_every_bit_in_any_company_and_on_any_number_of_threads(directory: Path) -> None:
    one, three = Int8Bert(directory, "mean", num_threads=1), Int8Bert(directory, "mean", num_threads=3)
    together = one.run(ROWS)
    assert np.array_equal(together, three.run(ROWS))
    assert np.array_equal(together[2], three.run([ROWS[2]])[0])


def test_only_a_bert_with_the_exact_gelu_is_known(directory: Path, tmp_path: Path) -> None:
    assert can_run_in_int8(directory)
    assert not can_run_in_int8(tmp_path)
    llama = tiny_language_model(tmp_path / "llama")
    assert not can_run_in_int8(llama)
    with pytest.raises(ModelError, match="a llama with silu can't run in 8 bits"):
        Int8Bert(llama, "mean", num_threads=1)
    other = Path(shutil.copytree(directory, tmp_path / "relu"))
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    assert not can_run_in_int8(other)


def test_a_directory_without_weights_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model that can run in 8 bits"):
        Int8Bert(tmp_path, "mean", num_threads=1)
