"""Words of a page with their places, and the lines and runs that they form."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import median

import pymupdf

from rag.data import Box
from rag.parse.pdf.text_layer import Line, PageText, normalize, turn

_PROSE_WORDS = 4  # a run of words has at least as many,
_PROSE_CHARACTERS = 20  # and as many letters, to be taken for prose
_FACING_LINES = 5  # lines with prose on both sides of a gutter
_LINE_OVERLAP = 0.5  # of the lower of two heights: words that share as much stand on one line
_SLANTED_LETTERS = 5  # a word with as many,
_SLANTED_HEIGHT = 1.8  # as high as so many usual ones,
_SLANTED_WIDTH = 1.3  # and no wider than so many times its height, slants
_OPENING = frozenset("$€£¥(")
_CLOSING = frozenset([")", "%", ")%"])
_SIGNS = _OPENING | _CLOSING
_NUMERIC = re.compile(
    r"[<>≥≤~±*+\-–—−$€£¥(\[]*\d[\d.,:/%\-–—()\]*†‡§a-d]*|[-–—−.…*†‡#✓xX]+|\([\-–—Xx]\)|n/?a|NA", re.IGNORECASE
)


@dataclass(slots=True)  # not frozen: a page has hundreds, and it takes three times as long to make a frozen one
class Word:
    """Text without spaces, in the reading frame."""

    x0: float
    y0: float
    x1: float
    y1: float
    text: str


@dataclass(frozen=True, slots=True)
class WordLine:
    """Words at one height, from left to right."""

    words: tuple[Word, ...]
    y0: float
    y1: float

    @property
    def x0(self) -> float:
        return self.words[0].x0

    @property
    def x1(self) -> float:
        return max(word.x1 for word in self.words)

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)


def page_words(page: pymupdf.Page, text: PageText) -> list[Word]:
    """The words of the page's upright lines, each once; those of the lines themselves where the page holds none.

    They are in the order of their middles, from top to bottom, and from left to right at one height.
    """
    if any(line.confidence < 1 for line in text.lines):
        return sorted((word for line in text.lines for word in _words_of(line)), key=_place)
    seen: set[tuple[str, int, int]] = set()
    is_turned = text.to_reading != pymupdf.Identity
    words: list[Word] = []
    for x0, y0, x1, y1, drawn in _read_words(page) if text.words is None else text.words.unpacked():
        said = drawn if drawn.isascii() else normalize(drawn).strip()
        if is_turned:
            box = turn(Box(x0, y0, x1, y1), text.to_reading)
            x0, y0, x1, y1 = box.x0, box.y0, box.x1, box.y1
        place = (said, round(x0 / 2), round(y0 / 2))
        if said and place not in seen:
            seen.add(place)
            words.append(Word(x0, y0, x1, y1, said))
    words = words_outside(sorted(words, key=_place), [line.box for line in (*text.turned, *text.hidden)])
    return _at_their_feet(words)


def _at_their_feet(words: list[Word]) -> list[Word]:
    """The words with those that slant upwards, as names of narrow columns do, where they begin: above their column."""
    if not words:
        return words
    height = median(word.y1 - word.y0 for word in words)
    slants = [
        len(word.text) >= _SLANTED_LETTERS
        and word.y1 - word.y0 > _SLANTED_HEIGHT * height
        and word.x1 - word.x0 < _SLANTED_WIDTH * (word.y1 - word.y0)
        for word in words
    ]
    if not any(slants):
        return words
    placed = [
        Word(word.x0, word.y1 - height, word.x0 + height, word.y1, word.text) if slanted else word
        for word, slanted in zip(words, slants, strict=True)
    ]
    return sorted(placed, key=_place)


def _read_words(page: pymupdf.Page) -> Iterator[tuple[float, float, float, float, str]]:
    for word in page.get_text("words", flags=pymupdf.TEXT_MEDIABOX_CLIP, sort=False):
        yield word[:5]


def words_between(words: Sequence[Word], top: float, bottom: float) -> Sequence[Word]:
    """Those of a page's words, in its order, whose middles lie between two heights, which count too."""
    return words[bisect_left(words, top, key=_middle) : bisect_right(words, bottom, key=_middle)]


