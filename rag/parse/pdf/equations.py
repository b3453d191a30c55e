"""Displayed formulas of a PDF page -> LaTeX, from where their letters stand: scripts, fractions, limits."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pymupdf

from rag.data import Box
from rag.parse.pdf.text_layer import Line, PageText, Vector, enclosing, normalize

_MIN_MATH = 0.5  # share of a line's letters that are set as mathematics
_REACH_ACROSS = 2.5  # font sizes between two parts of one formula on one line
_REACH_DOWN = 0.55  # font sizes between the parts of a fraction, or an operator and its limits
_SCRIPT = 0.88  # of the size of what it stands at
_RAISED, _LOWERED = 0.18, 0.08  # of the font size, from the baseline
_BAR = 1.5  # points: a rule as thin as this is the bar of a fraction
_MAX_LINES = 60  # of a formula
_RELATION = re.compile(r"[=<>≤≥≈≡∼≃≅∈⊂⊆→↦∝≠]|:=")
_WORD = re.compile(r"[^\W\d_]{4,}")
_MARKER = re.compile(r"(?:\d{1,4}|[a-zA-Z])[.)]|[•●▪–-]")  # of a list, unless it is "(3)", a formula's number
_TAG = re.compile(r"\(([A-Z]?\d{1,3}(?:\.\d{1,3})?[a-z]?)\)")
_OPERATORS = frozenset("∑∏∐⋃⋂⋁⋀⨁⨂∫∮∬∭")
_INTEGRALS = frozenset("∫∮∬∭")
_FUNCTION = re.compile(
    r"(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|log|ln|lg|exp|min|max|sup|inf|lim|det|dim|ker|gcd|arg|deg|Pr|mod"
)
_NAMES = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "ϵ": "epsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "ϑ": "vartheta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "µ": "mu", "ν": "nu", "ξ": "xi",
    "π": "pi", "ρ": "rho", "σ": "sigma", "ς": "varsigma", "τ": "tau", "υ": "upsilon", "φ": "varphi", "ϕ": "phi",
    "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi",
    "Σ": "Sigma", "Υ": "Upsilon", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega", "∆": "Delta",
    "∑": "sum", "∏": "prod", "∐": "coprod", "∫": "int", "∮": "oint", "∬": "iint", "∭": "iiint", "⋃": "bigcup",
    "⋂": "bigcap", "⋁": "bigvee", "⋀": "bigwedge", "⨁": "bigoplus", "⨂": "bigotimes",
    "∂": "partial", "∇": "nabla", "∞": "infty", "√": "surd", "ℏ": "hbar", "ℓ": "ell", "∅": "emptyset", "∀": "forall",
    "∃": "exists", "¬": "neg", "×": "times", "÷": "div", "±": "pm", "∓": "mp", "·": "cdot", "⋅": "cdot", "∗": "ast",
    "∘": "circ", "◦": "circ", "⊕": "oplus", "⊗": "otimes", "∧": "wedge", "∨": "vee", "∩": "cap", "∪": "cup",
    "≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx", "≡": "equiv", "∼": "sim", "≃": "simeq", "≅": "cong",
    "∝": "propto", "≪": "ll", "≫": "gg", "∈": "in", "∉": "notin", "∋": "ni", "⊂": "subset", "⊆": "subseteq",
    "⊃": "supset", "⊇": "supseteq", "→": "to", "←": "leftarrow", "↔": "leftrightarrow", "⇒": "Rightarrow",
    "⇔": "Leftrightarrow", "↦": "mapsto", "⟨": "langle", "⟩": "rangle", "∥": "|", "∣": "mid", "⊥": "perp", "…": "ldots",
    "⋯": "cdots", "⋮": "vdots", "⊙": "odot", "†": "dagger", "⌊": "lfloor", "⌋": "rfloor", "⌈": "lceil", "⌉": "rceil",
}  # fmt: skip
_EXTENSION = re.compile(r"CMEX")
# The brackets and operators of TeX's extension font, whose codes mean nothing in Unicode.
_CMEX = {
    code: sign
    for sign, codes in {
        "(": (0x00, 0x10, 0x12, 0x20), ")": (0x01, 0x11, 0x13, 0x21), "[": (0x02, 0x14, 0x22, 0x68),
        "]": (0x03, 0x15, 0x23, 0x69), "{": (0x08, 0x1A, 0x28, 0x6E), "}": (0x09, 0x1B, 0x29, 0x6F),
        "∑": (0x50, 0x58), "∏": (0x51, 0x59), "∫": (0x52, 0x5A), "⋃": (0x53, 0x5B), "⋂": (0x54, 0x5C),
    }.items()
    for code in codes
}  # fmt: skip
_SIGNS = {
    "−": "-",
    "′": "'",
    "″": "''",
    "{": "\\{",
    "}": "\\}",
    "%": "\\%",
    "#": "\\#",
    "&": "\\&",
    "$": "\\$",
    "∶": ":",
}


@dataclass(frozen=True, slots=True)
class _Glyph:
    """One letter or sign, or a formula that was put together already and stands like one."""

    latex: str
    x0: float
    x1: float
    y0: float
    y1: float
    baseline: float
    size: float
    sign: str = ""  # the character, where it is one
    is_stretched: bool = False  # a bracket that grew: its baseline says nothing


def with_equations(page: pymupdf.Page, text: PageText) -> PageText:
    """The page with each displayed formula as one line in LaTeX between $$."""
    if text.to_reading != pymupdf.Identity or not any(line.math >= _MIN_MATH for line in text.lines):
        return text
    groups = _formulas(text.lines)
    if not groups:
        return text
    boxes = [enclosing(line.box for line in group) for group in groups]
    glyphs = list(_glyphs(page, boxes))
    lines = list(text.lines)
    for group, box in zip(groups, boxes, strict=True):
        near = [glyph for glyph in glyphs if _is_in(glyph, box)]
        inside = [glyph for glyph in near if any(_is_in(glyph, line.box) for line in group)]
        latex = _latex_of(inside, _bars(text.vectors, box))
        if not latex:
            continue
        whole = Line(f"$${latex}$$", box, max(line.size for line in group), False, math=1.0, is_equation=True)
        taken = set(map(id, group))
        at = next(place for place, line in enumerate(lines) if id(line) in taken)
        lines = [*lines[:at], whole, *(line for line in lines[at:] if id(line) not in taken)]
    return replace(text, lines=tuple(lines))


# ---------------------------------------------------------------- where formulas are


def _formulas(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines of each displayed formula: mathematics that stands apart from prose."""
    prose = [line for line in lines if _WORD.search(_FUNCTION.sub("", line.text))]
    words = set(map(id, prose))
    seeds = [line for line in lines if id(line) not in words and (line.math >= _MIN_MATH or _is_scrap(line))]
    groups: list[list[Line]] = []
    for line in seeds:
        near = [group for group in groups if any(_belongs(line, other) for other in group)]
        joined = [line, *(other for group in near for other in group)]
        groups = [group for group in groups if not any(group is other for other in near)]
        groups.append(joined)
    return [group for group in groups if _is_displayed(group, prose)]


