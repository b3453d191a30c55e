"""Running headers and footers: rows that come back at the same place on page after page."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rag.data import Box
from rag.parse.pdf.text_layer import Line, PageText

_MIN_PAGES = 3
_MARGIN = 0.12  # share of the page's height, above and below
_FIRST, _LAST = -1_000, 1_000_000  # in place of a height
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")


def drop_running_lines(pages: Sequence[PageText]) -> list[tuple[Line, ...]]:
    """Each page's lines without those that at least 3 pages share, digits aside, at the same place in a margin.

    The first and the last line of a page count as one place: a footer may follow text that ends early. A page that
    would lose all its lines keeps them.
    """
    counts = Counter(key for page in pages for key in {key for _, key in _margin_lines(page)})
    running = {key for key, count in counts.items() if count >= _MIN_PAGES}
    kept: list[tuple[Line, ...]] = []
    for page in pages:
        dropped = {id(line) for line, key in _margin_lines(page) if key in running}
        kept.append(tuple(line for line in page.lines if id(line) not in dropped) or page.lines)
    return kept


def _margin_lines(page: PageText) -> Iterator[tuple[Line, tuple[str, int]]]:
    frame: Box = page.frame
    first = min((line.box.y0 for line in page.lines), default=0.0)
    last = max((line.box.y1 for line in page.lines), default=0.0)
    margin = _MARGIN * (frame.y1 - frame.y0)
    for line in page.lines:
        text = _DIGITS.sub("#", line.text.lower())
        if line.box.y0 - first < 2.0:
            yield line, (text, _FIRST)
        elif last - line.box.y1 < 2.0:
            yield line, (text, _LAST)
        if line.box.y1 < frame.y0 + margin or line.box.y0 > frame.y1 - margin:
            # Rounded to 6 points: print programs place the same footer a little higher or lower.
            yield line, (text, round(line.box.y0 / 6))
