"""A PDF page -> its lines of text, turned so that they read from left to right, and what is drawn around them."""

import logging
import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress, pairwise
from operator import ne
from typing import Any

import pymupdf

from rag.data import Box
from rag.sent import Sent

logger = logging.getLogger(__name__)

# Ligatures are taken apart by MuPDF. Vectors come with the text in one pass over the page; images cost a second one.
# Text outside the page is read too: it has to be told apart from what is seen.
_FLAGS = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_COLLECT_VECTORS
_FEW_PIXELS = 32_768  # of all images of a page: the bytes of a logo cost half of what a second pass costs
_IMAGE_SIZE = re.compile(r"width: (\d+), height: (\d+)")
_IMAGE, _VECTOR = 1, 3  # MuPDF's types of blocks
_MAX_VECTORS = 20_000  # a page with more is a drawing
# Spaces other than the usual, which part words where MuPDF is asked for words alone, and letters without a meaning.
_NO_LETTERS = frozenset("\u1680\u180e\u202f\u205f\u3000\ufffd" + "".join(map(chr, range(0x2000, 0x200B))))
_ABUTTING = 0.15  # heights of a word between it and one that it may be a part of
_TRANSLATION = str.maketrans(
    {
        "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
        "\ufb05": "st", "\ufb06": "st",
        "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u200b": "", "\ufeff": "", "\t": " ",
        "\u200e": "", "\u200f": "", "\u2028": " ", "\u2029": " ",
        "\uf0b7": "\u2022", "\uf0a7": "\u25aa", "\uf0d8": "\u27a2", "\uf0fc": "\u2713", "\uf0e0": "\u2192",
        "\uf06f": "\u25cb", "\uf076": "\u2756", "\uf02d": "-", "\uf020": " ",
    }
)  # fmt: skip
_TRANSLATED = re.compile(f"[{''.join(map(chr, _TRANSLATION))}]")
_PRESENTATION_FORMS = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")  # Hebrew and Arabic letters as they are drawn
# TeX draws an accent and then its letter, a cedilla after it; each is a character of its own in the text layer.
_COMBINING = {
    "´": "\u0301", "¨": "\u0308", "ˇ": "\u030c", "˜": "\u0303", "ˆ": "\u0302", "˚": "\u030a", "˙": "\u0307",
    "˘": "\u0306", "˝": "\u030b", "¯": "\u0304", "¸": "\u0327",
}  # fmt: skip
_DOTTED = {"ı": "i", "ȷ": "j"}
_ACCENTS = re.compile("[´¨ˇ˜ˆ˚˙˘˝¯¸]")
_ACCENTED = re.compile("([´¨ˇ˜ˆ˚˙˘˝¯]) ?([A-Za-zıȷ])|([A-Za-z])(¸)")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff]")
# A ligature of lam and alef whose letters come out swapped; two alefs never stand side by side.
_SWAPPED_LAM = re.compile("(ا)([إأآ])ل")
# Unit vector of the writing direction -> the turn that makes it point right.
_TURNS = {(1, 0): 0, (0, 1): -90, (-1, 0): 180, (0, -1): 90}
_BOLD = re.compile(r"bold|black|heavy|demi|medi(?!um)|CMBX|SFBX|[-,]B$|(?<=[a-z])BX\d", re.IGNORECASE)
_MONOSPACED = re.compile(
    r"mono|courier|consol|menlo|typewriter|inconsolata|fira ?code|source ?code|lucida ?con|CMTT|SFTT|NimbusMon"
    r"|txtt|cmvtt|LMTT|hack",
    re.IGNORECASE,
)
_MAX_HEIGHT = 2.0  # font sizes of a line's box
_MATHEMATICS = re.compile(
    r"CM(?:MI|SY|EX|BSY|MIB)|MSA?B?M?\d|MS[AB]M|Pazo|KaTeX_(?:Math|Main|Size|AMS|Caligraphic)|STIX|XITS|.*Math|EU[FRS]M|RSFS|LM"
    r"Math|TeX_(?:CM|PazoMath)|MTSY|MTMI|MTEX|txsy|txex|txmi|pxsy|pxmi|Euclid|MathematicalPi|rtxmi|NewTXMI|ntx",
)
_VARIABLE = re.compile(r"\s*(?:[^\W\d_]{1,2}|[\W\d_]+)\s*")
_SUBSET = re.compile(r"^[A-Z]{6}\+")
_PRESSED = re.compile(r"[^\W\d_]{24,}")  # several words that a justified line pressed together


