"""DOCX -> blocks: headings, nested lists, tables with spans, footnotes and pictures; without what is hidden."""

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import docx as docx_package
from docx.document import Document as Docx
from docx.oxml.ns import qn
from docx.text.paragraph import Paragraph

from rag.config import ParseConfig
from rag.data import Block, RawDocument
from rag.parse.content import ParsedContent, render_item, single_spaced
from rag.parse.figures import FigureReader
from rag.parse.office.numbering import Marker, Numbering
from rag.parse.office.package import open_package
from rag.parse.office.properties import core_fields, stated_title
from rag.parse.office.xml import Element, parse_part
from rag.parse.table import Table, TableCell, compact, render

_HEADING_STYLE = re.compile(r"(?i)^heading ([1-9])$")
_SKIPPED = frozenset(map(qn, (
    "w:del", "w:moveFrom", "w:pPr", "w:rPr", "w:instrText", "w:delText", "w:commentReference", "w:sectPr",
)))  # fmt: skip
_SIGNS = {qn("w:tab"): " ", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-", qn("w:softHyphen"): ""}
_ALTERNATIVE, _CHOICE = (f"{{http://schemas.openxmlformats.org/markup-compatibility/2006}}{name}" for name in
                         ("AlternateContent", "Choice"))  # fmt: skip
_TINY_HALF_POINTS = 2  # a font as small as this is read by nobody


@dataclass
class _Read:
    """What one paragraph holds beside its text."""

    text: list[str] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)  # relationship, alternative text
    footnotes: list[str] = field(default_factory=list)
    boxes: list[Element] = field(default_factory=list)  # text boxes that are anchored here
    num_hidden: int = 0


@dataclass
class _ListLine:
    marker: Marker
    text: str


def parse_docx(raw: RawDocument, config: ParseConfig, figures: FigureReader) -> ParsedContent:
    """The blocks in the order of the document's body. Comments, deletions and hidden text are left out, the last
    with the flag "hidden_text".

    Raises ParseError for a damaged, protected or too large file.
    """
    with open_package(raw.metadata.uri, raw.content, config.max_unpacked_mb):
        docx = docx_package.Document(io.BytesIO(raw.content))
    reader = _Reader(docx, figures)
    blocks = tuple(reader.blocks())
    return ParsedContent(
        blocks,
        stated_title(docx.core_properties),
        core_fields(docx.core_properties),
        flags=("hidden_text",) if reader.num_hidden else (),
    )


