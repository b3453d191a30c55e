"""The bullets and numbers of a DOCX's lists, which the file holds as rules and no reader sees as text."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from docx.document import Document as Docx
from docx.oxml.ns import qn
from docx.text.paragraph import Paragraph

from rag.parse.office.xml import Element, parse_part

_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
_LIST_STYLE = re.compile(r"(?i)list (?:bullet|number) ([2-9])$")
_PLACE = re.compile(r"%([1-9])")


@dataclass(frozen=True, slots=True)
class Marker:
    """What stands before an item of a list: "-", or its number as it is written."""

    level: int  # from 0
    text: str
    is_number: bool
    list_id: str  # of the numbering that counts it


@dataclass(frozen=True, slots=True)
class _Level:
    format: str
    pattern: str  # "%1.%2." and the like
    start: int


class Numbering:
    """Counts the items of every list of a document, in its order."""

    def __init__(self, docx: Docx) -> None:
        self._docx = docx
        self._levels: dict[str, dict[int, _Level]] = {}  # by the id of the numbering
        self._list_of: dict[str, str] = {}  # numberings that share their rules count on
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)
        part = next((p for p in docx.part.package.iter_parts() if str(p.partname) == "/word/numbering.xml"), None)
        if part is not None:
            self._read(parse_part(part.blob))

    def marker(self, element: Element) -> Marker | None:
        """The marker of the paragraph, which is counted by this; None where it is no item."""
        number_id, level, depth = self._numbering_of(element)
        if number_id in ("", "0") or number_id not in self._levels:
            return None
        levels = self._levels[number_id]
        rule = levels.get(level, _Level("bullet", "", 1))
        if rule.format == "none":
            return None
        if rule.format == "bullet":
            return Marker(level + depth, "-", False, number_id)
        counts = self._counts[self._list_of[number_id]]
        counts[level] = counts.get(level, rule.start - 1) + 1
        for deeper in [other for other in counts if other > level]:
            del counts[deeper]
        text = _PLACE.sub(lambda match: self._number(levels, counts, int(match[1]) - 1), rule.pattern).strip()
        return Marker(level + depth, text or "-", bool(text), number_id)

    def _number(self, levels: dict[int, _Level], counts: dict[int, int], level: int) -> str:
        rule = levels.get(level, _Level("decimal", "", 1))
        return format_number(counts.get(level, rule.start), rule.format)

    def _numbering_of(self, element: Element) -> tuple[str, int, int]:
        """The id of the paragraph's numbering and the level in it, its own or its style's, and how deep the style lies
        by its name: the levels of "List Bullet 2" are numberings apart."""
        number_id, level = "", None
        for properties in self._properties(element):
            numbered = properties.find(qn("w:numPr"))
            if numbered is None:
                continue
            named, depth = numbered.find(qn("w:numId")), numbered.find(qn("w:ilvl"))
            if level is None and depth is not None:
                level = int(depth.get(qn("w:val"), "0"))
            if not number_id and named is not None:
                number_id = named.get(qn("w:val"), "")
        style = Paragraph(element, self._docx._body).style
        named_depth = _LIST_STYLE.match(style.name or "") if style is not None else None
        return number_id, level or 0, int(named_depth[1]) - 1 if named_depth else 0

    def _properties(self, element: Element) -> Sequence[Element]:
        paragraph = Paragraph(element, self._docx._body)
        holders = [element.find(qn("w:pPr"))]
        style = paragraph.style
        while style is not None:
            holders.append(style.element.find(qn("w:pPr")))
            style = style.base_style
        return [holder for holder in holders if holder is not None]

    def _read(self, root: Element) -> None:
        abstract: dict[str, dict[int, _Level]] = {}
        for rules in root.iter(qn("w:abstractNum")):
            abstract[rules.get(qn("w:abstractNumId"), "")] = {
                int(level.get(qn("w:ilvl"), "0")): _Level(
                    _value(level, "w:numFmt", "decimal"),
                    _value(level, "w:lvlText", ""),
                    int(_value(level, "w:start", "1")),
                )
                for level in rules.iter(qn("w:lvl"))
            }
        for numbering in root.iter(qn("w:num")):
            number_id, rules_id = numbering.get(qn("w:numId"), ""), _value(numbering, "w:abstractNumId", "")
            levels = dict(abstract.get(rules_id, {}))
            restarts = False
            for override in numbering.iter(qn("w:lvlOverride")):
                level = int(override.get(qn("w:ilvl"), "0"))
                start = override.find(qn("w:startOverride"))
                if start is not None and level in levels:
                    restarts = True
                    old = levels[level]
                    levels[level] = _Level(old.format, old.pattern, int(start.get(qn("w:val"), "1")))
            self._levels[number_id] = levels
            self._list_of[number_id] = number_id if restarts else f"rules {rules_id}"


def format_number(number: int, number_format: str) -> str:
    """The number as Word writes it in that format; formats of other scripts as digits."""
    match number_format:
        case "lowerLetter" | "upperLetter":
            letter = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1) if number > 0 else ""
            return letter.upper() if number_format == "upperLetter" else letter
        case "lowerRoman" | "upperRoman":
            rest, text = number, ""
            for value, sign in _ROMAN:
                text += sign * (rest // value)
                rest %= value
            return text.upper() if number_format == "upperRoman" else text
        case "decimalZero":
            return f"{number:02}"
        case _:
            return str(number)


def _value(element: Element, name: str, default: str) -> str:
    child = element.find(qn(name))
    return child.get(qn("w:val"), default) if child is not None else default