def _is_scrap(line: Line) -> bool:
    """Whether it may be a part of a formula, such as a limit or a number."""
    return len(line.text) <= 12 and not _WORD.search(line.text) and not _MARKER.fullmatch(line.text)


def _belongs(line: Line, other: Line) -> bool:
    size = max(line.size, other.size)
    across = max(line.box.x0, other.box.x0) - min(line.box.x1, other.box.x1)
    down = max(line.box.y0, other.box.y0) - min(line.box.y1, other.box.y1)
    return (down < 0.15 * size and across < _REACH_ACROSS * size) or (across < 0 and down < _REACH_DOWN * size - 4.0)


def _is_displayed(group: Sequence[Line], prose: Sequence[Line]) -> bool:
    text = "".join(line.text for line in group)
    if len(group) > _MAX_LINES or len(text) < 4 or not _RELATION.search(text):
        return False
    if sum(len(line.text) for line in group if line.math >= _MIN_MATH) < 0.5 * len(text):
        return False
    box = enclosing(line.box for line in group)
    size = max(line.size for line in group)
    for line in prose:
        shared = min(box.y1, line.box.y1) - max(box.y0, line.box.y0)
        apart = max(box.x0, line.box.x0) - min(box.x1, line.box.x1)
        if shared > 0.35 * (line.box.y1 - line.box.y0) and apart < 2 * size:
            return False
    return True


# ---------------------------------------------------------------- its letters


def _glyphs(page: pymupdf.Page, boxes: Sequence[Box]) -> Iterator[_Glyph]:
    """The letters of all lines that reach into one of the boxes."""
    flags = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_CID_FOR_UNKNOWN_UNICODE
    blocks = page.get_textpage(flags=flags).extractRAWDICT()["blocks"]
    for block in blocks:
        for line in block.get("lines", ()):
            x0, y0, x1, y1 = line["bbox"]
            if not any(x0 <= box.x1 and x1 >= box.x0 and y0 <= box.y1 and y1 >= box.y0 for box in boxes):
                continue
            for span in line["spans"]:
                extension = _EXTENSION.search(span["font"]) is not None
                for character in span["chars"]:
                    sign = character["c"]
                    known = _CMEX.get(ord(sign)) if extension else None
                    sign = known or sign
                    if sign.isspace() or not normalize(sign).strip() or sign == "\ufffd":
                        continue
                    x0, y0, x1, y1 = character["bbox"]
                    yield _Glyph(
                        _name(sign), x0, x1, y0, y1, character["origin"][1], span["size"],
                        unicodedata.normalize("NFKC", sign), known is not None and known not in _OPERATORS,
                    )  # fmt: skip


