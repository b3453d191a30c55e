from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from rag.chunk.tokens import EncoderTokenCounter, WordTokenCounter
from rag.errors import ModelError


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


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="tokenizer"):
        EncoderTokenCounter(tmp_path)


def test_the_word_counter_counts_pieces_and_marks() -> None:
    assert WordTokenCounter().count(["", "leave policy!", "incomprehensibilities"]) == [2, 5, 5]
