"""Chunks of one section put together again."""

from collections.abc import Sequence

from rag.data import BLOCK_SEPARATOR, Chunk


def same_section(a: Chunk, b: Chunk) -> bool:
    """Whether both chunks come from one section of one document, and from one parent where they have any."""
    return a.document_id == b.document_id and a.section == b.section and a.parent == b.parent


def stitch(chunks: Sequence[Chunk]) -> str:
    """The text of chunks of one document in document order, each character once.

    What a chunk repeats of the one before is left out. Chunks that touch are joined as they are; a gap of one character
    (a space or a line break that no chunk holds) becomes a line break, a longer one a blank line. The context of a
    chunk stands above it where the chunk before does not lead up to it, unless the text shows it already.
    """
    text, end = "", 0
    for chunk in sorted(chunks, key=lambda chunk: (chunk.start, -chunk.end)):
        if not text:
            text, end = _with_context(chunk), chunk.end
        elif chunk.end > end:
            gap = chunk.start - end
            separator = "" if gap <= 0 else "\n" if gap == 1 else BLOCK_SEPARATOR
            leads_up = gap <= len(BLOCK_SEPARATOR) or chunk.context in text
            text += separator + (chunk.text[max(0, -gap) :] if leads_up else _with_context(chunk))
            end = chunk.end
    return text


def _with_context(chunk: Chunk) -> str:
    return f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text