def _name(sign: str) -> str:
    sign = sign if sign in _NAMES or sign in _SIGNS else unicodedata.normalize("NFKC", sign)
    return f"\\{_NAMES[sign]} " if sign in _NAMES else _SIGNS.get(sign, sign)


def _is_in(glyph: _Glyph, box: Box) -> bool:
    x, y = (glyph.x0 + glyph.x1) / 2, (glyph.y0 + glyph.y1) / 2
    return box.x0 - 0.5 <= x <= box.x1 + 0.5 and box.y0 - 0.5 <= y <= box.y1 + 0.5


def _bars(vectors: Iterable[Vector], box: Box) -> list[Box]:
    return [
        vector.box
        for vector in vectors
        if vector.box.y1 - vector.box.y0 <= _BAR
        and vector.box.x1 - vector.box.x0 > 2.0
        and box.x0 - 3 <= vector.box.x0
        and vector.box.x1 <= box.x1 + 3
        and box.y0 < (vector.box.y0 + vector.box.y1) / 2 < box.y1
    ]


# ---------------------------------------------------------------- from letters to LaTeX


def _latex_of(glyphs: Sequence[_Glyph], bars: Sequence[Box]) -> str:
    """The formula, its number as a tag; several lines are joined by a line break."""
    tag = ""
    by_row = sorted(glyphs, key=lambda glyph: glyph.x0)
    tail = "".join(glyph.sign for glyph in by_row[-8:])
    if (match := re.search(_TAG.pattern + "$", tail)) and len(by_row) > len(match[0]):
        numbers = by_row[-len(match[0]) :]
        if numbers[0].x0 - max(glyph.x1 for glyph in by_row[: -len(match[0])]) > 2 * numbers[0].size:
            by_row = by_row[: -len(match[0])]
            tag = f" \\tag{{{match[1]}}}"
    rest = _with_fractions(by_row, sorted(bars, key=lambda bar: bar.x0 - bar.x1))
    if not rest:
        return ""
    rows = _rows(rest)
    written = [_row_latex(row) for row in rows]
    return " \\\\ ".join(" ".join(row.split()) for row in written) + tag


def _with_fractions(glyphs: Sequence[_Glyph], bars: Sequence[Box]) -> list[_Glyph]:
    """The glyphs with those above and below each bar put together; inner fractions first."""
    found = list(glyphs)
    for bar in sorted(bars, key=lambda bar: bar.x1 - bar.x0):
        y = (bar.y0 + bar.y1) / 2
        within = [glyph for glyph in found if bar.x0 - 1.5 <= (glyph.x0 + glyph.x1) / 2 <= bar.x1 + 1.5]
        reach = 1.9 * max((glyph.size for glyph in within), default=0.0)
        above = [glyph for glyph in within if glyph.baseline <= y + 0.5 and y - glyph.baseline < reach]
        below = [glyph for glyph in within if glyph.baseline > y + 0.5 and glyph.baseline - y < reach]
        if not above or not below:
            continue
        size = max(glyph.size for glyph in (*above, *below))
        latex = f"\\frac{{{_row_latex(above)}}}{{{_row_latex(below)}}}"
        taken = set(map(id, (*above, *below)))
        whole = _Glyph(
            latex,
            bar.x0,
            bar.x1,
            min(glyph.y0 for glyph in above),
            max(glyph.y1 for glyph in below),
            y + 0.25 * size,
            size,
        )
        found = [*(glyph for glyph in found if id(glyph) not in taken), whole]
    return found


def _rows(glyphs: Sequence[_Glyph]) -> list[list[_Glyph]]:
    """The glyphs of each line of a formula, with its limits and scripts."""
    main = max(glyph.size for glyph in glyphs)
    full = sorted((glyph for glyph in glyphs if glyph.size >= _SCRIPT * main), key=lambda glyph: glyph.baseline)
    baselines: list[float] = []
    for glyph in full:
        if not _is_tall(glyph) and (not baselines or glyph.baseline - baselines[-1] > 1.1 * main):
            baselines.append(glyph.baseline)
    if len(baselines) <= 1:
        return [list(glyphs)]
    rows: list[list[_Glyph]] = [[] for _ in baselines]
    for glyph in glyphs:
        middle = (glyph.y0 + glyph.y1) / 2 + 0.25 * main
        rows[min(range(len(baselines)), key=lambda at: abs(baselines[at] - middle))].append(glyph)
    return [row for row in rows if row]


