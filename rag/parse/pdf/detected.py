"""A page's lines and the areas that a detector found on it -> regions in reading order, each with what it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pymupdf

from rag.data import BlockKind, Box
from rag.parse.pdf.reading_order import group_rows, order_regions
from rag.parse.pdf.text_layer import Line, PageText, area, enclosing, shared_area, turn

_MIN_SHARE = 0.5  # of a line that lies in an area
_TOLD = frozenset({"header", "footer", "figure", "caption", "footnote"})


class FoundArea(Protocol):
    """An area of a page, and what the detector takes it for."""

    @property
    def kind(self) -> BlockKind: ...

    @property
    def box(self) -> Box: ...


class PageDetector(Protocol):
    """Finds the areas of a page; `rag.parse.pdf.detectors` holds implementations."""

    def areas(self, page: pymupdf.Page) -> Sequence[FoundArea]:
        """Kinds and boxes, in points on the page as displayed."""
        ...


@dataclass(frozen=True, slots=True)
class DetectedRegion:
    """Lines that are read together. `kind` is what the detector says they are, where layout rules are not asked."""

    lines: tuple[Line, ...]
    kind: BlockKind | None
    box: Box


def detect(detector: PageDetector, page: pymupdf.Page, text: PageText) -> tuple[DetectedRegion, ...]:
    """The regions of the page in reading order: those of the detector, and in between the lines in none of them.

    A figure without text has no lines. Only what layout rules can't tell as well has a kind: figures, captions,
    footnotes, headers and footers; text is told apart by how it is set.
    """
    back = ~text.to_display
    areas = [(found.kind, turn(found.box, back)) for found in detector.areas(page)]
    regions: list[DetectedRegion] = []
    place_of: dict[int, int] = {}  # of an area among the regions
    is_open = False  # the last region is of lines in no area, and may take more
    for line in (line for region in order_regions(text.lines) for row in group_rows(region) for line in row.lines):
        shares = [shared_area(box, line.box) for _, box in areas]
        best = max(range(len(areas)), key=shares.__getitem__, default=-1)
        if best < 0 or shares[best] < _MIN_SHARE * area(line.box):
            if is_open:
                regions[-1] = _with(regions[-1], line)
            else:
                regions.append(DetectedRegion((line,), None, line.box))
            is_open = True
            continue
        is_open = False
        if best in place_of:
            regions[place_of[best]] = _with(regions[place_of[best]], line)
        else:
            place_of[best] = len(regions)
            kind, box = areas[best]
            regions.append(DetectedRegion((line,), kind if kind in _TOLD else None, box))
    return tuple(regions)


def _with(region: DetectedRegion, line: Line) -> DetectedRegion:
    return replace(region, lines=(*region.lines, line), box=enclosing([region.box, line.box]))