@dataclass(frozen=True, slots=True)
class Line(Sent):
    """A piece of text on one line, as the PDF draws it: a line of prose, or one cell of a table's row."""

    text: str
    box: Box  # in the reading frame
    size: float  # of the font, in points
    bold: bool
    italic: bool = False
    monospaced: bool = False
    font: str = ""  # "" where it is not known
    color: int = 0  # sRGB, 0xRRGGBB
    math: float = 0.0  # share of its characters that are set as mathematics
    is_equation: bool = False  # its text is a displayed formula in LaTeX
    lead: str = ""  # the bold words that it begins with, where others follow
    confidence: float = 1.0  # of the recognition; 1 for text that the file itself holds


@dataclass(frozen=True, slots=True)
class Vector(Sent):
    """The box of one drawn path or of a straight part of it, in the reading frame."""

    box: Box
    stroked: bool  # else filled
    is_rectangle: bool
    color: int  # sRGB
    opacity: float


@dataclass(frozen=True, slots=True)
class PackedWords:
    """The words of a page with their places, in MuPDF's coordinates, in little memory: a document keeps them all."""

    texts: str  # parted by line breaks
    places: "array[float]"  # x0 of each, then y0, x1 and y1

    def unpacked(self) -> Iterator[tuple[float, float, float, float, str]]:
        """Place and text of each word, in the order of drawing."""
        num = len(self.places) // 4
        sides = (self.places[at * num : (at + 1) * num] for at in range(4))
        return zip(*sides, self.texts.split("\n") if num else (), strict=True)


@dataclass(frozen=True, slots=True)
class PageText:
    """The lines of one page in a frame in which most of its text reads from left to right, and the way back."""

    number: int  # from 1
    lines: tuple[Line, ...]
    turned: tuple[Line, ...]  # text in other directions, such as a stamp in the margin
    frame: Box  # the page
    to_reading: pymupdf.Matrix  # from the coordinates of PyMuPDF
    to_display: pymupdf.Matrix  # from the reading frame to the page as displayed
    vectors: tuple[Vector, ...] = ()
    images: tuple[Box, ...] = ()
    hidden: tuple[Line, ...] = ()  # text that nobody sees on the page
    words: PackedWords | None = None  # None where MuPDF has to be asked again, or the text was recognized

    @property
    def num_characters(self) -> int:
        """Of all text that is seen, in any direction."""
        return count_characters(self.lines) + count_characters(self.turned)

    def display_box(self, box: Box) -> Box:
        """The box of the reading frame on the page as displayed."""
        return turn(box, self.to_display)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A line with what decides whether it is seen. Boxes are those of PyMuPDF."""

    line: Line
    direction: tuple[int, int]
    is_painted: bool  # else its render mode or opacity leaves no ink
    order: int  # of the drawing: later paths lie above it


def read_page(page: pymupdf.Page, number: int) -> PageText:
    """The text layer of the page; no lines where it has none.

    Left out of the lines, and kept as `hidden`: text without ink, outside the page, too small to read, in the colour
    of what lies behind it, or below an opaque dark box. Text without ink on an image is what a scanner read there, and
    is kept.
    """
    crop = page.cropbox
    # MuPDF's coordinates are those of the crop box before the page is turned.
    frame = Box(0.0, 0.0, crop.width, crop.height)
    blocks, images, words = _read_blocks(page, frame)
    drawn, paths = _drawn_lines(blocks)
    if any(_is_pressed(item.line.text) for item in drawn):
        drawn = _respaced(page, drawn)
    seen, hidden = _parted(page, drawn, paths, images, frame)
    weights: Counter[tuple[int, int]] = Counter()
    for item in seen:
        weights[item.direction] += len(item.line.text)
    main = max(weights, key=lambda direction: (weights[direction], direction), default=(1, 0))
    to_reading = pymupdf.Matrix(_TURNS[main])
    back = pymupdf.Matrix(-_TURNS[main])

    def in_frame(items: Sequence[_Drawn]) -> Iterable[Line]:
        if not _TURNS[main]:
            return (item.line for item in items)
        return (replace(item.line, box=turn(item.line.box, to_reading)) for item in items)

    return PageText(
        number,
        tuple(in_frame([item for item in seen if item.direction == main])),
        tuple(in_frame([item for item in seen if item.direction != main])),
        turn(frame, to_reading),
        to_reading,
        back * page.rotation_matrix,
        tuple(replace(path, box=turn(path.box, to_reading)) if _TURNS[main] else path for path, _ in paths),
        tuple(turn(box, to_reading) for box in images),
        tuple(in_frame(hidden)),
        None if _TURNS[main] else words,
    )


def unread_page(number: int) -> PageText:
    """What stands in the place of a page that can't be read: no text, on no ground."""
    return PageText(number, (), (), Box(0.0, 0.0, 0.0, 0.0), pymupdf.Matrix(1, 1), pymupdf.Matrix(1, 1))


