"""The sections of a document: what stands under one heading, with the title and the heading path above it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag.chunk.tokens import TokenBudget
from rag.data import BLOCK_SEPARATOR, Block, Document, embedded_text


@dataclass(frozen=True, slots=True)
class Placed:
    """A block with its place in the document's text."""

    block: Block
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under one heading, up to the next one; `title` and `headings` stand above each of its chunks."""

    index: int
    title: str
    headings: tuple[str, ...]
    body: tuple[Placed, ...]


def find_sections(document: Document, budget: TokenBudget) -> list[Section]:
    """The sections with something to chunk, in order; title and path take at most half of the budget.

    A heading is part of the body where no path will hold it.
    """
    title = _cut_title(document.metadata.title, budget)
    placed = list(_place(document.blocks))
    groups: list[tuple[tuple[Placed, ...], list[Placed]]] = [((), [])]  # heading path, body
    for item in placed:
        if level := _level(item.block):
            path = tuple(above for above in groups[-1][0] if _level(above.block) < level)
            groups.append(((*path, item), []))
        else:
            groups[-1][1].append(item)
    sections: list[Section] = []
    in_a_path: set[int] = set()  # places of headings
    first = placed[0].start if placed else -1
    for index, (path, body) in reversed(list(enumerate(groups))):
        own = path[-1] if path else None
        said_by_title = own is not None and own.start == first and own.block.text == title and len(placed) > 1
        fitted = _fit_path(title, path, budget) if body else ()
        in_a_path.update(heading.start for heading in fitted)
        if own and own.start not in in_a_path and not said_by_title:
            body = [own, *body]
            fitted = _fit_path(title, path[:-1], budget)
            in_a_path.update(heading.start for heading in fitted)
        if body:
            names = tuple(heading.block.text for heading in fitted)
            if names and names[0] == title and fitted[0].start == first:
                names = names[1:]
            sections.append(Section(index, title, names, tuple(body)))
    return sections[::-1]


def _cut_title(title: str, budget: TokenBudget) -> str:
    """The title, shortened where it would take more than half of what the path may take."""
    while title and budget.is_longer(title, budget.max_tokens // 4):
        title = title[: len(title) // 2].rstrip()
    return title


def _fit_path(title: str, path: tuple[Placed, ...], budget: TokenBudget) -> tuple[Placed, ...]:
    """The innermost headings of the path that leave half of the budget to the text."""
    while path and budget.is_longer(_prefix(title, path), budget.max_tokens // 2):
        path = path[1:]
    return path


def _place(blocks: Sequence[Block]) -> Iterator[Placed]:
    """The blocks that hold text, with their places in the document's text."""
    start = 0
    for block in blocks:
        if block.text.strip():
            yield Placed(block, start, start + len(block.text))
        start += len(block.text) + len(BLOCK_SEPARATOR)


def _level(block: Block) -> int:
    """The level of a heading, 0 for every other block."""
    return max(block.level, 1) if block.kind in ("heading", "title") else 0


def _prefix(title: str, path: Sequence[Placed]) -> str:
    return embedded_text(title, tuple(heading.block.text for heading in path), "")
