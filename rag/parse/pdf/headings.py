"""Which paragraphs of a PDF are headings, and of which level, by size and weight against the body's."""

import re
from collections import Counter
from collections.abc import Sequence

from rag.parse.pdf.layout import Piece

_LARGER = 1.12  # times the body's size
_MAX_CHARACTERS = 160
_MAX_LINES = 4
_NUMBERED = re.compile(r"(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[IVX]{1,5}\.|[A-H]\.)\s+[^\W\d_a-z][^.;:]{2,60}")
_LETTERS = re.compile(r"[^\W\d_]{2}")


def body_size(pieces: Sequence[Piece]) -> float:
    """The font size of most of the text."""
    weights: Counter[float] = Counter()
    for piece in pieces:
        if not piece.size:  # a ruled table, or a stamp in the margin
            continue
        weights[round(piece.size * 2) / 2] += sum(map(len, piece.lines))
    return max(weights, key=lambda size: (weights[size], -size), default=0.0)


def heading_levels(pieces: Sequence[Piece]) -> list[int]:
    """The level of each piece, 1 to 6, 0 for what is no heading: the largest size is 1.

    Bold text of the body's size comes after all larger text, and a short numbered line ("II. METHODS") after that.
    """
    body = body_size(pieces)
    styles = [_style(piece, body) for piece in pieces]
    levels = {style: min(level, 6) for level, style in enumerate(sorted({s for s in styles if s}, reverse=True), 1)}
    return [levels[style] if style else 0 for style in styles]


def _style(piece: Piece, body: float) -> tuple[float, bool] | None:
    if piece.kind != "paragraph" or not piece.size or len(piece.lines) > _MAX_LINES:
        return None
    length = sum(map(len, piece.lines))
    if length > _MAX_CHARACTERS or not _LETTERS.search(" ".join(piece.lines)):
        return None
    size = max(round(piece.size * 2) / 2, body)
    if piece.size >= _LARGER * body:
        return (size, False)
    if piece.bold and piece.size >= 0.95 * body and not piece.lines[-1].endswith((".", ";", ",", ":")):
        return (size, True)
    return (0.0, False) if len(piece.lines) == 1 and _NUMBERED.fullmatch(piece.lines[0]) else None