def words_in(words: Sequence[Word], box: Box) -> list[Word]:
    """Those of a page's words, in its order, whose middles lie in the box."""
    left, right = box.x0, box.x1
    return [word for word in words_between(words, box.y0, box.y1) if left <= (word.x0 + word.x1) / 2 <= right]


def words_outside(words: Sequence[Word], boxes: Sequence[Box]) -> list[Word]:
    """Those of a page's words, in its order, whose middles lie in none of the boxes."""
    inside = {id(word) for box in boxes for word in words_in(words, box)}
    return [word for word in words if id(word) not in inside]


def _place(word: Word) -> tuple[float, float]:
    return word.y0 + word.y1, word.x0


def _middle(word: Word) -> float:
    return (word.y0 + word.y1) / 2


def _words_of(line: Line) -> Iterator[Word]:
    """The words of a line of which only the whole has a place, as if all letters were of one width."""
    width = (line.box.x1 - line.box.x0) / max(len(line.text), 1)
    for match in re.finditer(r"\S+", line.text):
        left = line.box.x0 + width * match.start()
        yield Word(left, line.box.y0, left + width * len(match[0]), line.box.y1, match[0])


def lines_of(words: Iterable[Word]) -> list[WordLine]:
    """The lines of the words from top to bottom."""
    lines: list[WordLine] = []
    group: list[Word] = []
    top = bottom = first = last = 0.0  # of the group's highest word, and of all its words
    for word in sorted(words, key=_place):
        y0, y1 = word.y0, word.y1
        height, lower = bottom - top, y1 - y0
        overlap = (bottom if bottom < y1 else y1) - (top if top > y0 else y0)
        if group and overlap >= _LINE_OVERLAP * (height if height < lower else lower):
            group.append(word)
            if lower > height:
                top, bottom = y0, y1
            first, last = (y0 if y0 < first else first), (y1 if y1 > last else last)
        else:
            if group:
                lines.append(WordLine(_glued(group), first, last))
            group = [word]
            top, bottom = first, last = y0, y1
    if group:
        lines.append(WordLine(_glued(group), first, last))
    return lines


def _glued(words: list[Word]) -> tuple[Word, ...]:
    """The words from left to right; a sign of currency, a closing bracket or per cent goes to its number."""
    if len(words) > 1:
        words.sort(key=_left)
    if _SIGNS.isdisjoint([word.text for word in words]):
        return tuple(words)
    glued: list[Word] = []
    for word in words:
        last = glued[-1] if glued else None
        if last and (
            (last.text in _OPENING and _NUMERIC.fullmatch(word.text))
            or (word.text in _CLOSING and last.text[-1].isdigit() and word.x0 - last.x1 < word.y1 - word.y0)
        ):
            glued[-1] = Word(last.x0, min(last.y0, word.y0), word.x1, max(last.y1, word.y1), f"{last.text}{word.text}")
        else:
            glued.append(word)
    return tuple(glued)


def _left(word: Word) -> tuple[float, float]:
    return word.x0, word.x1


@dataclass(frozen=True, slots=True)
class Spacing:
    """How the words of an area are set: the usual font size, and the usual space between two words, in points."""

    em: float
    space: float

    @property
    def phrase_gap(self) -> float:
        """Words closer than this read as one phrase."""
        return max(0.6 * self.em, 1.7 * self.space)


def spacing_of(lines: Sequence[WordLine]) -> Spacing:
    """The spacing of the lines; the size is judged by the heights of the words' boxes."""
    heights = [word.y1 - word.y0 for line in lines for word in line.words]
    em = 0.8 * median(heights) if heights else 0.0
    low, high = 0.1 * em, 0.9 * em
    gaps = [
        gap
        for line in lines
        for left, right in pairwise(line.words)
        if low < (gap := right.x0 - left.x1) < high and not (is_numeric(left.text) and is_numeric(right.text))
    ]
    return Spacing(em, median(gaps) if gaps else 0.3 * em)


