"""Tables of a PDF page that rules are drawn around. PyMuPDF's `find_tables` took 50 to 3,000 ms a page here."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Any

import pymupdf

from rag.data import Box
from rag.parse.content import render_table
from rag.parse.pdf.text_layer import normalize, turn

_THIN = 2.5  # points: a filled rectangle as thin as this is a rule
_MIN_RULE = 6.0  # points
_SNAP = 2.5  # points: rules as close as this are one rule, and touch one another
_MAX_DRAWINGS = 5_000  # a page with more is a picture
_MAX_PAIRS = 400_000  # of a rule across and a rule down, likewise


@dataclass(frozen=True, slots=True)
class Rule:
    """A straight line across (`at` is its y) or down (`at` is its x) the page."""

    at: float
    start: float
    end: float


def ruled_tables(page: pymupdf.Page, to_reading: pymupdf.Matrix) -> list[tuple[Box, str]]:
    """The tables that rules part into at least 2 rows and 2 columns: their places in the reading frame, and Markdown.

    A cell that spans rows or columns keeps its text in its first one.
    """
    drawings: list[dict[str, Any]] = page.get_cdrawings()  # Any: PyMuPDF's own nested dicts
    if len(drawings) > _MAX_DRAWINGS:
        return []
    across, down = find_rules(drawings, to_reading)
    if len(across) < 3 or len(down) < 2 or len(across) * len(down) > _MAX_PAIRS:
        return []
    grids = connected_grids(across, down)
    if not grids:
        return []
    words = [
        (turn(Box(*word[:4]), to_reading), normalize(word[4]).strip())
        for word in page.get_text("words", flags=pymupdf.TEXT_MEDIABOX_CLIP, sort=False)
    ]
    found: list[tuple[Box, str]] = []
    for grid_across, grid_down in grids:
        rows, box = fill_grid(grid_across, grid_down, words)
        if len(rows) >= 2 and len(rows[0]) >= 2:
            found.append((box, render_table(rows)))
    return found


def find_rules(drawings: Iterable[dict[str, Any]], to_reading: pymupdf.Matrix) -> tuple[list[Rule], list[Rule]]:
    """The rules across and down: lines, outlines of rectangles, and filled rectangles too thin for anything else."""
    across: list[Rule] = []
    down: list[Rule] = []
    for drawing in drawings:
        outlined = "s" in drawing["type"]
        for item in drawing["items"]:
            if item[0] == "l":
                (xa, ya), (xb, yb) = item[1], item[2]
                x0, x1, y0, y1 = min(xa, xb), max(xa, xb), min(ya, yb), max(ya, yb)
            elif item[0] == "re":
                x0, y0, x1, y1 = item[1]
            else:
                continue
            x0, y0, x1, y1 = astuple(turn(Box(x0, y0, x1, y1), to_reading))
            width, height = x1 - x0, y1 - y0
            if height <= _THIN and width > _MIN_RULE:
                across.append(Rule((y0 + y1) / 2, x0, x1))
            elif width <= _THIN and height > _MIN_RULE:
                down.append(Rule((x0 + x1) / 2, y0, y1))
            elif item[0] == "re" and outlined and width > _MIN_RULE and height > _MIN_RULE:
                across += [Rule(y0, x0, x1), Rule(y1, x0, x1)]
                down += [Rule(x0, y0, y1), Rule(x1, y0, y1)]
    return _joined(across), _joined(down)


def connected_grids(across: Sequence[Rule], down: Sequence[Rule]) -> list[tuple[list[Rule], list[Rule]]]:
    """The rules in groups that hang together by touching, from the top; only groups that can part rows and columns."""
    group = list(range(len(across) + len(down)))

    def root(at: int) -> int:
        while group[at] != at:
            group[at] = group[group[at]]
            at = group[at]
        return at

    for i, line in enumerate(across):
        for j, other in enumerate(down, start=len(across)):
            if (
                line.start - _SNAP <= other.at <= line.end + _SNAP
                and other.start - _SNAP <= line.at <= other.end + _SNAP
            ):
                group[root(j)] = root(i)
    grids: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for i, line in enumerate(across):
        grids.setdefault(root(i), ([], []))[0].append(line)
    for j, other in enumerate(down, start=len(across)):
        grids.setdefault(root(j), ([], []))[1].append(other)
    useful = [grid for grid in grids.values() if len(_places(grid[0])) >= 3 and len(_places(grid[1])) >= 2]
    return sorted(useful, key=lambda grid: (grid[0][0].at, grid[1][0].at))


def fill_grid(
    across: Sequence[Rule], down: Sequence[Rule], words: Iterable[tuple[Box, str]]
) -> tuple[list[list[str]], Box]:
    """The texts of the cells, without empty rows and columns, and the place of the whole grid."""
    ys, xs = _places(across), _places(down)
    box = Box(xs[0], ys[0], xs[-1], ys[-1])
    anchor = _anchors(across, down, ys, xs)
    held: dict[tuple[int, int], list[tuple[Box, str]]] = {}
    for place, text in words:
        x, y = (place.x0 + place.x1) / 2, (place.y0 + place.y1) / 2
        if text and box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1:
            row = max(at for at in range(len(ys) - 1) if ys[at] <= y)
            column = max(at for at in range(len(xs) - 1) if xs[at] <= x)
            held.setdefault(anchor[row, column], []).append((place, text))
    rows = sorted({row for row, _ in held})
    columns = sorted({column for _, column in held})
    return [[_cell_text(held.get((row, column), [])) for column in columns] for row in rows], box


def _anchors(
    across: Sequence[Rule], down: Sequence[Rule], ys: Sequence[float], xs: Sequence[float]
) -> dict[tuple[int, int], tuple[int, int]]:
    """For each square of the grid the upper left one of the cell that it is part of: no rule runs between the two."""
    anchor: dict[tuple[int, int], tuple[int, int]] = {}
    for row, (top, bottom) in enumerate(pairwise(ys)):
        y = (top + bottom) / 2
        for column, (left, right) in enumerate(pairwise(xs)):
            x = (left + right) / 2
            if column and not any(abs(rule.at - left) <= _SNAP and rule.start <= y <= rule.end for rule in down):
                anchor[row, column] = anchor[row, column - 1]
            elif row and not any(abs(rule.at - top) <= _SNAP and rule.start <= x <= rule.end for rule in across):
                anchor[row, column] = anchor[row - 1, column]
            else:
                anchor[row, column] = (row, column)
    return anchor


def _cell_text(words: list[tuple[Box, str]]) -> str:
    """The words line by line; a word is on the line of the one before it while their middles are close."""
    words.sort(key=lambda word: word[0].y0 + word[0].y1)
    lines: list[list[tuple[Box, str]]] = []
    for word in words:
        box = word[0]
        last = lines[-1][0][0] if lines else None
        if last and abs((box.y0 + box.y1) - (last.y0 + last.y1)) < last.y1 - last.y0:
            lines[-1].append(word)
        else:
            lines.append([word])
    return " ".join(text for line in lines for _, text in sorted(line, key=lambda word: word[0].x0))


def _joined(rules: list[Rule]) -> list[Rule]:
    """The rules with those made one that lie on the same line and touch: tables are often drawn cell by cell."""
    joined: list[Rule] = []
    for bundle in _bundles(rules):
        at = sum(rule.at for rule in bundle) / len(bundle)
        start = end = None
        for rule in sorted(bundle, key=lambda rule: rule.start):
            if end is not None and start is not None and rule.start <= end + _SNAP:
                end = max(end, rule.end)
                continue
            if end is not None and start is not None:
                joined.append(Rule(at, start, end))
            start, end = rule.start, rule.end
        if end is not None and start is not None:
            joined.append(Rule(at, start, end))
    return joined


def _bundles(rules: Sequence[Rule]) -> list[list[Rule]]:
    """The rules in groups of nearly the same `at`, in its order."""
    bundles: list[list[Rule]] = []
    for rule in sorted(rules, key=lambda rule: (rule.at, rule.start, rule.end)):
        if bundles and rule.at - bundles[-1][0].at <= _SNAP:
            bundles[-1].append(rule)
        else:
            bundles.append([rule])
    return bundles


def _places(rules: Sequence[Rule]) -> list[float]:
    return [bundle[0].at for bundle in _bundles(rules)]
