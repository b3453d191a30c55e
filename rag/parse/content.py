"""What every format's parser gives: blocks, and what the file says about itself."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rag.data import Block, PageReport

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")  # control characters, lone surrogates


@dataclass(frozen=True, slots=True)
class ParsedContent:
    """A document's blocks and its own description, not yet weighed against what the source says."""

    blocks: tuple[Block, ...]
    title: str = ""  # as the format states it; "" where it does not
    fields: Mapping[str, object] = field(default_factory=dict)  # lower-case names: front matter, meta elements, a row
    fields_problem: str = ""  # why a description that is there could not be read
    num_pages: int = 0
    pages: tuple[PageReport, ...] = ()
    flags: tuple[str, ...] = ()  # of the whole document


def printable(text: str) -> str:
    """The text with a space for every character that a page can't show and UTF-8 or JSON may not take."""
    return _UNPRINTABLE.sub(" ", text) if _UNPRINTABLE.search(text) else text


def single_spaced(text: str) -> str:
    """The text with single spaces, and without lines that are empty; line breaks stay."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def render_item(marker: str, texts: Sequence[str], depth: int = 0) -> str:
    """One list item: the first text behind the marker, all others indented below it, inside `depth` other items."""
    shift = "  " * depth
    indent = shift + " " * (len(marker) + 1)
    lines = "\n".join(text for text in texts if text).split("\n")
    return "\n".join([f"{shift}{marker} {lines[0]}".rstrip(), *(f"{indent}{line}".rstrip() for line in lines[1:])])


def render_code(code: str, language: str = "") -> str:
    """The code between fences that are longer than any run of backticks inside."""
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"
