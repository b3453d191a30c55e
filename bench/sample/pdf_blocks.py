"""The vocabulary in which the sample PDFs are written: blocks, and the sheet that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the largest of three."""

    level: Literal[1, 2, 3]
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of short items, numbered or not."""

    items: tuple[str, ...]
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table whose first row is its head; without rules only the columns' alignment shows it."""

    rows: tuple[tuple[str, ...], ...]
    widths_mm: tuple[float, ...]
    ruled: bool = True


@dataclass(frozen=True, slots=True)
class Fields:
    """Labelled boxes of a form, two to a row."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn line chart with its caption below; one line for each named series of (x, y)."""

    caption: str
    x_label: str
    y_label: str
    series: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]


@dataclass(frozen=True, slots=True)
class PageBreak:
    """The next block begins on a new page."""


Block = Heading | Paragraph | Bullets | Grid | Fields | Chart | PageBreak


@dataclass(frozen=True, slots=True)
class Sheet:
    """One PDF before it is drawn: where it goes, its metadata and its blocks.

    A scanned sheet ends up as pictures of its pages, without a text layer.
    """

    path: str
    title: str
    author: str
    created: date
    blocks: tuple[Block, ...]
    columns: Literal[1, 2] = 1
    header: str = ""
    footer: str = ""
    scanned: bool = False
