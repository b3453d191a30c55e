"""Token counts as the encoder will see them."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from rag.embed.tokenizer import load_tokenizer
from rag.protocols import TokenCounter

_WORDS = re.compile(r"[^ \t\n\r]+")  # fewer kinds of whitespace than any tokenizer knows
_MAX_WORDS = 200_000  # that are remembered, some 30 MB
_WORD_PIECES = re.compile(r"\w{1,8}|[^\w\s]")


class EncoderTokenCounter:
    """Counts with the encoder's own tokenizer, without its truncation: a text that is too long must be seen to be.

    The tokens of a text are counted many times while it is cut. Where the tokenizer never makes a token of two words,
    each word is counted once and the sum is the count. Safe to use from several threads.
    """

    def __init__(self, model_directory: Path) -> None:
        self._tokenizer = load_tokenizer(model_directory)
        self._adds_up = _adds_up_over_words(self._tokenizer)
        self._num_special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self._tokens_of: dict[str, int] = {}  # of words

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, special tokens included."""
        if not self._adds_up:
            return self._count_whole(texts, special=True)
        if len(self._tokens_of) > _MAX_WORDS:
            self._tokens_of = {}  # a new one: another thread may be adding up with the old
        known = self._tokens_of
        in_words = [_WORDS.findall(text) for text in texts]
        new = list({word for words in in_words for word in words if word not in known})
        known.update(zip(new, self._count_whole(new, special=False), strict=True))
        return [sum(map(known.__getitem__, words)) + self._num_special for words in in_words]

    def _count_whole(self, texts: Sequence[str], special: bool) -> list[int]:
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=special) if texts else []
        return [len(encoding) for encoding in encodings]


def _adds_up_over_words(tokenizer: Tokenizer) -> bool:
    """Whether a text has as many tokens as its words have one by one: so with BERT's rules, which split at whitespace
    before anything else."""
    return (
        isinstance(tokenizer.normalizer, BertNormalizer)
        and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        and not any(_WORDS.findall(token.content) != [token.content] for token in _added_tokens(tokenizer))
    )


def _added_tokens(tokenizer: Tokenizer) -> Iterable[AddedToken]:
    added: dict[int, AddedToken] = tokenizer.get_added_tokens_decoder()
    return added.values()


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
