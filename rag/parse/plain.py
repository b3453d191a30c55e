"""Plain text -> blocks: paragraphs between blank lines, underlined headings, bulleted and numbered lists."""

import re

from rag.data import Block
from rag.parse.content import ParsedContent

_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*|\f")
_UNDERLINE = re.compile(r"([=\-~^#*])\1{2,}")
_BULLET = re.compile(r"(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")


def parse_plain(text: str) -> ParsedContent:
    """The blocks of the text; lines inside a paragraph stay lines."""
    blocks: list[Block] = []
    levels: dict[str, int] = {}  # underline -> level, in the order of first use, as in reStructuredText
    for piece in _PARAGRAPH_END.split(text):
        lines = [line.rstrip() for line in piece.strip("\n").splitlines()]
        if len(lines) > 1 and (underline := _UNDERLINE.fullmatch(lines[1].strip())) and lines[0].strip():
            level = levels.setdefault(underline[1], min(len(levels) + 1, 6))
            blocks.append(Block("heading", lines[0].strip(), level=level))
            lines = lines[2:]
        if body := "\n".join(lines).strip():
            blocks.append(Block("list" if _BULLET.match(body) else "paragraph", body))
    return ParsedContent(tuple(blocks))