class _Reader:
    """Walks the body once; lists are collected until something else follows."""

    def __init__(self, docx: Docx, figures: FigureReader) -> None:
        self._docx, self._figures = docx, figures
        self._numbering = Numbering(docx)
        self._footnotes = _footnotes(docx)
        self._list: list[_ListLine] = []
        self._has_title = any(_style_name(docx, element) == "title" for element in docx.element.body.iter(qn("w:p")))
        self.num_hidden = 0

    def blocks(self) -> Iterator[Block]:
        yield from self._container(self._docx.element.body)
        yield from self._end_list()

    def _container(self, container: Element) -> Iterator[Block]:
        for element in container:
            if element.tag == qn("w:p"):
                yield from self._paragraph(element)
            elif element.tag == qn("w:tbl"):
                yield from self._end_list()
                yield from self._table(element)
            elif element.tag == qn("w:sdt"):
                for content in element.iter(qn("w:sdtContent")):
                    yield from self._container(content)
                    break
            elif element.tag in (qn("w:ins"), qn("w:moveTo"), qn("w:customXml")):
                yield from self._container(element)

    def _paragraph(self, element: Element) -> Iterator[Block]:
        read = self._read(element)
        text = single_spaced("".join(read.text))
        level, style = self._heading_level(element), _style_name(self._docx, element)
        marker = self._numbering.marker(element) if text else None
        if text and marker is not None and not level:
            outermost = next((line.marker for line in reversed(self._list) if line.marker.level == 0), None)
            if outermost and marker.level == 0 and outermost.list_id != marker.list_id:
                yield from self._end_list()
            self._list.append(_ListLine(marker, text))
        elif text:
            yield from self._end_list()
            if level:
                title = " ".join(text.split())
                yield Block("heading", f"{marker.text} {title}" if marker and marker.is_number else title, level)
            elif style == "caption":
                yield Block("caption", text)
            else:
                yield Block("paragraph", text)
        if read.pictures or read.footnotes or read.boxes:
            yield from self._end_list()
            yield from self._beside(read)

    def _beside(self, read: _Read) -> Iterator[Block]:
        for relationship, alternative in read.pictures:
            part = self._docx.part.related_parts.get(relationship)
            if part is not None and (figure := self._figures.read(part.blob, alternative)):
                yield figure
        for box in read.boxes:
            yield from self._container(box)
            yield from self._end_list()
        for number in read.footnotes:
            if text := self._footnotes.get(number):
                yield Block("footnote", f"[^{number}]: {text}")

    def _end_list(self) -> Iterator[Block]:
        if self._list:
            least = min(line.marker.level for line in self._list)
            items = (render_item(line.marker.text, [line.text], line.marker.level - least) for line in self._list)
            yield Block("list", "\n".join(items))
            self._list = []

    def _heading_level(self, element: Element) -> int:
        """1 to 6 for a heading, 0 for anything else; below a document's title all headings stand one level lower."""
        style = _style_name(self._docx, element)
        if style == "title":
            return 1
        match = _HEADING_STYLE.match(style)
        level = int(match[1]) if match else _outline_level(Paragraph(element, self._docx._body))
        return min(level + int(self._has_title), 6) if level else 0

    def _read(self, element: Element) -> _Read:
        read = _Read()
        self._collect(element, read, self._is_hidden_by_style(element))
        self.num_hidden += read.num_hidden
        return read

    def _collect(self, element: Element, read: _Read, hidden: bool) -> None:
        for child in element:
            if child.tag in _SKIPPED or not isinstance(child.tag, str):
                continue
            if child.tag == qn("w:t"):
                if hidden:
                    read.num_hidden += len(child.text or "")
                else:
                    read.text.append(child.text or "")
            elif child.tag in _SIGNS:
                read.text.append("" if hidden else _SIGNS[child.tag])
            elif child.tag == qn("w:footnoteReference"):
                number = child.get(qn("w:id"), "")
                read.footnotes.append(number)
                read.text.append(f"[^{number}]")
            elif child.tag == qn("w:txbxContent"):
                read.boxes.append(child)
            elif child.tag == qn("a:blip"):
                read.pictures.append((child.get(qn("r:embed"), ""), _alternative_text(child)))
            elif child.tag == _ALTERNATIVE:  # the same drawing in two ways
                choice = child.find(_CHOICE)
                if choice is not None:
                    self._collect(choice, read, hidden)
            elif child.tag == qn("w:r"):
                self._collect(child, read, hidden or _is_hidden(child.find(qn("w:rPr"))))
            else:
                self._collect(child, read, hidden)

    def _is_hidden_by_style(self, element: Element) -> bool:
        style = Paragraph(element, self._docx._body).style
        return style is not None and style.font.hidden is True

    def _table(self, table: Element) -> Iterator[Block]:
        made = self._table_of(table)
        if made.num_rows == made.num_columns == 1:  # a box around text
            for cell in table.iter(qn("w:tc")):
                yield from self._container(cell)
                yield from self._end_list()
                return
        if any(cell.text for cell in made.cells):
            yield Block("table", render(compact(made)))

    def _table_of(self, table: Element) -> Table:
        rows = [row for row in table.iterchildren(qn("w:tr")) if not self._is_left_out(row)]
        marked = [row.find(f"{qn('w:trPr')}/{qn('w:tblHeader')}") is not None for row in rows]
        num_headers = next((at for at, is_header in enumerate(marked) if not is_header), len(marked)) or 1
        cells: dict[tuple[int, int], TableCell] = {}
        open_above: dict[int, tuple[int, int]] = {}  # column -> the cell that spans down there
        width = 0
        for at, row in enumerate(rows):
            column = _grid_before(row)
            for cell in _row_cells(row):
                span, merge = _spans(cell)
                if merge == "continue" and column in open_above:
                    place = open_above[column]
                    cells[place] = _taller(cells[place], at)
                else:
                    place = (at, column)
                    cells[place] = TableCell(at, column, self._cell_text(cell), 1, span, at < num_headers)
                    if merge == "restart":
                        open_above[column] = place
                    else:
                        open_above.pop(column, None)
                column += span
            width = max(width, column)
        return Table(len(rows), width, tuple(cells[place] for place in sorted(cells)))

    def _is_left_out(self, row: Element) -> bool:
        properties = row.find(qn("w:trPr"))
        if properties is None:
            return False
        if properties.find(qn("w:hidden")) is not None:
            self.num_hidden += sum(len(text.text or "") for text in row.iter(qn("w:t")))
            return True
        return properties.find(qn("w:del")) is not None

    def _cell_text(self, cell: Element) -> str:
        parts: list[str] = []
        for element in cell.iter(qn("w:p")):
            read = self._read(element)
            text = " ".join("".join(read.text).split())
            marker = self._numbering.marker(element) if text else None
            parts.append(f"{marker.text} {text}" if marker else text)
            parts += [f"[^{number}] {self._footnotes.get(number, '')}" for number in read.footnotes]
        return "\n".join(part for part in parts if part)


