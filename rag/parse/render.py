"""Document -> Markdown, as a person would want to read or keep it."""

from rag.data import BLOCK_SEPARATOR, Block, Document

_LEFT_OUT = frozenset({"header", "footer"})  # what every page repeats says nothing at its place in the text


def document_markdown(document: Document) -> str:
    """The blocks in reading order, headings behind their `#`, page headers and footers left out.

    Tables, lists and code are Markdown or HTML already. A heading that was set over several lines becomes one.
    """
    return BLOCK_SEPARATOR.join(_markdown(block) for block in document.blocks if block.kind not in _LEFT_OUT)


def _markdown(block: Block) -> str:
    match block.kind:
        case "title" | "heading":
            return f"{'#' * max(block.level, 1)} {' '.join(block.text.split())}"
        case _:
            return block.text
