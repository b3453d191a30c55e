"""Where a block may be cut: table rows, code lines, list items, sentences; and inside those only where it must be."""

import re
from collections.abc import Iterator

from rag.data import BlockKind

Span = tuple[int, int]  # [start, end) in characters

_LINE_END = re.compile(r"\n")
_ITEM_START = re.compile(r"\n(?=[ \t]*(?:[-*+•]|\(?\w{1,3}[.)])[ \t])")
_SENTENCE_END = re.compile(
    r"(?<=[.!?…])(?<![\s.][A-Za-z]\.)(?<!\b(?:Dr|Mr|Ms|vs|No|St|al|cf)\.)(?<!\b(?:Mrs|Inc|Ltd|etc)\.)"
    r"(?<!\b(?:e\.g|i\.e)\.)[\"'”’)\]]*\s+(?=[^\sa-z])|(?<=[。！？])|\n\s*\n"
)
_BOUNDARIES = {"table": _LINE_END, "code": _LINE_END, "list": _ITEM_START}


def split_block(kind: BlockKind, text: str) -> list[Span]:
    """The smallest spans that a chunk of the block should begin or end with; together they hold all but white space."""
    return list(_between(_BOUNDARIES.get(kind, _SENTENCE_END), text, 0, len(text)))


def split_sentences(text: str, start: int, end: int) -> list[Span]:
    """The sentences of text[start:end]."""
    return list(_between(_SENTENCE_END, text, start, end))


def split_evenly(text: str, start: int, end: int, num_pieces: int) -> list[Span]:
    """About that many spans of similar length, cut at white space; inside a word only where there is none near."""
    spans: list[Span] = []
    while start < end:
        target = start + max((end - start) // max(num_pieces - len(spans), 1), 1)
        cut = end
        if target < end:
            space = max(text.rfind(mark, (start + target + 1) // 2, target + 1) for mark in (" ", "\n"))
            cut = space if space > start else target
        if span := trimmed(text, start, cut):
            spans.append(span)
        start = cut
    return spans


def _between(boundary: re.Pattern[str], text: str, start: int, end: int) -> Iterator[Span]:
    at = start
    for match in boundary.finditer(text, start, end):
        if span := trimmed(text, at, match.end()):
            yield span
        at = match.end()
    if span := trimmed(text, at, end):
        yield span


def trimmed(text: str, start: int, end: int) -> Span | None:
    """The span without white space at its ends; None where nothing is left."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return (start, end) if start < end else None
