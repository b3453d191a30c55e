"""Running headers and footers: rows that come back on page after page, and what stands alone in a page's margin."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag.data import Box
from rag.parse.pdf.text_layer import Line, PageText

_MIN_PAGES = 3
_MARGIN = 0.12  # share of the page's height, above and below
_OUTER = 0.09  # share of the page's height where a row that stands alone is no part of the text
_SIDE = 0.1  # share of the page's width where turned text is a stamp
_MAX_ROWS = 3  # of a header or footer
_MIN_NAMES = 4  # texts in a row: the names of a table's columns, which come back on each of its pages
_MIN_BODY_ROWS = 5  # on a page with fewer nothing stands alone
_ALONE = 1.8  # font sizes between a row in the margin and the text
_ALONE_HINTED = 1.3
_ALONE_MARKED = 0.7
_MAX_CHARACTERS = 160
_FIRST, _LAST = -1_000, 1_000_000  # in place of a height
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_PAGE_NUMBER = re.compile(r"\W*(?:page\s*)?(?:[A-Z\d]{1,3}[-–.])?\d{1,4}\W*", re.IGNORECASE)
# What hardly anything but a header or footer says, and what they often say.
_MARKED = re.compile(
    r"^\W*\d{1,4}\W*$|^\W*[ivxlc]{1,6}\W*$|\bpage\s*\d|\bdownloaded\b|\bpublished by\b|\bvol(?:ume|\.)\s*\d|\bissue\b"
    r"|\brev(?:ision|\.)\s*:?\s*\d|\bp/n\b|\bopen access\b|\ball rights reserved\b|\bconfidential\b|\bissn\b"
    r"|\d\s*(?:of|/|von|de|из)\s*\d+\s*$",
    re.IGNORECASE,
)
_HINTED = re.compile(
    r"\bwww\.|https?:|\bdoi\b|©|\(c\)\s|\bcopyright\b|\.(?:com|org|net|gov|edu)\b|\b(?:19|20)\d\d\b|\s\|\s"
    r"|\s\d{1,4}$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Parted:
    """The lines of a page, parted into its text and what stands in its margins."""

    body: tuple[Line, ...]
    repeated: tuple[Line, ...] = ()  # on other pages too
    header: tuple[Line, ...] = ()  # on this page alone, as far as is known
    footer: tuple[Line, ...] = ()
    stamps: tuple[Line, ...] = ()  # turned text at the sides
    turned: tuple[Line, ...] = ()  # other turned text


def part_margins(pages: Sequence[PageText]) -> list[Parted]:
    """Each page's lines without running headers and footers.

    Repeated are those that at least 3 pages share, digits aside, at the same place in a margin; the first and the last
    line of a page count as one place: a footer may follow text that ends early. A page that would lose all its lines
    keeps them. What is left in the outermost part of a page, apart from a body of some rows, is its header or footer.
    """
    counts = Counter(key for page in pages for key in {key for _, key in _margin_lines(page)})
    running = {key for key, count in counts.items() if count >= _MIN_PAGES}
    usual = _usual_size(pages)
    parted: list[Parted] = []
    for page in pages:
        dropped = {id(line) for line, key in _margin_lines(page) if key in running}
        body = tuple(line for line in page.lines if id(line) not in dropped)
        repeated = tuple(line for line in page.lines if id(line) in dropped) if body else ()
        body = body or page.lines
        header, footer = _standing_alone(body, page.frame, usual)
        taken = {id(line) for line in (*header, *footer)}
        stamps = tuple(line for line in page.turned if _is_at_side(line.box, page.frame) and body)
        turned = tuple(line for line in page.turned if line not in stamps)
        rest = tuple(line for line in body if id(line) not in taken)
        parted.append(Parted(rest, repeated, header, footer, stamps, turned))
    return parted


def _margin_lines(page: PageText) -> Iterator[tuple[Line, tuple[str, int]]]:
    frame: Box = page.frame
    first = min((line.box.y0 for line in page.lines), default=0.0)
    last = max((line.box.y1 for line in page.lines), default=0.0)
    margin = _MARGIN * (frame.y1 - frame.y0)
    beside = Counter(round(line.box.y0 / 2) for line in page.lines)
    for line in page.lines:
        if beside[round(line.box.y0 / 2)] >= _MIN_NAMES:
            continue
        at_top, at_end = line.box.y0 - first < 2.0, last - line.box.y1 < 2.0
        in_margin = line.box.y1 < frame.y0 + margin or line.box.y0 > frame.y1 - margin
        if not (at_top or at_end or in_margin):
            continue
        text = _DIGITS.sub("#", line.text.lower())
        if at_top:
            yield line, (text, _FIRST)
        elif at_end:
            yield line, (text, _LAST)
        if in_margin:
            # Rounded to 6 points: print programs place the same footer a little higher or lower.
            yield line, (text, round(line.box.y0 / 6))


def _standing_alone(lines: Sequence[Line], frame: Box, usual: float) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """The header and the footer of one page, judged by this page alone."""
    rows = _rows(lines)
    height = frame.y1 - frame.y0
    num_header = num_footer = 0
    for count in range(1, min(_MAX_ROWS, len(rows) - _MIN_BODY_ROWS) + 1):
        gap = rows[count].y0 - max(row.y1 for row in rows[:count])
        if all(_is_marginal(row, (row.y0 + row.y1) / 2 - frame.y0, gap, height, usual) for row in rows[:count]):
            num_header = count
    header = tuple(line for row in rows[:num_header] for line in row.lines)
    rows = rows[num_header:]
    for count in range(1, min(_MAX_ROWS, len(rows) - _MIN_BODY_ROWS) + 1):
        gap = min(row.y0 for row in rows[-count:]) - rows[-count - 1].y1
        if all(_is_marginal(row, frame.y1 - (row.y0 + row.y1) / 2, gap, height, usual) for row in rows[-count:]):
            num_footer = count
    footer = tuple(line for row in rows[len(rows) - num_footer :] for line in row.lines)
    return header, footer


@dataclass(slots=True)
class _Row:
    lines: list[Line]
    y0: float
    y1: float


def _rows(lines: Sequence[Line]) -> list[_Row]:
    rows: list[_Row] = []
    for line in sorted(lines, key=lambda line: (line.box.y0 + line.box.y1, line.box.x0)):
        middle = (line.box.y0 + line.box.y1) / 2
        if rows and middle < rows[-1].y1 - 0.2 * line.size:
            rows[-1].lines.append(line)
            rows[-1].y0, rows[-1].y1 = min(rows[-1].y0, line.box.y0), max(rows[-1].y1, line.box.y1)
        else:
            rows.append(_Row([line], line.box.y0, line.box.y1))
    return rows


def _is_marginal(row: _Row, to_edge: float, gap: float, height: float, usual: float) -> bool:
    if to_edge >= _MARGIN * height:
        return False
    text = " ".join(line.text for line in row.lines)
    size = max(line.size for line in row.lines)
    if len(text) > _MAX_CHARACTERS:
        return False
    if _PAGE_NUMBER.fullmatch(text) and to_edge < _OUTER * height:
        return True
    if _MARKED.search(text):
        return to_edge < _MARGIN * height and gap >= _ALONE_MARKED * size and size <= 1.7 * usual
    if _HINTED.search(text):
        return to_edge < _MARGIN * height and gap >= _ALONE_HINTED * size and size <= 1.3 * usual
    return to_edge < _OUTER * height and gap >= _ALONE * size and size <= 1.15 * usual


def _is_at_side(box: Box, frame: Box) -> bool:
    x = (box.x0 + box.x1) / 2
    side = _SIDE * (frame.x1 - frame.x0)
    return x < frame.x0 + side or x > frame.x1 - side


def _usual_size(pages: Sequence[PageText]) -> float:
    weights: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            weights[round(line.size * 2) / 2] += len(line.text)
    return max(weights, key=lambda size: (weights[size], -size), default=0.0)
