"""Tables of a PDF page that rules are drawn around. PyMuPDF's `find_tables` took 50 to 3,000 ms a page here."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, NamedTuple

import pymupdf

from rag.data import Box
from rag.parse.pdf.text_layer import PageText, turn
from rag.parse.pdf.word_lines import Word, WordLine, is_numeric, join_text, lines_of, runs_of, spacing_of
from rag.parse.table import Table, TableCell, compact

_THIN = 2.5  # points: a filled rectangle as thin as this is a rule
_MIN_RULE = 6.0  # points
_SNAP = 2.5  # points: rules as close as this are one rule, and touch one another
_MIN_DRAWINGS = 2
_MAX_DRAWINGS = 5_000  # a page with more is a picture
_NARROW = 8.0  # points: a strip of a grid as narrow as this holds no text
_MANY_EDGES = 6  # in a grid of fewer, short ones say nothing
_MIN_EDGE = 0.25  # share of the grid's height
_MIN_FILLED = 0.4  # share of a grid's rows
_MAX_HEADER_ROWS = 6
_MAX_PAIRS = 400_000  # of a rule across and a rule down, likewise


class Rule(NamedTuple):
    """A straight line across (`at` is its y) or down (`at` is its x) the page. Rules sort by their place."""

    at: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Rulings:
    """The rules of a page across and down, in the reading frame."""

    across: tuple[Rule, ...] = ()
    down: tuple[Rule, ...] = ()

    def within(self, box: Box) -> "Rulings":
        """The rules that reach into the box."""
        return Rulings(
            tuple(
                r
                for r in self.across
                if box.y0 - _SNAP <= r.at <= box.y1 + _SNAP and r.start < box.x1 and r.end > box.x0
            ),
            tuple(
                r for r in self.down if box.x0 - _SNAP <= r.at <= box.x1 + _SNAP and r.start < box.y1 and r.end > box.y0
            ),
        )

    def outside(self, boxes: Sequence[Box]) -> "Rulings":
        """The rules that reach into none of the boxes, nor lie on their sides."""
        inside = [self.within(box) for box in boxes]
        across = {id(rule) for part in inside for rule in part.across}
        down = {id(rule) for part in inside for rule in part.down}
        return Rulings(
            tuple(rule for rule in self.across if id(rule) not in across),
            tuple(rule for rule in self.down if id(rule) not in down),
        )


def may_hold_grid(text: PageText) -> bool:
    """Whether rules may run across and down the page, judged by its paths' boxes, which are never smaller than they."""
    boxes = [vector.box for vector in text.vectors]
    return any(box.x1 - box.x0 > _MIN_RULE for box in boxes) and any(box.y1 - box.y0 > _MIN_RULE for box in boxes)


def page_rulings(page: pymupdf.Page, text: PageText) -> tuple[Rulings, Rulings]:
    """The rules that are drawn, and these with the edges of coloured grounds; none where the page is a drawing."""
    if len(text.vectors) < _MIN_DRAWINGS or len(text.vectors) > _MAX_DRAWINGS:
        return Rulings(), Rulings()
    # The vectors themselves do not do: MuPDF widens the box of a stroked path by ten times the stroke's width.
    rules, grounds = _find_rulings(page.get_cdrawings(), text.to_reading)
    if len(rules.across) * len(rules.down) > _MAX_PAIRS:
        return Rulings(), Rulings()
    return rules, grounds if len(grounds.across) * len(grounds.down) <= _MAX_PAIRS else Rulings()


