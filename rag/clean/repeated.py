"""Boilerplate by repetition: short blocks that come back on page after page, as slides and letterheads have them."""

import re
from collections import defaultdict
from collections.abc import Sequence

from rag.data import Block

_MIN_PAGES = 3
_MAX_CHARACTERS = 120
_KINDS = frozenset(["paragraph", "header", "footer", "caption", "figure"])
_DIGITS = re.compile(r"\d+")


def drop_repeated(blocks: Sequence[Block], num_pages: int, max_share: float) -> tuple[Block, ...]:
    """The blocks without short ones that stand, digits aside, on at least 3 pages and more than that share of them.

    Headings, lists and tables stay, and so do all blocks of a document without pages, or one that would lose them all.
    """
    pages: dict[str, set[int]] = defaultdict(set)
    for block in blocks:
        if block.region is not None and _may_repeat(block):
            pages[_shape(block)].add(block.region.page)
    limit = max(_MIN_PAGES, int(max_share * num_pages) + 1)
    repeated = {shape for shape, found in pages.items() if len(found) >= limit}
    kept = tuple(
        block for block in blocks if block.region is None or not _may_repeat(block) or _shape(block) not in repeated
    )
    return kept or tuple(blocks)


def _may_repeat(block: Block) -> bool:
    return block.kind in _KINDS and len(block.text) <= _MAX_CHARACTERS


def _shape(block: Block) -> str:
    return " ".join(_DIGITS.sub("#", block.text.lower()).split())