def turn(box: Box, matrix: pymupdf.Matrix) -> Box:
    """The box after a turn; the smallest one around it where that is not by a multiple of 90 degrees."""
    a, b, c, d, e, f = matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f
    if (a, b, c, d, e, f) == (1, 0, 0, 1, 0, 0):
        return box
    corners = [(box.x0, box.y0), (box.x1, box.y1)]
    if a and b:
        corners += [(box.x1, box.y0), (box.x0, box.y1)]
    xs = [x * a + y * c + e for x, y in corners]
    ys = [x * b + y * d + f for x, y in corners]
    return Box(min(xs), min(ys), max(xs), max(ys))


def enclosing(boxes: Iterable[Box]) -> Box:
    """The smallest box around all of them, of which there is at least one."""
    x0, y0, x1, y1 = math.inf, math.inf, -math.inf, -math.inf
    for box in boxes:
        x0, y0, x1, y1 = min(x0, box.x0), min(y0, box.y0), max(x1, box.x1), max(y1, box.y1)
    return Box(x0, y0, x1, y1)


def count_characters(lines: Iterable[Line]) -> int:
    """How many characters the lines hold together."""
    return sum(len(line.text) for line in lines)


def normalize(text: str) -> str:
    """The text with ligatures taken apart, every space a plain one, and nothing invisible."""
    if text.isascii():
        return text.replace("\t", " ")
    if _TRANSLATED.search(text):
        text = text.translate(_TRANSLATION)
    text = text.replace("‘‘", "“").replace("’’", "”")
    if _ACCENTS.search(text):
        text = _ACCENTED.sub(_composed, text)
    if _PRESENTATION_FORMS.search(text):
        text = _PRESENTATION_FORMS.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return _SWAPPED_LAM.sub(r"\1ل\2", text) if "ل" in text else text


def _composed(match: re.Match[str]) -> str:
    accent, letter = (match[1], match[2]) if match[1] else (match[4], match[3])
    return unicodedata.normalize("NFC", _DOTTED.get(letter, letter) + _COMBINING[accent])


def area(box: Box) -> float:
    """In square points; 0 for a box turned inside out."""
    return max(box.x1 - box.x0, 0.0) * max(box.y1 - box.y0, 0.0)


def shared_area(first: Box, second: Box) -> float:
    """The area that lies in both boxes."""
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    return width * height if width > 0 and height > 0 else 0.0


# ---------------------------------------------------------------- what MuPDF gives


def _read_blocks(page: pymupdf.Page, frame: Box) -> tuple[list[dict[str, Any]], tuple[Box, ...], PackedWords | None]:
    """MuPDF's blocks of text and vectors, the places of the images, each cut to the page, and the words if they can
    be taken from the same pass.

    The dicts would hold each image's bytes, so a page with images of some size is read once more without them.
    """
    everywhere = pymupdf.INFINITE_RECT()
    text_page = page.get_textpage(flags=_FLAGS | pymupdf.TEXT_PRESERVE_IMAGES, clip=everywhere)
    images = [block for block in text_page.extractBLOCKS() if block[6] == _IMAGE]
    if sum(_num_pixels(block[4]) for block in images) > _FEW_PIXELS:
        text_page = page.get_textpage(flags=_FLAGS, clip=everywhere)
    blocks: list[dict[str, Any]] = text_page.extractDICT()["blocks"]  # Any: PyMuPDF's own nested dicts
    cut = (
        Box(max(x0, frame.x0), max(y0, frame.y0), min(x1, frame.x1), min(y1, frame.y1)) for x0, y0, x1, y1, *_ in images
    )
    return blocks, tuple(box for box in cut if area(box) > 0), _packed(text_page.extractWORDS(), frame)


