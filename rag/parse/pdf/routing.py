"""How each page of a PDF is read: its text layer as it stands, with the help of a detector, or by recognition."""

import re
import unicodedata
from dataclasses import dataclass

from rag.data import PageReport, PageRoute
from rag.parse.pdf.reading_order import has_columns
from rag.parse.pdf.text_layer import PageText, area, count_characters

_MAX_UNMAPPED = 0.3  # share of characters without a meaning above which a text layer says nothing
_MIN_CHARACTERS = 24  # a text layer with fewer may be right, if the page is not an image
_MIN_LETTERS = 80  # fewer don't say whether they are a language
_IMAGE_SHARE = 0.5  # of a page that images cover
_FIGURE_SHARE, _BACKGROUND_SHARE = 0.02, 0.85  # of a page that an image covers
_MIN_CURVES = 100  # drawn paths other than rectangles on a page with a diagram
_UNMAPPED = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_LATIN_WORD = re.compile(r"[A-Za-z]{4,}")
_VOWELS = "aeiouy"
_MIN_VOWELS = 0.2  # of the letters of Latin words of 4 letters and more; languages have 0.3 to 0.5
_MAX_ODD = 0.35  # share of the visible characters that are unusual signs
_ODD = re.compile(r"[!\"#%&*+<=>?@\\^_`{|}~\u00a1-\u00bf\u00d7\u00f7]")


@dataclass(frozen=True, slots=True)
class Route:
    """Which way a page goes, and why."""

    name: PageRoute
    reason: str


def route_of(page: PageText, min_characters: int = _MIN_CHARACTERS) -> Route:
    """The way of a page by its text layer alone."""
    lines = (*page.lines, *page.turned)
    text = "".join(line.text for line in lines)
    num_characters = len(text) - text.count(" ")
    covered = _image_share(page)
    if num_characters < max(min_characters, 1):
        if covered >= _IMAGE_SHARE or (page.images and not num_characters):
            return Route("ocr", f"an image with {num_characters} characters of text")
        if not num_characters and len(page.vectors) > 200:
            return Route("ocr", "letters drawn as paths, no text")
        return Route("text", f"{num_characters} characters of text and no image" if num_characters else "blank")
    if reason := garbage_reason(text):
        return Route("ocr", reason)
    return Route("text", "a text layer")


def report_of(page: PageText, route: Route, num_repeated: int = 0) -> PageReport:
    """How the page was read; `num_repeated` of its characters were left out, since other pages repeat them."""
    if route.name == "lost":
        return PageReport(page.number, route.name, route.reason, 0)
    lines = (*page.lines, *page.turned)
    confidence = sum(line.confidence for line in lines) / len(lines) if lines else 1.0
    return PageReport(
        page.number,
        route.name,
        route.reason,
        max(page.num_characters - num_repeated, 0),
        count_characters(page.hidden),
        num_repeated,
        round(confidence, 3),
    )


def needs_layout(page: PageText) -> str:
    """Why the page is too complicated for rules alone: figures beside columns; "" where it is not."""
    whole = area(page.frame)
    pictures = [box for box in page.images if _FIGURE_SHARE * whole < area(box) < _BACKGROUND_SHARE * whole]
    if not pictures and sum(not path.is_rectangle for path in page.vectors) < _MIN_CURVES:
        return ""
    return "figures beside columns" if has_columns(page.lines) else ""


def garbage_reason(text: str) -> str:
    """Why the text of a text layer is none; "" where it is."""
    visible = len(text) - text.count(" ")
    unmapped = len(_UNMAPPED.findall(text))
    if visible and unmapped > _MAX_UNMAPPED * visible:
        return f"the fonts do not say which characters they draw ({unmapped} of {visible} unknown)"
    # Accents are taken off first: vowels carry most of them.
    latin = "".join(_LATIN_WORD.findall(unicodedata.normalize("NFD", text).replace("\u0131", "i")))
    if len(latin) >= _MIN_LETTERS and sum(map(latin.lower().count, _VOWELS)) < _MIN_VOWELS * len(latin):
        return "the text layer is gibberish (words without vowels)"
    if visible >= 2 * _MIN_LETTERS and len(_ODD.findall(text)) > _MAX_ODD * visible:
        return "the text layer is gibberish (mostly signs)"
    return ""


def _image_share(page: PageText) -> float:
    """The share of the page that its images cover, counted as if they did not overlap, at most 1."""
    whole = area(page.frame)
    return min(sum(map(area, page.images)) / whole, 1.0) if whole else 0.0