def runs_of(words: Sequence[Word], max_gap: float) -> list[tuple[Word, ...]]:
    """Neighbours on a line in runs that gaps wider than `max_gap` part."""
    runs: list[list[Word]] = []
    right = 0.0
    for word in words:
        if runs and word.x0 - right <= max_gap:
            runs[-1].append(word)
            right = max(right, word.x1)
        else:
            runs.append([word])
            right = word.x1
    return [tuple(run) for run in runs]


@lru_cache(maxsize=16_384)  # every area of a page that may be a table asks again
def is_numeric(text: str) -> bool:
    """Whether the text is a number as tables write them, or a mark in place of one."""
    return _NUMERIC.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Whether most words are numbers, or half of them and the first: "3.1 (0.2)", "100 million", but not "June 25,"."""
    words = text.split(" ")
    return 2 * sum(map(is_numeric, words)) >= len(words) + (not is_numeric(words[0]))


def join_text(parts: Sequence[str]) -> str:
    """The lines of one cell as one text; a word cut by a hyphen is put together."""
    text = ""
    for part in parts:
        if len(text) > 1 and text.endswith("-") and text[-2].isalpha() and part[:1].islower():
            text = text[:-1] + part
        else:
            text = f"{text} {part}" if text else part
    return text


def prose_zones(lines: Sequence[WordLine]) -> list[list[WordLine]]:
    """The lines in zones that no gutter between columns of prose runs through; each half of a line is a line there."""
    spacing = spacing_of(lines)
    gutter = _find_gutter(lines, spacing)
    if gutter is None:
        return [list(lines)] if lines else []
    zones: list[list[WordLine]] = []
    whole: list[WordLine] = []
    split: list[WordLine] = []
    waiting: list[WordLine] = []  # lines without prose, behind one that crosses: they go with what follows
    for line in lines:
        runs = runs_of(line.words, spacing.phrase_gap)
        if any(run[0].x0 < gutter - 1 and run[-1].x1 > gutter + 1 for run in runs):
            zones += _halves(split, gutter)
            split = []
            whole += [*waiting, line]
            waiting = []
        elif whole and not any(map(_is_prose, runs)):
            waiting.append(line)
        else:
            if whole:
                zones.append(whole)
                whole = []
            split += [*waiting, line]
            waiting = []
    if whole:
        zones.append([*whole, *waiting])
    return zones + _halves(split, gutter)


def _halves(lines: Sequence[WordLine], gutter: float) -> list[list[WordLine]]:
    sides: tuple[list[Word], list[Word]] = ([], [])
    for line in lines:
        for word in line.words:
            sides[(word.x0 + word.x1) / 2 > gutter].append(word)
    return [zone for side in sides if side for zone in prose_zones(lines_of(side))]


def _is_prose(run: Sequence[Word]) -> bool:
    return len(run) >= _PROSE_WORDS and sum(len(word.text) for word in run) >= _PROSE_CHARACTERS


def _find_gutter(lines: Sequence[WordLine], spacing: Spacing) -> float | None:
    """The x at which prose on the left faces prose on the right; None where there is no such place."""
    rows = [[run for run in runs_of(line.words, spacing.phrase_gap) if _is_prose(run)] for line in lines]
    spans = [[(run[0].x0, run[-1].x1) for run in row] for row in rows if row]
    facing = [row for row in spans if len(row) > 1]
    if len(facing) < _FACING_LINES:
        return None
    best: tuple[int, float] | None = None
    for left, right in {(round(a[1]), round(b[0])) for row in facing for a, b in pairwise(row)}:
        x = (left + right) / 2
        crossing = sum(x0 < x - 1 and x1 > x + 1 for row in spans for x0, x1 in row)
        beside = sum(any(x1 <= x for _, x1 in row) and any(x0 >= x for x0, _ in row) for row in spans)
        if beside >= _FACING_LINES and crossing <= 0.6 * beside and (best is None or beside - crossing > best[0]):
            best = (beside - crossing, x)
    return best[1] if best else None