def _style_name(docx: Docx, element: Element) -> str:
    style = Paragraph(element, docx._body).style
    return (style.name or "").lower() if style is not None else ""


def _outline_level(paragraph: Paragraph) -> int:
    """The level that the paragraph or one of its styles gives itself in the outline, from 1; 0 for none."""
    holders = [paragraph._p.pPr]
    style = paragraph.style
    while style is not None:
        holders.append(style.element.find(qn("w:pPr")))
        style = style.base_style
    for properties in holders:
        outline = properties.find(qn("w:outlineLvl")) if properties is not None else None
        if outline is not None:
            level = int(outline.get(qn("w:val"), "9")) + 1
            return level if level <= 9 else 0
    return 0


def _is_hidden(properties: Element | None) -> bool:
    if properties is None:
        return False
    vanish = properties.find(qn("w:vanish"))
    if vanish is not None and vanish.get(qn("w:val"), "true") not in ("0", "false", "off"):
        return True
    size = properties.find(qn("w:sz"))
    return size is not None and size.get(qn("w:val"), "").isdigit() and int(size.get(qn("w:val"))) <= _TINY_HALF_POINTS


def _alternative_text(blip: Element) -> str:
    for above in blip.iterancestors():
        if above.tag in (qn("wp:inline"), qn("wp:anchor")):
            described = above.find(qn("wp:docPr"))
            return described.get("descr", "") if described is not None else ""
    return ""


def _footnotes(docx: Docx) -> Mapping[str, str]:
    """The text of each footnote by its id."""
    found: dict[str, str] = {}
    for part in docx.part.package.iter_parts():
        if str(part.partname) == "/word/footnotes.xml":
            root = parse_part(part.blob)
            for note in root.iter(qn("w:footnote")):
                texts = ["".join(text.text or "" for text in line.iter(qn("w:t"))) for line in note.iter(qn("w:p"))]
                if note.get(qn("w:type")) is None:
                    found[note.get(qn("w:id"), "")] = " ".join(" ".join(texts).split())
    return found


def _row_cells(row: Element) -> Iterator[Element]:
    for child in row:
        if child.tag == qn("w:tc"):
            yield child
        elif child.tag == qn("w:sdt"):
            yield from child.iter(qn("w:tc"))


def _grid_before(row: Element) -> int:
    skipped = row.find(f"{qn('w:trPr')}/{qn('w:gridBefore')}")
    return int(skipped.get(qn("w:val"), "0")) if skipped is not None else 0


def _spans(cell: Element) -> tuple[int, str]:
    """How many columns the cell takes, and "restart", "continue" or "" for its place in a merge down."""
    properties = cell.find(qn("w:tcPr"))
    if properties is None:
        return 1, ""
    span = properties.find(qn("w:gridSpan"))
    merge = properties.find(qn("w:vMerge"))
    width = int(span.get(qn("w:val"), "1")) if span is not None else 1
    return max(width, 1), "" if merge is None else merge.get(qn("w:val"), "continue")


def _taller(cell: TableCell, last_row: int) -> TableCell:
    return TableCell(cell.row, cell.column, cell.text, last_row - cell.row + 1, cell.column_span, cell.is_header)
