from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from rag.chunk.tokens import EncoderTokenCounter, WordTokenCounter
from rag.embed.tokenizer import load_tokenizer
from rag.errors import ModelError
from tests.tiny_models import tiny_encoder


@pytest.fixture
def model_directory(tmp_path: Path) -> Path:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "leave": 3, "policy": 4}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_counts_are_the_tokenizer_s_own_without_truncation_or_padding(model_directory: Path) -> None:
    counter = EncoderTokenCounter(model_directory)
    assert counter.count(["", "leave", "leave policy, and more leave"]) == [2, 3, 8]
    assert counter.count([]) == []


@pytest.fixture(scope="module")
def bert_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


_ODD = st.sampled_from([*"aeiousntk A1.-é\u0301ß[]\t\n\r\x1c\x85\xa0\u2003\u200b漢", "[SEP]", "leave", "policy"])


@given(texts=st.lists(st.lists(_ODD).map("".join)))
def test_words_counted_one_by_one_add_up_to_what_the_tokenizer_makes_of_the_text(
    bert_directory: Path, texts: list[str]
) -> None:
    counter, tokenizer = EncoderTokenCounter(bert_directory), load_tokenizer(bert_directory)
    assert counter.count(texts) == [len(tokenizer.encode(text)) for text in texts]
    assert counter.count(texts) == [len(tokenizer.encode(text)) for text in texts]  # from what is remembered


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="tokenizer"):
        EncoderTokenCounter(tmp_path)


def test_the_word_counter_counts_pieces_and_marks() -> None:
    assert WordTokenCounter().count(["", "leave policy!", "incomprehensibilities"]) == [2, 5, 5]
