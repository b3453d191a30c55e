"""Token counts as the encoder will see them."""

import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from rag.errors import ModelError
from rag.protocols import TokenCounter

_WORD_PIECES = re.compile(r"\w{1,8}|[^\w\s]")


class EncoderTokenCounter:
    """Counts with the encoder's own tokenizer, without its truncation: a text that is too long must be seen to be."""

    def __init__(self, model_directory: Path) -> None:
        path = model_directory / "tokenizer.json"
        try:
            self._tokenizer: Tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise ModelError(f"{path}: not readable as a tokenizer: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, special tokens included."""
        return [len(encoding) for encoding in self._tokenizer.encode_batch_fast(list(texts))]


class WordTokenCounter:
    """Counts words and punctuation marks, long words as several, and two special tokens; for tests without a model."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """About the number of tokens that a word-piece tokenizer makes of each text."""
        return [len(_WORD_PIECES.findall(text)) + 2 for text in texts]


class TokenBudget:
    """How many tokens a text may have, special tokens included, and the counter that says how many it has."""

    def __init__(self, counter: TokenCounter, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self._counter = counter
        (self.num_special,) = counter.count([""])

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, special tokens included."""
        return self._counter.count(texts) if texts else []

    def is_longer(self, text: str, max_tokens: int) -> bool:
        """Whether the text has more tokens than that; most need no count."""
        # No tokenizer makes more tokens than there are bytes.
        if len(text.encode("utf-8", "replace")) + self.num_special <= max_tokens:
            return False
        return self._counter.count([text])[0] > max_tokens
