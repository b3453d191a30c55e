"""Tokens counted by a tokenizer file."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from rag.errors import ModelError
from rag.generate.tokens import GeneratorTokenCounter


def test_words_are_counted_without_special_tokens_padding_or_truncation(tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "a": 1, "b": 2, "<s>": 3}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 3)])
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    counter = GeneratorTokenCounter(tmp_path)
    assert counter.count(["a b a b", "", "c"]) == [4, 0, 1]
    assert counter.count([]) == []


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        GeneratorTokenCounter(tmp_path)
