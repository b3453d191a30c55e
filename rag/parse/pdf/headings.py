"""Which paragraphs of a PDF are headings, and of which level: by its outline, by how they look, by their numbers."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rag.parse.pdf.layout import Piece
from rag.parse.pdf.reading_order import Look

_LARGER = 1.12  # times the body's size
_MAIN_SHARE = 0.5  # of the most frequent size's text that a larger size has where it is the body's
_MAX_CHARACTERS = 160
_CLEARLY_LARGER = 1.3  # times the body's size: such a line may end as a sentence does
_MAX_LINES = 4
_MIN_SHARE = 0.8  # of the text in a look that stands in short pieces, where the look is that of headings
_MIN_PIECES = 2  # of a look that is neither larger nor bold
_NUMBERED = re.compile(r"(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[IVX]{1,5}\.|[A-H]\.)\s+[^\W\d_a-z][^.;:]{2,60}")
_SECTION = re.compile(r"(?:[A-Z]\.?|[A-Z]?\d{1,2})((?:\.\d{1,2})*)\.?\s")
_KNOWN = re.compile(
    r"(?i)\W*(?:abstract|summary|introduction|conclusions?|references|bibliography|acknowledge?ments?"
    r"|appendix(?: [A-Z])?|contents|zusammenfassung|einleitung|literatur|resumen|introducción|referencias|résumé)\W*"
)
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_ENDS = (".", ";", ",", ":", "،", "。")

Style = tuple[float, bool, Look]


@dataclass(frozen=True, slots=True)
class Body:
    """How most of the text of a document looks."""

    size: float
    look: Look
    bold: bool


def body_of(pieces: Sequence[Piece]) -> Body:
    """The size, look and weight of most of the prose."""
    weights: Counter[tuple[float, Look, bool]] = Counter()
    for piece in pieces:
        if piece.size and piece.kind in ("paragraph", "list"):
            weights[_rounded(piece.size), piece.look, piece.bold] += sum(map(len, piece.lines))
    if not weights:
        return Body(0.0, Look(), False)
    sizes: Counter[float] = Counter()
    for (size, _, _), weight in weights.items():
        sizes[size] += weight
    # References and notes may take more room than the text that they belong to, in smaller letters.
    most = max(sizes.values())
    usual = max(size for size, weight in sizes.items() if weight >= _MAIN_SHARE * most)
    of_size = {key: weight for key, weight in weights.items() if key[0] == usual}
    size, look, bold = max(of_size, key=lambda key: (of_size[key], str(key)))
    return Body(size, look, bold)


@dataclass(frozen=True, slots=True)
class Outline:
    """The titles that a document lists itself: page (0: not known) and level of each place of one, by `title_key`."""

    places: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)

    def level_of(self, text: str, page: int) -> int:
        """The level of the title on a page, with or without its number; 0 for what is none."""
        if not self.places:
            return 0
        places = self.places.get(title_key(text)) or self.places.get(title_key(_SECTION.sub("", text, count=1)))
        if not places:
            return 0
        return min(places, key=lambda place: abs(place[0] - page) if place[0] else 10_000)[1]


NO_OUTLINE = Outline()


def heading_levels(pieces: Sequence[Piece], pages: Sequence[int], outline: Outline = NO_OUTLINE) -> list[int]:
    """The level of each piece, 1 to 6, 0 for what is no heading; `pages` says where each stands.

    Titles of the outline have its levels. Other headings are told by a look that sets them apart from the body and
    that is used for little else: the largest first, bold before plain.
    """
    body = body_of(pieces)
    listed = [
        outline.level_of(" ".join(piece.lines), page) if _may_be(piece) else 0
        for piece, page in zip(pieces, pages, strict=True)
    ]
    heading_styles = _heading_styles(pieces, body, listed)
    styles = [
        _style(piece, body, heading_styles) or (_style_of(piece) if known else None)
        for piece, known in zip(pieces, listed, strict=True)
    ]
    level_of = _levels_of_styles(styles, listed, body)
    return [known or (level_of[style] if style else 0) for style, known in zip(styles, listed, strict=True)]


def split_run_in(piece: Piece, outline: Outline) -> list[Piece]:
    """The piece, or two where it begins with a bold title of the outline that its text runs on from."""
    lead = piece.lead
    if piece.kind != "paragraph" or not lead or not outline.level_of(lead, 0):
        return [piece]
    first = piece.lines[0][len(lead) :].strip()
    rest = (first, *piece.lines[1:]) if first else piece.lines[1:]
    if not rest or not piece.lines[0].startswith(lead):
        return [piece]
    return [replace(piece, lines=(lead,), bold=True, lead="", ends_open=False), replace(piece, lines=rest, lead="")]


def title_key(text: str) -> str:
    """The letters and digits of a title, as two places that write it can agree on."""
    return _NOT_ALPHANUMERIC.sub("", text.lower())


def _may_be(piece: Piece) -> bool:
    if piece.kind not in ("paragraph", "list") or not piece.size or len(piece.lines) > _MAX_LINES:
        return False
    return 0 < sum(map(len, piece.lines)) <= _MAX_CHARACTERS


def _is_short(piece: Piece) -> bool:
    """Whether it has the shape of a heading."""
    if piece.kind != "paragraph" or not _may_be(piece):
        return False
    return _LETTERS.search(" ".join(piece.lines)) is not None


def _rounded(size: float) -> float:
    return round(size * 2) / 2


def _style_of(piece: Piece) -> Style:
    return (_rounded(piece.size), piece.bold, piece.look)


def _heading_styles(pieces: Sequence[Piece], body: Body, listed: Sequence[int]) -> set[Style]:
    """The styles of the body's size or a little less that are used for headings: short pieces that stand alone."""
    short: Counter[Style] = Counter()
    long: Counter[Style] = Counter()
    count: Counter[Style] = Counter()
    for piece, known in zip(pieces, listed, strict=True):
        if not piece.size or piece.kind == "code":
            continue
        style = _style_of(piece)
        length = sum(map(len, piece.lines))
        if known or (_is_short(piece) and not piece.lines[-1].endswith(_ENDS)):
            short[style] += length
            count[style] += 1
        else:
            long[style] += length
    plain = (body.size, body.bold, body.look)
    return {
        style
        for style, length in short.items()
        if style != plain
        and style[0] >= 0.95 * body.size
        and length >= _MIN_SHARE * (length + long[style])
        and (count[style] >= _MIN_PIECES or style[1] > body.bold)
        and (style[1] > body.bold or style[2] != body.look)
    }


