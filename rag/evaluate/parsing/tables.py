"""TEDS: how far the tables of two texts agree, as trees.

All tables of a document hang below one node, so that a missing or surplus table costs its nodes.
"""

import re
from collections.abc import Iterator

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString, PreformattedString

from rag.evaluate.parsing.tree_edit import Node, edit_distance

_TRANSPARENT = frozenset({"thead", "tbody"})
_BREAK = re.compile(r"<br\s*/?>")  # also where a pipe table's cell held one, whose text was escaped


def teds(truth: str, predicted: str, read_texts: bool = True) -> float | None:
    """1 - tree edit distance / the larger number of elements, in [0, 1]; both texts with their tables in HTML.

    None where the truth has no table, 0 where only the prediction has none. Without `read_texts`, TEDS-S: what the
    cells say does not count.
    """
    tree, other = table_tree(truth), table_tree(predicted)
    if not tree.children:
        return None
    if not other.children:
        return 0.0
    num_elements = max(tree.size(), other.size()) - 1
    return 1.0 - edit_distance(tree, other, read_texts) / num_elements


def table_tree(text: str) -> Node:
    """The tree of all tables of the text; a table inside another counts once in it and once more by itself."""
    soup = BeautifulSoup(text, "lxml")
    return Node("tables", children=[_node(table) for table in soup.find_all("table")])


def _node(tag: Tag) -> Node:
    if tag.name in ("td", "th"):
        spans = (tag.get("colspan", "1"), tag.get("rowspan", "1"))
        return Node(f"td {spans[0]} {spans[1]}", " ".join(_BREAK.sub("\n", _content(tag)).split()))
    return Node(tag.name, children=[_node(child) for child in _children(tag)])


def _children(tag: Tag) -> Iterator[Tag]:
    for child in tag.children:
        if isinstance(child, Tag):
            if child.name in _TRANSPARENT:
                yield from _children(child)
            else:
                yield child


def _content(cell: Tag) -> str:
    """The text and inline tags of a cell as one string, entities resolved."""
    parts: list[str] = []
    for child in cell.children:
        if isinstance(child, Tag):
            parts.append("<br>" if child.name == "br" else f"<{child.name}>{_content(child)}</{child.name}>")
        elif isinstance(child, NavigableString) and not isinstance(child, PreformattedString):
            parts.append(str(child))
    return "".join(parts)
