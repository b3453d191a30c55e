"""Tokens counted as the generator will see them."""

from collections.abc import Sequence
from pathlib import Path

from rag.errors import ModelError


class GeneratorTokenCounter:
    """Counts tokens by a model's own `tokenizer.json`, without loading the model."""

    def __init__(self, model_directory: Path) -> None:
        from tokenizers import Tokenizer

        path = model_directory / "tokenizer.json"
        if not path.is_file():
            raise ModelError(f"{path}: no such file; the generator's tokenizer is needed to count tokens")
        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()  # a stored limit would hide how long a text is
        self._tokenizer.no_padding()

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, without special tokens."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [len(encoding.ids) for encoding in encodings]