def _row_latex(glyphs: Sequence[_Glyph]) -> str:
    """One line: operators with their limits, and everything else from left to right with its scripts."""
    row = sorted(glyphs, key=lambda glyph: (glyph.x0, glyph.x1))
    if not row:
        return ""
    main = max(glyph.size for glyph in row)
    weights = Counter(round(glyph.baseline) for glyph in row if glyph.size >= _SCRIPT * main and not _is_tall(glyph))
    baseline = float(max(weights, key=lambda place: (weights[place], -place), default=round(row[0].baseline)))
    limits: dict[int, tuple[list[_Glyph], list[_Glyph]]] = {}
    taken: set[int] = set()
    for operator in (glyph for glyph in row if glyph.sign in _OPERATORS and glyph.size >= _SCRIPT * main):
        below, above = _limits(operator, row, baseline, main, taken)
        limits[id(operator)] = below, above
        taken.update(map(id, (*below, *above)))
    written = ""
    scripts: tuple[list[_Glyph], list[_Glyph]] = ([], [])  # lowered, raised
    previous: _Glyph | None = None
    reach = row[0].x0
    for glyph in row:
        gap, reach = glyph.x0 - reach, max(reach, glyph.x1)
        if id(glyph) in taken:
            continue
        is_small = glyph.size < _SCRIPT * main and not glyph.is_stretched
        shift = (baseline - glyph.baseline) / main
        if previous is not None and is_small and shift > _RAISED:
            scripts[1].append(glyph)
            continue
        if previous is not None and is_small and shift < -_LOWERED:
            scripts[0].append(glyph)
            continue
        written += _written(scripts)
        scripts = ([], [])
        if previous is not None and gap > 1.0 * main:
            written += "\\quad "
        written += glyph.latex
        if id(glyph) in limits:
            below, above = limits[id(glyph)]
            written += (f"_{{{_row_latex(below)}}}" if below else "") + (f"^{{{_row_latex(above)}}}" if above else "")
        previous = glyph
    return _named(written + _written(scripts)).strip()


def _is_tall(glyph: _Glyph) -> bool:
    return glyph.is_stretched or glyph.sign in _OPERATORS


def _limits(
    operator: _Glyph, row: Sequence[_Glyph], baseline: float, main: float, taken: set[int]
) -> tuple[list[_Glyph], list[_Glyph]]:
    """What stands below and above an operator; beside its foot and head for an integral."""
    middle = baseline - 0.25 * main
    # The box of a large operator's letter is not what it looks like; its limits are small and near its middle.
    left, right = operator.x0 - 1.6 * main, operator.x1 + 1.6 * main
    if operator.sign in _INTEGRALS:
        left, right = operator.x0 - 0.1 * main, operator.x1 + 0.6 * main
    small = [
        glyph
        for glyph in row
        if glyph.size < _SCRIPT * main
        and not glyph.is_stretched
        and id(glyph) not in taken
        and left <= (glyph.x0 + glyph.x1) / 2 <= right
    ]
    least = 0.45 * main if operator.sign in _INTEGRALS else 0.75 * main
    below = _connected([glyph for glyph in small if glyph.baseline - baseline > least], operator, main)
    above = _connected([glyph for glyph in small if middle - (glyph.y0 + glyph.y1) / 2 > least], operator, main)
    return below, above


def _connected(glyphs: Sequence[_Glyph], operator: _Glyph, main: float) -> list[_Glyph]:
    """Those that hang together, without a gap, with the one nearest to the operator's middle."""
    middle = (operator.x0 + operator.x1) / 2
    row = sorted(glyphs, key=lambda glyph: glyph.x0)
    runs: list[list[_Glyph]] = []
    for glyph in row:
        if runs and glyph.x0 - runs[-1][-1].x1 < 0.5 * main:
            runs[-1].append(glyph)
        else:
            runs.append([glyph])
    return min(runs, key=lambda run: abs((run[0].x0 + run[-1].x1) / 2 - middle), default=[])


def _written(scripts: tuple[list[_Glyph], list[_Glyph]]) -> str:
    lowered, raised = scripts
    below = f"_{{{_row_latex(lowered)}}}" if lowered else ""
    if raised and all(glyph.latex in ("'", "''") for glyph in raised):
        return "".join(glyph.latex for glyph in raised) + below
    return below + (f"^{{{_row_latex(raised)}}}" if raised else "")


def _named(latex: str) -> str:
    """The names of functions as commands."""
    return re.sub(rf"(?<![\\A-Za-z])({_FUNCTION.pattern})(?![A-Za-z])", lambda match: f"\\{match[1]} ", latex)