def _find_rulings(drawings: Iterable[dict[str, Any]], to_reading: pymupdf.Matrix) -> tuple[Rulings, Rulings]:
    """Lines, outlines of rectangles, and filled rectangles too thin for anything else; and these with the edges of
    coloured grounds."""
    is_turned = to_reading != pymupdf.Identity
    across: list[Rule] = []
    down: list[Rule] = []
    ground_across: list[Rule] = []
    ground_down: list[Rule] = []
    for drawing in drawings:
        outlined = "s" in drawing["type"]
        coloured = _is_coloured(drawing.get("fill"))
        for item in drawing["items"]:
            if item[0] == "l":
                (xa, ya), (xb, yb) = item[1], item[2]
                x0, x1, y0, y1 = min(xa, xb), max(xa, xb), min(ya, yb), max(ya, yb)
            elif item[0] == "re":
                x0, y0, x1, y1 = item[1]
            else:
                continue
            if x1 - x0 <= _MIN_RULE and y1 - y0 <= _MIN_RULE:  # most paths of a drawing
                continue
            if is_turned:
                box = turn(Box(x0, y0, x1, y1), to_reading)
                x0, y0, x1, y1 = box.x0, box.y0, box.x1, box.y1
            width, height = x1 - x0, y1 - y0
            if height <= _THIN and width > _MIN_RULE:
                across.append(Rule((y0 + y1) / 2, x0, x1))
            elif width <= _THIN and height > _MIN_RULE:
                down.append(Rule((x0 + x1) / 2, y0, y1))
            elif item[0] == "re" and width > _MIN_RULE and height > _MIN_RULE:
                if outlined:
                    across += [Rule(y0, x0, x1), Rule(y1, x0, x1)]
                    down += [Rule(x0, y0, y1), Rule(x1, y0, y1)]
                elif coloured:
                    ground_across += [Rule(y0, x0, x1), Rule(y1, x0, x1)]
                    ground_down += [Rule(x0, y0, y1), Rule(x1, y0, y1)]
    rules = Rulings(tuple(_joined(across)), tuple(_joined(down)))
    if not ground_across:
        return rules, Rulings()
    return rules, Rulings(tuple(_joined([*across, *ground_across])), tuple(_joined([*down, *ground_down])))


def _is_coloured(fill: tuple[float, ...] | None) -> bool:
    """Whether a filled area can be told from white paper: cells are often told apart by their ground alone."""
    return fill is not None and min(fill) < 0.98


def without_underlines(rules: Rulings, words: Sequence[Word]) -> Rulings:
    """The rules without those that underline words: as long as the words, and closer below than a table's rules."""
    ends: dict[int, list[Word]] = {}
    for word in words:
        ends.setdefault(round(word.y1 / 4), []).append(word)

    def underlines(rule: Rule) -> bool:
        near = [word for place in range(round(rule.at / 4) - 1, round(rule.at / 4) + 3) for word in ends.get(place, ())]
        above = [
            word
            for word in near
            if word.y0 + 0.6 * (word.y1 - word.y0) < rule.at < word.y1 + 0.5
            and rule.start - 2 <= word.x0
            and word.x1 <= rule.end + 2
        ]
        if not above:
            return False
        left, right = min(word.x0 for word in above), max(word.x1 for word in above)
        return abs(left - rule.start) <= 2 and abs(right - rule.end) <= 2

    return Rulings(tuple(rule for rule in rules.across if not underlines(rule)), rules.down)


def connected_grids(rulings: Rulings) -> list[Rulings]:
    """The rules in groups that hang together by touching, from the top; only groups that can part rows and columns."""
    across, down = rulings.across, rulings.down
    group = list(range(len(across) + len(down)))

    def root(at: int) -> int:
        while group[at] != at:
            group[at] = group[group[at]]
            at = group[at]
        return at

    from_left = sorted((other.at, j) for j, other in enumerate(down))
    for i, line in enumerate(across):
        begin = bisect_left(from_left, (line.start - _SNAP,))
        for at, j in islice(from_left, begin, None):
            if at > line.end + _SNAP:
                break
            if down[j].start - _SNAP <= line.at <= down[j].end + _SNAP:
                group[root(len(across) + j)] = root(i)
    grids: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for i, line in enumerate(across):
        grids.setdefault(root(i), ([], []))[0].append(line)
    for j, other in enumerate(down, start=len(across)):
        grids.setdefault(root(j), ([], []))[1].append(other)
    closed = [_closed(grid_across, grid_down) for grid_across, grid_down in grids.values() if grid_across and grid_down]
    useful = [grid for grid in closed if len(_bundles(grid.across)) >= 3 and len(_bundles(grid.down)) >= 2]
    return sorted(useful, key=lambda grid: (grid.across[0].at, grid.down[0].at))


def _closed(across: Sequence[Rule], down: Sequence[Rule]) -> Rulings:
    """The grid with the sides that it lacks: rules that end in the open mark off a row or column there.

    The rules between rows go on to an open side, where the names of the rows stand.
    """
    left, right = min(rule.start for rule in across), max(rule.end for rule in across)
    top, bottom = min(rule.start for rule in down), max(rule.end for rule in down)
    ats, places = [rule.at for rule in across], [rule.at for rule in down]
    left, right = min(left, *places), max(right, *places)
    top, bottom = min(top, *ats), max(bottom, *ats)
    closed_across, closed_down = list(across), list(down)
    if min(places) - left > _NARROW:
        closed_down.append(Rule(left, top, bottom))
        closed_across += [Rule(rule.at, left, rule.end) for rule in across if rule.start <= min(places) + _SNAP]
    if right - max(places) > _NARROW:
        closed_down.append(Rule(right, top, bottom))
        closed_across += [Rule(rule.at, rule.start, right) for rule in across if rule.end >= max(places) - _SNAP]
    if min(ats) - top > _NARROW:
        closed_across.append(Rule(top, left, right))
    if bottom - max(ats) > _NARROW:
        closed_across.append(Rule(bottom, left, right))
    return Rulings(tuple(_joined(closed_across)), tuple(_joined(closed_down)))


