import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

from rag.config import EmbedConfig
from rag.data import Vectors
from rag.embed.sentence import SentenceEncoder
from rag.errors import ModelError
from rag.models import resolve
from tests.tiny_models import tiny_encoder

CONFIG = EmbedConfig(engine="torch", num_threads=1, device="cpu", max_tokens=64, batch_tokens=256)
TEXTS = [
    "how many days of leave",
    "",
    "the travel policy of this office",
    "an employee must report to their manager " * 30,
    "Zebra 42!",
]
DEFAULT_MODELS = Path("var/models")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def encoder(directory: Path) -> SentenceEncoder:
    return SentenceEncoder(directory, CONFIG)


def one_by_one(directory: Path, texts: list[str], max_tokens: int) -> Vectors:
    """The definition, without batches or padding: the mean of a text's token states, at unit length."""
    tokenizer, model = AutoTokenizer.from_pretrained(directory), AutoModel.from_pretrained(directory).eval()
    rows = []
    for text in texts:
        inputs = tokenizer(text, truncation=True, max_length=max_tokens, return_tensors="pt")
        with torch.no_grad():
            mean = model(**inputs).last_hidden_state[0].mean(dim=0).numpy()
        rows.append(mean / np.linalg.norm(mean))
    return np.stack(rows)


def test_vectors_are_unit_means_of_the_token_states_in_input_order(directory: Path, encoder: SentenceEncoder) -> None:
    vectors = encoder.embed_passages(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, one_by_one(directory, TEXTS, max_tokens=64), atol=1e-5)


def test_no_texts_give_no_rows(encoder: SentenceEncoder) -> None:
    assert encoder.embed_passages([]).shape == (0, encoder.dim) == (0, 32)
    assert encoder.embed_queries([]).shape == (0, 32)


# The encoder is not written to, so one may serve every example.
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.permutations(range(len(TEXTS))))
def test_a_passage_keeps_its_vector_in_any_company(encoder: SentenceEncoder, places: list[int]) -> None:
    shuffled = encoder.embed_passages([TEXTS[place] for place in places])
    np.testing.assert_allclose(shuffled, encoder.embed_passages(TEXTS)[places], atol=1e-5)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=6))
def test_a_query_keeps_every_bit_of_its_vector_in_any_company(encoder: SentenceEncoder, places: list[int]) -> None:
    together = encoder.embed_queries([TEXTS[place] for place in places])
    alone = np.stack([encoder.embed_queries([TEXTS[place]])[0] for place in places])
    assert np.array_equal(together, alone)


def test_queries_and_passages_lie_in_one_space(encoder: SentenceEncoder) -> None:
    np.testing.assert_allclose(encoder.embed_queries(TEXTS), encoder.embed_passages(TEXTS), atol=1e-5)


def test_texts_beyond_the_window_are_cut_and_counted(directory: Path) -> None:
    encoder = SentenceEncoder(directory, CONFIG)
    fits = "work " * 62  # with [CLS] and [SEP]: the whole window of 64
    vectors = encoder.embed_passages([fits, fits + "travel", fits + "report"])
    assert encoder.num_truncated == 2
    np.testing.assert_allclose(vectors, vectors[[0, 0, 0]], atol=1e-5)
    encoder.embed_queries([fits + "travel"])
    assert encoder.num_truncated == 3


def test_the_models_own_window_is_a_limit_too(directory: Path) -> None:
    encoder = SentenceEncoder(directory, CONFIG.model_copy(update={"max_tokens": 4_096}))
    encoder.embed_passages(["work " * 600])  # the model has 512 positions, and would fail at more
    assert encoder.num_truncated == 1


def test_a_bert_runs_in_8_bits_on_a_cpu_unless_told_otherwise(directory: Path, encoder: SentenceEncoder) -> None:
    in_8_bits = SentenceEncoder(directory, CONFIG.model_copy(update={"engine": "auto"}))
    assert "engine=int8" in repr(in_8_bits)
    assert "engine=torch" in repr(encoder)
    vectors = in_8_bits.embed_passages(TEXTS)
    assert ((vectors * encoder.embed_passages(TEXTS)).sum(axis=1) > 0.99).all()
    assert np.array_equal(in_8_bits.embed_queries(TEXTS), vectors)
    assert in_8_bits.embed_passages([]).shape == (0, 32)