def _packed(words: Sequence[tuple[Any, ...]], frame: Box) -> PackedWords | None:  # Any: numbers and a text
    """The words of a page, given in MuPDF's order; None where a pass for words alone gives other ones.

    That is so where letters lie beyond the page, where some are spaces of an unusual kind or have no meaning, and where
    a word ends at the end of a line and another begins right behind it: a path that is drawn in between cuts lines,
    and with them words, in two.
    """
    if not words:
        return PackedWords("", array("f"))
    # By columns: a loop over the words would cost what it saves.
    x0s, y0s, x1s, y1s, texts, blocks, lines, _ = zip(*words, strict=True)
    text = "\n".join(texts)
    if not text.isascii() and not _NO_LETTERS.isdisjoint(text):
        return None
    if min(x0s) < frame.x0 or min(y0s) < frame.y0 or max(x1s) > frame.x1 or max(y1s) > frame.y1:
        return None
    held = list(zip(blocks, lines, strict=True))
    ends = compress(range(1, len(held)), map(ne, held, held[1:]))
    if any(_abut(words[at - 1], words[at]) for at in ends):
        return None
    return PackedWords(text, array("f", (*x0s, *y0s, *x1s, *y1s)))


def _abut(last: tuple[Any, ...], first: tuple[Any, ...]) -> bool:
    """Whether two words stand side by side with hardly a gap between them."""
    (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = last[:4], first[:4]
    reach = _ABUTTING * (by1 - by0)
    shared = min(ay1, by1) - max(ay0, by0)
    return bool(shared > 0.5 * min(ay1 - ay0, by1 - by0) and bx0 - ax1 < reach and ax0 - bx1 < reach)


def _num_pixels(description: str) -> int:
    """Of an image, as MuPDF describes it: "<image: DeviceRGB, width: 20, height: 10, bpc: 8>"."""
    match = _IMAGE_SIZE.search(description)
    return int(match[1]) * int(match[2]) if match else _FEW_PIXELS + 1


def _drawn_lines(blocks: Iterable[dict[str, Any]]) -> tuple[list[_Drawn], list[tuple[Vector, int]]]:
    """Every line, and every path with its place in the order of drawing.

    Text that is drawn twice (a fake bold) counts once.
    """
    seen: set[tuple[str, int, int]] = set()
    drawn: list[_Drawn] = []
    paths: list[tuple[Vector, int]] = []
    for order, block in enumerate(blocks):
        if block["type"] == _VECTOR:
            if len(paths) < _MAX_VECTORS:
                vector = Vector(
                    Box(*block["bbox"]), block["stroked"], block["isrect"], block["color"], block["alpha"] / 255
                )
                paths.append((vector, order))
            continue
        for line in block.get("lines", ()):
            spans = line["spans"]
            whole = normalize(spans[0]["text"] if len(spans) == 1 else "".join([span["text"] for span in spans]))
            text = whole.strip()
            if not text:
                continue
            x0, y0, x1, y1 = line["bbox"]
            if (whole[0] == " " or whole[-1] == " ") and line["dir"][0] > 0.99:  # a box ends where its letters end
                width = (x1 - x0) / len(whole)
                before, after = len(whole) - len(whole.lstrip()), len(whole) - len(whole.rstrip())
                if not text.isascii() and _RIGHT_TO_LEFT.search(text):
                    before, after = after, before
                x0, x1 = x0 + width * before, x1 - width * after
            if not math.isfinite(x0 + y0 + x1 + y1):
                continue
            place = (text, round(x0 / 2), round(y0 / 2))
            if place in seen:
                continue
            seen.add(place)
            drawn.append(_drawn_line(text, Box(x0, y0, x1, y1), line["dir"], spans, order))
    return drawn, paths


def _drawn_line(
    text: str, box: Box, direction: tuple[float, float], spans: Sequence[dict[str, Any]], order: int
) -> _Drawn:
    lead = ""
    if len(spans) > 1:
        inked = [span for span in spans if not span["text"].isspace()] or spans
        largest = max(inked, key=lambda span: len(span["text"]))
        looks = [_font_look(span["font"], span["flags"]) for span in inked]
        bold, italic, monospaced = (all(look[at] for look in looks) for at in (1, 2, 3))
        math_share = 0.0
        if any(look[4] for look in looks):
            # Variables are often set in the italic of the text font, signs and digits in its upright.
            mathematics = sum(
                len(span["text"])
                for span, look in zip(inked, looks, strict=True)
                if look[4] or _VARIABLE.fullmatch(span["text"])
            )
            math_share = mathematics / sum(len(span["text"]) for span in inked)
        family = _font_look(largest["font"], largest["flags"])[0]
        if not bold and looks[0][1]:
            plain = next(at for at, look in enumerate(looks) if not look[1])
            lead = " ".join(normalize("".join(span["text"] for span in inked[:plain])).split())
    else:
        largest = spans[0]
        family, bold, italic, monospaced, is_math = _font_look(largest["font"], largest["flags"])
        math_share = 1.0 if is_math else 0.0
    dx, dy = direction
    if dx > 0.99 and box.y1 - box.y0 > _MAX_HEIGHT * largest["size"] and math_share < 0.5:
        # One sign of a font with odd measures makes a line's box reach over its neighbours.
        baseline = largest["origin"][1]
        top, bottom = baseline - largest["size"], baseline + 0.3 * largest["size"]
        box = Box(box.x0, max(box.y0, top), box.x1, min(box.y1, bottom))
    rounded = (round(dx), 0) if abs(dx) >= abs(dy) else (0, round(dy))
    return _Drawn(
        Line(text, box, largest["size"], bold, italic, monospaced, family, largest["color"], math_share, lead=lead),
        rounded if rounded in _TURNS else (1, 0),
        largest["alpha"] > 12 or any(span["alpha"] > 12 for span in spans),
        order,
    )


@lru_cache(maxsize=4096)
def _font_look(name: str, flags: int) -> tuple[str, bool, bool, bool, bool]:
    """The font's family, and whether it is bold, italic, monospaced, and one for mathematics."""
    family = _SUBSET.sub("", name)
    bold = bool(flags & pymupdf.TEXT_FONT_BOLD) or _BOLD.search(family) is not None
    italic = bool(flags & pymupdf.TEXT_FONT_ITALIC) or "italic" in family.lower() or "oblique" in family.lower()
    monospaced = bool(flags & pymupdf.TEXT_FONT_MONOSPACED) or _MONOSPACED.search(family) is not None
    return re.split(r"[-,]", family)[0], bold, italic, monospaced, _MATHEMATICS.match(family) is not None


def _respaced(page: pymupdf.Page, drawn: list[_Drawn]) -> list[_Drawn]:
    """The lines with spaces where those that a justified line pressed together have gaps between their letters."""
    blocks = page.get_textpage(flags=_FLAGS, clip=pymupdf.INFINITE_RECT()).extractRAWDICT()["blocks"]
    spaced: dict[tuple[int, str], str] = {}
    for order, block in enumerate(blocks):
        for line in block.get("lines", ()):
            characters = [character for span in line["spans"] for character in span["chars"]]
            text = normalize(_spaced_text(characters, line["spans"][0]["size"])).strip()
            spaced[order, text.replace(" ", "")] = text
    return [
        replace(item, line=replace(item.line, text=spaced.get(_letters(item), item.line.text)))
        if _is_pressed(item.line.text) and item.direction == (1, 0)
        else item
        for item in drawn
    ]


def _letters(item: _Drawn) -> tuple[int, str]:
    return item.order, item.line.text.replace(" ", "")


def _spaced_text(characters: Sequence[dict[str, Any]], size: float) -> str:
    """The characters with a space in every gap that is clearly wider than those inside words."""
    gaps = [after["bbox"][0] - before["bbox"][2] for before, after in pairwise(characters)]
    text = characters[0]["c"] if characters else ""
    for gap, character in zip(gaps, characters[1:], strict=True):
        if gap > 0.08 * size and not text.endswith(" ") and character["c"] != " ":
            text += " "
        text += character["c"]
    return text


def _is_pressed(text: str) -> bool:
    return len(text) >= 24 and max(map(len, text.split())) >= 24 and _PRESSED.search(text) is not None


# ---------------------------------------------------------------- what nobody sees

_TINY = 1.0  # points
_SMALL = 2.5  # points: as small as this it is read by nobody where the page's usual text is of a normal size
_NORMAL = 6.0
_SCAN_SHARE = 0.5  # of a line without ink that lies on images where they show what it says
_PALE = 0xEC  # of 255: a text that is lighter may leave no trace on paper
_DARK = 0x60  # of 255
_MIN_FILL = 4.0  # points, either way: a smaller fill is a rule or a dot
_MIN_CONTRAST = 20  # of 255: between the lightest and the darkest pixel


def _parted(
    page: pymupdf.Page,
    drawn: Sequence[_Drawn],
    paths: Sequence[tuple[Vector, int]],
    images: Sequence[Box],
    frame: Box,
) -> tuple[list[_Drawn], list[_Drawn]]:
    """The lines that are seen, and those that are not."""
    fills = [
        (path, order)
        for path, order in paths
        if not path.stroked
        and path.opacity > 0.95
        and path.box.x1 - path.box.x0 > _MIN_FILL
        and path.box.y1 - path.box.y0 > _MIN_FILL
    ]
    grounds: dict[int, list[tuple[Box, int]]] = {}
    for path, order in fills:
        grounds.setdefault(path.color, []).append((path.box, order))
    dark = [(path.box, order) for path, order in fills if path.is_rectangle and max(_rgb(path.color)) < _DARK]
    usual = _usual_size(drawn)
    seen: list[_Drawn] = []
    hidden: list[_Drawn] = []
    suspects: list[_Drawn] = []  # of the colour of something behind them, or below a dark box
    for item in drawn:
        line, box = item.line, item.line.box
        x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        outside = not (frame.x0 <= x <= frame.x1 and frame.y0 <= y <= frame.y1)
        if not item.is_painted:
            on_image = sum(shared_area(image, box) for image in images) >= _SCAN_SHARE * area(box)
            (seen if on_image and not outside else hidden).append(item)
        elif outside or line.size < (_SMALL if usual >= _NORMAL else _TINY):
            hidden.append(item)
        else:
            seen.append(item)
            if (
                any(order < item.order and _holds(ground, box) for ground, order in grounds.get(line.color, ()))
                or min(_rgb(line.color)) >= _PALE
                or any(order > item.order and _holds(other, box) for other, order in dark)
            ):
                suspects.append(item)
    if suspects:
        unseen = _without_contrast(page, suspects)
        hidden += unseen
        left_out = set(map(id, unseen))
        seen = [item for item in seen if id(item) not in left_out]
    return seen, hidden


def _without_contrast(page: pymupdf.Page, suspects: Sequence[_Drawn]) -> list[_Drawn]:
    """Those of the lines whose place on the drawn page is of one colour."""
    to_display = page.rotation_matrix
    places = [turn(item.line.box, to_display) for item in suspects]
    around = enclosing(places)
    try:
        pixmap = page.get_pixmap(
            dpi=72, colorspace=pymupdf.csGRAY, alpha=False,
            clip=pymupdf.Rect(around.x0, around.y0, around.x1, around.y1),
        )  # fmt: skip
    except Exception:  # what can't be drawn can't be judged, and then the text counts as seen
        logger.warning("page %d can't be drawn to tell hidden text", page.number + 1, exc_info=True)
        return []
    samples, width, height = pixmap.samples, pixmap.width, pixmap.height
    unseen: list[_Drawn] = []
    for item, place in zip(suspects, places, strict=True):
        left, right = max(int(place.x0) - pixmap.x, 0), min(math.ceil(place.x1) - pixmap.x, width)
        rows = range(max(int(place.y0) - pixmap.y, 0), min(math.ceil(place.y1) - pixmap.y, height))
        # The middle rows: a rule above or below the line must not pass for its text.
        rows = rows[len(rows) // 4 : max(len(rows) - len(rows) // 4, 1)]
        pixels = b"".join(samples[y * width + left : y * width + right] for y in rows)
        if pixels and max(pixels) - min(pixels) < _MIN_CONTRAST:
            unseen.append(item)
    return unseen


def _usual_size(drawn: Sequence[_Drawn]) -> float:
    weights: Counter[float] = Counter()
    for item in drawn:
        weights[item.line.size] += len(item.line.text)
    return max(weights, key=lambda size: (weights[size], size), default=0.0)


def _rgb(color: int) -> tuple[int, int, int]:
    return (color >> 16) & 0xFF, (color >> 8) & 0xFF, color & 0xFF


def _holds(outer: Box, inner: Box) -> bool:
    """Whether nearly all of the inner box is inside; letters do not fill the height of their line's box."""
    return shared_area(outer, inner) >= 0.7 * area(inner)
