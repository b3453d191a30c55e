"""A model's tokenizer as its `tokenizer.json` has it.

The tokenizers library alone: transformers around it takes seconds to import and hundreds of megabytes in every process
that counts tokens or embeds.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from rag.errors import ModelError


def load_tokenizer(model_directory: Path) -> Tokenizer:
    """The tokenizer in the directory, which neither cuts nor fills up. Raises ModelError when it is not readable."""
    path = model_directory / "tokenizer.json"
    try:
        tokenizer: Tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"{path}: not readable as a tokenizer: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


class WindowTokenizer:
    """Texts as token ids with special tokens, cut at the window: `max_tokens`, or less where the model takes less.

    `num_truncated` counts the texts that were cut. Safe to use from several threads.
    """

    def __init__(self, model_directory: Path, max_tokens: int, max_positions: int | None = None) -> None:
        self._tokenizer = load_tokenizer(model_directory)
        limits = (max_tokens, max_positions, _stated_window(model_directory))
        self.max_tokens = min(limit for limit in limits if limit is not None)
        self._tokenizer.enable_truncation(self.max_tokens)
        self.num_truncated = 0

    def rows(self, texts: Sequence[str], num_uncounted: int = 0) -> list[list[int]]:
        """The ids of each text; the first `num_uncounted` texts do not count in `num_truncated`."""
        encodings: list[Encoding] = self._tokenizer.encode_batch(list(texts)) if texts else []
        self.num_truncated += sum(1 for encoding in encodings[num_uncounted:] if encoding.overflowing)
        return [encoding.ids for encoding in encodings]


def _stated_window(model_directory: Path) -> int | None:
    """`model_max_length` of the tokenizer's settings; None where they state none."""
    path = model_directory / "tokenizer_config.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return int(settings.get("model_max_length") or 0) or None
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ModelError(f"{path}: not readable as a tokenizer's settings: {error}") from error
