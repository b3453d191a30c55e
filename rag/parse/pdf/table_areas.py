"""Where the tables of a page lie that no grid marks off: between rules across it, or by rows of cells alone."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from rag.data import Box
from rag.parse.pdf.rulings import Rule, Rulings
from rag.parse.pdf.table_columns import phrases
from rag.parse.pdf.word_lines import (
    Spacing,
    Word,
    WordLine,
    is_numeric,
    is_value,
    lines_of,
    spacing_of,
    words_between,
    words_in,
)

_BRIDGED = 15.0  # points: pieces of a rule as close as this are one rule across a table
_MIN_RULE_SHARE = 0.15  # of the page's width
_SAME_ENDS = 0.05  # share of a rule's length by which its ends may differ from those of others of the same table
_MAX_HEADER_LINES = 6
_FAR = 2.2  # em between two lines of one table without rules,
_VERY_FAR = 4.0  # or this where the rows below stand in the same columns
_MARGIN = 0.1  # share of the page's height, above and below, where a line by itself is a header or footer
_ROW_GAP = 1.2  # em: rows farther apart than this have to stand in the same columns
_LARGER = 1.2  # times the usual size: a heading
_CELL_GAP = 1.0  # em between two cells of a line without rules
_MANY = 10  # words that the name of a row may have
_INTO = 0.3  # share of an area's width that a sentence must run into
_MIN_NAMED = 0.5  # share of an area's lines with a name to the left of its rules
_DATE = re.compile(r"(?:19|20)\d\d|\d{1,2},")
_BULLET = re.compile(r"[•●▪◦‣·○■□➢❖–-]")
LONG = 40  # characters: a text of prose, not a cell's
CAPTION = re.compile(
    r"(?:table|figure|fig\.|exhibit|chart|box|tabelle|abbildung|tableau|tabla|cuadro|gráfico|tabella|figura|tabela"
    r"|таблица|рисунок|source|sources|note|notes|quelle|fuente|fonte|nota)\b\s*(?:[\dA-Z]{1,3}[.\d-]*\b|:)",
    re.IGNORECASE,
)


def rule_groups(across: Sequence[Rule], frame: Box) -> list[list[Rule]]:
    """Rules of the same extent, one below the other; pieces with small gaps between them count as one rule."""
    wide: list[Rule] = []
    for rule in sorted(across, key=lambda rule: (round(rule.at), rule.start)):
        last = wide[-1] if wide else None
        if last and abs(last.at - rule.at) <= 2.5 and rule.start - last.end <= _BRIDGED:
            wide[-1] = Rule(last.at, min(last.start, rule.start), max(last.end, rule.end))
        else:
            wide.append(rule)
    groups: list[list[Rule]] = []
    for rule in wide:
        length = rule.end - rule.start
        if length < _MIN_RULE_SHARE * (frame.x1 - frame.x0):
            continue
        slack = max(6.0, _SAME_ENDS * length)
        for group in groups:
            if abs(group[0].start - rule.start) <= slack and abs(group[0].end - rule.end) <= slack:
                group.append(rule)
                break
        else:
            groups.append([rule])
    return [group for group in groups if len(group) > 1]


def ruled_areas(group: Sequence[Rule], words: Sequence[Word]) -> list[Box]:
    """The areas between rules of one extent in which most lines have several phrases."""
    left, right = min(rule.start for rule in group) - 2, max(rule.end for rule in group) + 2
    bands = [
        lines_of(
            word
            for word in words_between(words, upper.at, lower.at)
            if upper.at < (word.y0 + word.y1) / 2 < lower.at and left < (word.x0 + word.x1) / 2 < right
        )
        for upper, lower in pairwise(group)
    ]
    tabular = [
        _is_tabular_band(band) and not _holds_sentence(upper.at, lower.at, left, right, words)
        for band, (upper, lower) in zip(bands, pairwise(group), strict=True)
    ]
    for at, band in enumerate(bands[:-1]):
        tabular[at] = tabular[at] or (tabular[at + 1] and _is_header_band(band))
    areas: list[Box] = []
    start: int | None = None
    for at in range(len(bands) + 1):
        if at < len(bands) and tabular[at]:
            start = at if start is None else start
        elif start is not None:
            areas.append(Box(left, group[start].at, right, group[at].at))
            start = None
    return areas


def with_header_above(area: Box, words: Sequence[Word], rules: Rulings) -> Box:
    """The area with the names of its columns where they stand above its first rule."""
    inside = lines_of(words_in(words, area))
    spacing = spacing_of(inside)
    first = phrases(inside[0], spacing) if inside else []
    if not inside or (len(first) > 1 and sum(is_numeric(run[-1].text) for run in first) < 2):
        return area
    above = [w for w in words if area.x0 < (w.x0 + w.x1) / 2 < area.x1 and w.y1 <= area.y0 + 0.3 * spacing.em]
    top = area.y0
    for line in lines_of(above)[: -_MAX_HEADER_LINES - 1 : -1]:
        partial = any(
            line.y1 - 0.5 * spacing.em <= rule.at <= top and rule.start < line.x1 and rule.end > line.x0
            for rule in rules.across
            if rule.end - rule.start < 0.9 * (area.x1 - area.x0)
        )
        named = len(phrases(line, spacing)) > 1 and not CAPTION.match(line.text)
        if top - line.y1 > 1.2 * spacing.em or not (named or partial):
            break
        top = line.y0 - 1
    return replace(area, y0=top)


def with_rows_below(area: Box, words: Sequence[Word]) -> Box:
    """The area with the rows that go on below its last rule in the same columns."""
    lines = lines_of(words_in(words, area))
    if not lines:
        return area
    spacing = spacing_of(lines)
    rows = [phrases(line, spacing) for line in lines]
    bottom, end, between = lines[-1].y1, area.y1, 0
    for line in lines_of(w for w in words if area.x0 < (w.x0 + w.x1) / 2 < area.x1 and w.y0 >= area.y1 - 1):
        parts = phrases(line, spacing)
        if line.y0 - bottom > _VERY_FAR * spacing.em or CAPTION.match(line.text) or between > 2:
            break
        if len(parts) > 1:
            if not _is_aligned(parts, rows) or not is_value(" ".join(word.text for word in parts[-1])):
                break
            end, between = line.y1 + 1, 0
        else:
            between += 1
        bottom = line.y1
    return replace(area, y1=end)


def with_row_names(area: Box, words: Sequence[Word]) -> Box:
    """The area with the names of its rows to the left of its rules, and with more of their numbers to the right."""
    lines = lines_of(words_in(words, area))
    em = spacing_of(lines).em
    level = [word for word in words_between(words, area.y0, area.y1) if area.y0 < (word.y0 + word.y1) / 2 < area.y1]
    names = lines_of(word for word in level if word.x1 <= area.x0 + em)
    more = lines_of(word for word in level if word.x0 >= area.x1 - em)
    rows = [(line.y0 + line.y1) / 2 for line in lines if any(map(_is_amount, line.words))]

    def go_on(beside: Sequence[WordLine]) -> bool:
        middles = [(line.y0 + line.y1) / 2 for line in beside if len(line.words) <= _MANY]
        return sum(any(abs(row - y) < 0.4 * em for y in middles) for row in rows) > _MIN_NAMED * len(rows)

    if rows and go_on(names):
        area = replace(area, x0=min(line.x0 for line in names) - 1)
    spacing = spacing_of(lines)
    cut = [run[0].x0 for line in lines_of(level) for run in phrases(line, spacing) if run[0].x0 < area.x0 < run[-1].x0]
    if cut:
        area = replace(area, x0=min(cut) - 1)
    if rows and go_on([line for line in more if is_value(line.text)]):
        area = replace(area, x1=max(line.x1 for line in more) + 1)
    return area


def row_runs(lines: Sequence[WordLine], spacing: Spacing, frame: Box) -> list[tuple[int, int]]:
    """The spans [start, end) of lines of several cells, close below one another, with what stands between them.

    A line with one text goes on with a cell where it begins below one; few others may stand between two rows.
    """
    runs: list[tuple[int, int]] = []
    start = end = -1
    lefts: list[float] = []  # where the texts of the run's rows begin
    loose = False  # a wide gap lies behind the last row: what follows has to stand in its columns
    margin = _MARGIN * (frame.y1 - frame.y0)
    for at, line in enumerate(lines):
        gap = line.y0 - lines[at - 1].y1 if at else 0.0
        parts = phrases(line, spacing)
        several = _has_cells(parts, spacing)
        bullet = len(parts) == 2 and _BULLET.fullmatch(line.words[0].text) is not None
        below = lines[at + 1].y0 - line.y1 if at + 1 < len(lines) else 0.0
        alone = _ROW_GAP * spacing.em
        aside = (line.y0 > frame.y1 - margin and gap > alone) or (line.y1 < frame.y0 + margin and below > alone)
        aside = aside or (_is_sentence(line, parts) and (start < 0 or line.x0 <= min(lefts) + 2.0))
        aside = aside or bullet or _is_heading(line, parts, spacing) or CAPTION.match(line.text) is not None
        loose = loose or gap > _FAR * spacing.em
        if several and start >= 0 and (loose or gap > _ROW_GAP * spacing.em):
            aligned = _is_aligned(parts, [phrases(other, spacing) for other in lines[start:end]])
            aside = aside or (not aligned and not loose)
            loose = loose and not (aligned and any(is_value(run[-1].text) for run in parts))
            if loose:
                runs.append((start, end))
                start = end = -1
        if start >= 0 and (gap > _VERY_FAR * spacing.em or aside or at - end >= 3):
            runs.append((start, end))
            start = end = -1
        if start < 0 or several:
            loose = False
        if several and not aside:
            lefts = [] if start < 0 else lefts
            start, end = (at if start < 0 else start), at + 1
            lefts += [run[0].x0 for run in parts]
        elif (
            start >= 0
            and end == at
            and gap < 0.9 * spacing.em
            and line.x0 > min(lefts) + 2.0
            and any(abs(line.x0 - x) <= 2.0 for x in lefts)
        ):
            end = at + 1
    if start >= 0:
        runs.append((start, end))
    return runs


def _is_aligned(parts: Sequence[tuple[Word, ...]], rows: Sequence[Sequence[tuple[Word, ...]]]) -> bool:
    """Whether half of the phrases or more begin, end or have their middles where some in the rows above do."""
    places: tuple[set[int], set[int], set[int]] = (set(), set(), set())
    for row in rows:
        for run in row:
            for place, x in zip(places, _sides(run), strict=True):
                place.update((round(x / 3) - 1, round(x / 3), round(x / 3) + 1))
    aligned = sum(any(round(x / 3) in place for place, x in zip(places, _sides(run), strict=True)) for run in parts)
    return 2 * aligned >= len(parts)


def _sides(run: Sequence[Word]) -> tuple[float, float, float]:
    return run[0].x0, run[-1].x1, (run[0].x0 + run[-1].x1) / 2


def _is_sentence(line: WordLine, parts: Sequence[tuple[Word, ...]]) -> bool:
    return len(parts) == 1 and len(line.words) >= _MANY and len(line.text) >= LONG


def _is_heading(line: WordLine, parts: Sequence[tuple[Word, ...]], spacing: Spacing) -> bool:
    return len(parts) == 1 and line.y1 - line.y0 > _LARGER * spacing.em / 0.8


def _has_cells(parts: Sequence[tuple[Word, ...]], spacing: Spacing) -> bool:
    """Whether there are gaps between the phrases that justified prose has not."""
    return any(
        right[0].x0 - left[-1].x1 > (spacing.phrase_gap if is_numeric(right[0].text) else _CELL_GAP * spacing.em)
        for left, right in pairwise(parts)
    )


def _is_amount(word: Word) -> bool:
    return is_numeric(word.text) and not _DATE.fullmatch(word.text)


def _is_header_band(band: Sequence[WordLine]) -> bool:
    """Whether a band above a tabular one may hold the names of its columns."""
    spacing = spacing_of(band)
    return (
        len(band) <= _MAX_HEADER_LINES
        and not any(CAPTION.match(line.text) for line in band)
        and any(len(phrases(line, spacing)) > 1 for line in band)
    )


def _holds_sentence(top: float, bottom: float, left: float, right: float, words: Sequence[Word]) -> bool:
    """Whether a line of prose runs into the area, from outside it too."""
    lines = lines_of(w for w in words_between(words, top, bottom) if top < (w.y0 + w.y1) / 2 < bottom)
    spacing = spacing_of(lines)
    return any(
        len(run) >= _MANY and min(run[-1].x1, right) - max(run[0].x0, left) > _INTO * (right - left)
        for line in lines
        for run in phrases(line, spacing)
    )


def _is_tabular_band(band: Sequence[WordLine]) -> bool:
    spacing = spacing_of(band)
    if not band:
        return True
    left = min(line.x0 for line in band)
    rows = False
    for line in band:
        parts = phrases(line, spacing)
        if rows and _is_heading(line, parts, spacing) and line.x0 <= left + 2 * spacing.em:
            return False
        if _is_sentence(line, parts):
            return False
        rows = rows or len(parts) > 1
    several = sum(len(phrases(line, spacing)) > 1 for line in band)
    return len(band) <= 1 or 2 * several >= len(band)