def _style(piece: Piece, body: Body, heading_styles: set[Style]) -> Style | None:
    if not _is_short(piece):
        return None
    style = _style_of(piece)
    if len(piece.lines) == 1 and _KNOWN.fullmatch(piece.lines[0]):
        return style
    ends = piece.lines[-1].endswith(_ENDS)
    if piece.size >= (_CLEARLY_LARGER if ends else _LARGER) * body.size:
        return style
    if not ends and style in heading_styles:
        return style
    if piece.bold and not body.bold and piece.size >= 0.95 * body.size and not ends:
        return style
    return style if len(piece.lines) == 1 and _NUMBERED.fullmatch(piece.lines[0]) else None


def _levels_of_styles(styles: Sequence[Style | None], listed: Sequence[int], body: Body) -> dict[Style, int]:
    """The level of each style: that of its titles in the outline, else by size and weight below those above it."""
    known: dict[Style, Counter[int]] = defaultdict(Counter)
    first: dict[Style, int] = {}
    for at, (style, level) in enumerate(zip(styles, listed, strict=True)):
        if style:
            first.setdefault(style, at)
            if level:
                known[style][level] += 1
    ranked = sorted(
        first, key=lambda style: (-style[0], not style[1], style[2] == body.look, style[2].italic, first[style])
    )
    levels: dict[Style, int] = {}
    deepest = 0
    for style in ranked:
        if known[style]:
            level = max(known[style], key=lambda level: (known[style][level], -level))
        else:
            same = [other for other in levels if other[0] == style[0] and other[1] == style[1]]
            level = (
                levels[same[-1]]
                if same and same[-1][2].font == style[2].font and same[-1][2].color == style[2].color
                else deepest + 1
            )
        levels[style] = min(level, 6)
        deepest = max(deepest, levels[style])
    return levels