def grid_box(grid: Rulings) -> Box:
    """The place of the whole grid."""
    return Box(grid.down[0].at, grid.across[0].at, grid.down[-1].at, grid.across[-1].at)


def is_regular(grid: Rulings) -> bool:
    """Whether the edges between columns run down a good part of the grid, or begin together, as in a header.

    The sides of a chart's bars do neither.
    """
    box = grid_box(grid)
    bundles = _bundles(grid.down)
    short = [b for b in bundles if sum(rule.end - rule.start for rule in b) < _MIN_EDGE * (box.y1 - box.y0)]
    if len(short) < max(_MANY_EDGES, len(bundles) / 2):
        return True
    starts = {round(rule.start / 4) for bundle in short for rule in bundle[:1]}
    return len(starts) < len(short) / 2


def grid_table(grid: Rulings, words: Sequence[Word]) -> Table | None:
    """The table that the rules part the words into, without empty rows and columns.

    None where that is less than 2 rows or 2 columns, or where rows stand below one another without a rule between.
    """
    middles = [((word.x0 + word.x1) / 2, (word.y0 + word.y1) / 2) for word in words]
    ys = _edges(grid.across, [y for _, y in middles])
    xs = _edges(grid.down, [x for x, _ in middles])
    in_square: dict[tuple[int, int], list[Word]] = {}
    for word, (x, y) in zip(words, middles, strict=True):
        if xs[0][0] <= x <= xs[-1][1] and ys[0][0] <= y <= ys[-1][1]:
            row = max((at for at in range(len(ys) - 1) if ys[at][0] <= y), default=0)
            column = max((at for at in range(len(xs) - 1) if xs[at][0] <= x), default=0)
            in_square.setdefault((row, column), []).append(word)
    anchor = _with_numbers_apart(_anchors(grid, ys, xs), in_square)
    held: dict[tuple[int, int], list[Word]] = {}
    for square, inside in in_square.items():
        held.setdefault(anchor[square], []).extend(inside)
    texts = {place: lines_of(inside) for place, inside in held.items()}
    if _has_unruled_rows(texts) or _has_unruled_columns(texts, anchor, xs):
        return None
    cells = [
        TableCell(
            row,
            column,
            join_text([line.text for line in texts.get((row, column), ())]),
            1 + max(at for at, _ in inside) - row,
            1 + max(at for _, at in inside) - column,
        )
        for (row, column), inside in sorted(_squares_of(anchor).items())
    ]
    table = compact(Table(len(ys) - 1, len(xs) - 1, tuple(cells)))
    if table.num_rows < 2 or table.num_columns < 2 or not _is_filled(table):
        return None
    return with_header(table)


def _is_filled(table: Table) -> bool:
    """Whether most rows hold two texts or more; the grid of a chart has few."""
    rows: dict[int, int] = {}
    for cell in table.cells:
        if cell.text:
            for row in range(cell.row, cell.row + cell.row_span):
                rows[row] = rows.get(row, 0) + 1
    return sum(count > 1 for count in rows.values()) >= _MIN_FILLED * table.num_rows


def with_header(table: Table) -> Table:
    """The table with the rows that its first row's cells reach down to as its header, title rows included.

    A form has none: its first column names what stands beside it.
    """
    names = [cell.text for cell in table.cells if cell.column == 0 and cell.text]
    if names and all(name.endswith(":") for name in names):
        return table
    num_rows = 0
    while num_rows < table.num_rows - 1:
        row = [cell for cell in table.cells if cell.row == num_rows]
        num_rows = max((cell.row + cell.row_span for cell in row), default=num_rows + 1)
        if sum(bool(cell.text) for cell in row) > 1 and not any(
            cell.column_span > 1 and cell.row_span == 1 for cell in row if cell.column + cell.column_span > 1
        ):
            break
    if num_rows >= min(table.num_rows, _MAX_HEADER_ROWS):
        num_rows = 1
    return Table(
        table.num_rows,
        table.num_columns,
        tuple(replace(cell, is_header=True) if cell.row < num_rows else cell for cell in table.cells),
    )