def test_in_8_bits_neither_torch_nor_transformers_is_imported(directory: Path) -> None:
    code = """
import sys
from pathlib import Path
from rag.config import EmbedConfig
from rag.embed.sentence import SentenceEncoder
SentenceEncoder(Path(sys.argv[1]), EmbedConfig(device="cpu")).embed_passages(["leave"])
sys.exit(f"imported: {found}" if (found := {"torch", "transformers"} & set(sys.modules)) else 0)
"""
    ran = subprocess.run([sys.executable, "-c", code, directory], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_prefixes_are_part_of_the_text(directory: Path, encoder: SentenceEncoder) -> None:
    prefixed = SentenceEncoder(directory, CONFIG.model_copy(update={"query_prefix": "q: ", "passage_prefix": "p: "}))
    assert np.array_equal(prefixed.embed_queries(["leave"]), encoder.embed_queries(["q: leave"]))
    assert np.array_equal(prefixed.embed_passages(["leave"]), encoder.embed_passages(["p: leave"]))


@pytest.mark.parametrize(
    "pooling",
    [
        {"pooling_mode": "cls"},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "word_embedding_dimension": 32},
    ],
)
def test_cls_pooling_takes_the_first_state(directory: Path, tmp_path: Path, pooling: dict[str, object]) -> None:
    changed = Path(shutil.copytree(directory, tmp_path / "cls"))
    (changed / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    tokenizer, model = AutoTokenizer.from_pretrained(directory), AutoModel.from_pretrained(directory).eval()
    with torch.no_grad():
        first = model(**tokenizer("travel policy", return_tensors="pt")).last_hidden_state[0, 0].numpy()
    vector = SentenceEncoder(changed, CONFIG).embed_passages(["travel policy"])[0]
    np.testing.assert_allclose(vector, first / np.linalg.norm(first), atol=1e-5)


def test_another_pooling_is_refused_by_name(directory: Path, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(directory, tmp_path / "max"))
    (changed / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(ModelError, match="pools by 'max'; expected mean or cls"):
        SentenceEncoder(changed, CONFIG)


def test_a_module_that_would_be_left_out_is_refused(directory: Path, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(directory, tmp_path / "dense"))
    (changed / "modules.json").write_text('[{"type": "sentence_transformers.models.Dense"}]')
    with pytest.raises(ModelError, match="Dense"):
        SentenceEncoder(changed, CONFIG)


def test_a_directory_without_a_model_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no encoder"):
        SentenceEncoder(tmp_path, CONFIG)


@pytest.mark.models
def test_the_default_encoder_agrees_with_sentence_transformers() -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    directory = resolve("all-MiniLM-L6-v2", DEFAULT_MODELS)
    texts = [*TEXTS, "Überstunden werden am Freitag abgerechnet.", "word " * 400]
    reference = sentence_transformers.SentenceTransformer(str(directory), device="cpu").encode(texts)
    exact = SentenceEncoder(directory, EmbedConfig(device="cpu", engine="torch")).embed_passages(texts)
    assert ((exact * reference).sum(axis=1) > 0.9999).all()
    in_8_bits = SentenceEncoder(directory, EmbedConfig(device="cpu", engine="int8")).embed_passages(texts)
    assert ((in_8_bits * reference).sum(axis=1) > 0.97).all()


@pytest.mark.models
def test_the_default_encoder_repeats_every_bit_of_a_query() -> None:
    encoder = SentenceEncoder(resolve("all-MiniLM-L6-v2", DEFAULT_MODELS), EmbedConfig(device="cpu"))
    questions = ["How much leave do I get?", "Who signs off travel?", "How much leave do I get?"]
    together = encoder.embed_queries(questions)
    assert np.array_equal(together[0], encoder.embed_queries(questions[2:])[0])
    assert np.array_equal(together[1], encoder.embed_queries(questions[1:2])[0])
