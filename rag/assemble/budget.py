"""Texts cut to a number of tokens."""

from collections.abc import Callable, Sequence

from rag.generate.sentences import split_sentences

CountTokens = Callable[[Sequence[str]], list[int]]


def cut_to_budget(text: str, budget_tokens: int, count_tokens: CountTokens) -> str:
    """The longest beginning of the text that fits and ends with a sentence.

    Where not even the first sentence fits it ends with a word, and where not even a word fits, anywhere. Empty only if
    no single character fits.
    """
    sentence_ends = [end for _, end in split_sentences(text)]
    word_ends = [i for i in range(1, len(text)) if text[i].isspace() and not text[i - 1].isspace()]
    for ends in (sentence_ends, word_ends, range(1, len(text) + 1)):
        if end := _last_that_fits(text, ends, budget_tokens, count_tokens):
            return text[:end]
    return ""


def _last_that_fits(text: str, ends: Sequence[int], budget_tokens: int, count_tokens: CountTokens) -> int:
    """The end of a beginning that fits, by bisection over ascending ends; 0 where the first one does not fit."""
    low, high = 0, len(ends)  # the first `low` ends fit; end number `high` (from 0) and later do not, as far as known
    while low < high:
        middle = (low + high) // 2
        if count_tokens([text[: ends[middle]]])[0] <= budget_tokens:
            low = middle + 1
        else:
            high = middle
    return ends[low - 1] if low else 0