def _has_unruled_rows(texts: dict[tuple[int, int], list[WordLine]]) -> bool:
    """Whether two cells beside one another hold numbers on three or more lines each."""
    columns: dict[int, list[int]] = {}
    for (row, column), lines in texts.items():
        if len(lines) >= 3 and sum(is_numeric(line.words[-1].text) for line in lines) >= 0.6 * len(lines):
            columns.setdefault(row, []).append(column)
    return any(len(found) >= 2 for found in columns.values())


def _edges(rules: Sequence[Rule], middles: Sequence[float]) -> list[tuple[float, float]]:
    """The edges between rows or columns, each with its thickness: a strip too narrow for words is part of an edge."""
    edges: list[tuple[float, float]] = []
    for bundle in _bundles(rules):
        low, high = bundle[0].at, bundle[-1].at
        if edges and low - edges[-1][1] < _NARROW and not any(edges[-1][1] < at < low for at in middles):
            edges[-1] = (edges[-1][0], high)
        else:
            edges.append((low, high))
    return edges


def _anchors(
    grid: Rulings, ys: Sequence[tuple[float, float]], xs: Sequence[tuple[float, float]]
) -> dict[tuple[int, int], tuple[int, int]]:
    """For each square of the grid the upper left one of the cell that it is part of: no rule runs between the two."""
    anchor: dict[tuple[int, int], tuple[int, int]] = {}
    for row, (above, below) in enumerate(pairwise(ys)):
        y = (above[1] + below[0]) / 2
        for column, (before, after) in enumerate(pairwise(xs)):
            x = (before[1] + after[0]) / 2
            if column and not _is_ruled(grid.down, before, y):
                anchor[row, column] = anchor[row, column - 1]
            elif row and not _is_ruled(grid.across, above, x):
                anchor[row, column] = anchor[row - 1, column]
            else:
                anchor[row, column] = (row, column)
    return anchor


def _squares_of(anchor: Mapping[tuple[int, int], tuple[int, int]]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The squares of the grid that each cell is made of, by the cell's place."""
    squares: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for square, place in anchor.items():
        squares.setdefault(place, []).append(square)
    return squares


def _with_numbers_apart(
    anchor: dict[tuple[int, int], tuple[int, int]], in_square: Mapping[tuple[int, int], list[Word]]
) -> dict[tuple[int, int], tuple[int, int]]:
    """The anchors with squares set apart that hold a number each, and beside them those that hold a text each.

    Where cells are shaded by their values, there is no edge between two of the same shade, and a number does not go on
    in the next line.
    """
    squares = _squares_of(anchor)
    filled = {place: [square for square in inside if square in in_square] for place, inside in squares.items()}
    apart = {
        place
        for place, found in filled.items()
        if len(found) > 1
        and all(len(in_square[square]) == 1 and is_numeric(in_square[square][0].text) for square in found)
    }
    parted = [{row for row, _ in filled[place]} for place in apart]
    rows = {row for group in parted if len(group) > 1 for row in group}
    apart |= {
        place
        for place, inside in squares.items()
        if len(filled[place]) == len(inside) and len({row for row, _ in inside} & rows) > 1
    }
    return {square: square if place in apart else place for square, place in anchor.items()}


def _is_ruled(rules: Sequence[Rule], edge: tuple[float, float], at: float) -> bool:
    return any(
        edge[0] - _SNAP <= rule.at <= edge[1] + _SNAP and rule.start - _SNAP <= at <= rule.end + _SNAP for rule in rules
    )


def _has_unruled_columns(
    texts: dict[tuple[int, int], list[WordLine]],
    anchor: dict[tuple[int, int], tuple[int, int]],
    xs: Sequence[tuple[float, float]],
) -> bool:
    """Whether rows hold texts that the columns of other rows part, though no rule does so where they stand."""
    last: dict[tuple[int, int], int] = {}
    for (_, column), place in anchor.items():
        last[place] = max(last.get(place, column), column)
    parted = 0
    for (row, column), lines in texts.items():
        inner = [(low + high) / 2 for low, high in xs[column + 1 : last[row, column] + 1]]
        runs = [run for line in lines for run in runs_of(line.words, spacing_of(lines).phrase_gap)]
        if len(inner) >= 1 and len(runs) > len(lines):
            crossed = sum(run[0].x0 < x < run[-1].x1 for run in runs for x in inner)
            parted += crossed == 0
    return parted >= 2


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
    for rule in sorted(rules):
        if bundles and rule.at - bundles[-1][0].at <= _SNAP:
            bundles[-1].append(rule)
        else:
            bundles.append([rule])
    return bundles
