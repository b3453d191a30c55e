"""Where sentences end, in whole texts and in texts that are still being written."""

import re
from collections.abc import Iterator

# Ends that count only before a space, ends that need none, and line breaks.
_CANDIDATE = re.compile(r"[.!?…]+[\"'”’)\]*_`]*(?=\s)|[。！？]+[」』”’）]*|\n")
_NOT_SPACE = re.compile(r"\S")
_MARKER = re.compile(r"(?:\d{1,3}|[A-Za-z])")  # "1." and "a." open a list line
_LAST_WORD = re.compile(r"[\w.]*$")
_ABBREVIATIONS = frozenset(
    ("e.g", "i.e", "cf", "vs", "approx", "dr", "mr", "mrs", "ms", "prof", "st", "al", "u.s", "u.k")
)
_BEFORE_NUMBERS = frozenset(
    ("no", "nos", "fig", "figs", "eq", "sec", "p", "pp", "vol", "ch", "art", "ext", "tel", "ver", "v")
)


def split_sentences(text: str) -> list[tuple[int, int]]:
    """The (start, end) of each sentence, without the white space between them. A line of a list is a sentence,
    and so is a row of a table."""
    spans: list[tuple[int, int]] = []
    start = 0
    while (end := sentence_end(text, start)) is not None:
        first = _NOT_SPACE.search(text, start)
        spans.append((first.start() if first else start, end))
        start = end
    return spans


def sentences(text: str) -> Iterator[str]:
    """The sentences of the text in order."""
    return (text[start:end] for start, end in split_sentences(text))


def sentence_end(text: str, start: int = 0, final: bool = True) -> int | None:
    """The end of the first sentence at or behind `start`; None where there is none, or none yet.

    A text that may go on (`final=False`) is judged only up to an end that more text can't move, which takes one
    character of the next sentence. Any way of cutting a text into pieces therefore finds the same ends.
    """
    first = _NOT_SPACE.search(text, start)
    if first is None:
        return None
    for match in _CANDIDATE.finditer(text, first.start()):
        following = _NOT_SPACE.search(text, match.end())
        if following is None:
            break
        if _is_end(text, first.start(), match, following.start()):
            return match.start() if match.group() == "\n" else match.end()
    return len(text.rstrip()) if final else None


def _is_end(text: str, start: int, match: re.Match[str], following: int) -> bool:
    mark, between, next_character = match.group(), text[match.start() : following], text[following]
    if text[start] == "|" and "\n" not in between:
        return False  # a cell of a table's row may hold sentences
    if mark[0] in "。！？" or between.count("\n") > 1:
        return True
    if next_character.islower() and mark[0] not in "!?":
        return False  # "approx.\nfive", or a line that was only wrapped
    if mark[0] != ".":
        return True
    if _MARKER.fullmatch(text, start, match.start()):
        return False
    found = _LAST_WORD.search(text, start, match.start())
    word = found.group().lower() if found else ""
    return word not in _ABBREVIATIONS and not (word in _BEFORE_NUMBERS and next_character.isdigit())
