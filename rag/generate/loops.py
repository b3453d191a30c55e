"""Models that say the same over and over."""

from collections.abc import Sequence

_REPEATS = 4
_MAX_PERIOD = 40  # words
_MIN_WORDS = 8  # of all repeats together: "ha ha ha ha" may be a quote


def is_looping(words: Sequence[str]) -> bool:
    """Whether the words end with one stretch of at most 40 words, said four times in a row, eight words in all."""
    for period in range(1, _MAX_PERIOD + 1):
        repeats = max(_REPEATS, -(-_MIN_WORDS // period))
        if len(words) < repeats * period:
            continue
        tail = list(words[-repeats * period :])
        if tail == tail[:period] * repeats:
            return True
    return False
