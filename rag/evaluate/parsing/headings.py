"""MHS: how far the headings of two texts agree, and the text below them.

All headings are children of the root whatever their level; the lines up to the next heading are one node below it.
"""

import re

from rag.evaluate.parsing.tree_edit import Node, edit_distance

_HEADING = re.compile(r"^#{1,6}\s+(.*)$")


def mhs(truth: str, predicted: str, read_texts: bool = True) -> float | None:
    """1 - tree edit distance / the larger number of nodes, in [0, 1].

    None where the truth has no heading, 0 where only the prediction has none. Without `read_texts`, MHS-S: what
    headings and lines say does not count.
    """
    tree, other = heading_tree(truth), heading_tree(predicted)
    if not _has_heading(tree):
        return None
    if not _has_heading(other):
        return 0.0
    similarity = 1.0 - edit_distance(tree, other, read_texts) / max(tree.size(), other.size())
    return min(max(similarity, 0.0), 1.0)


def heading_tree(text: str) -> Node:
    """The headings below a root, and below each its lines as one node; lines before the first hang below the root."""
    root = Node("document")
    above = root
    lines: list[str] = []

    def end_content() -> None:
        if lines:
            above.children.append(Node("content", " ".join(" ".join(lines).split())))
        lines.clear()

    for line in text.split("\n"):
        if found := _HEADING.match(line):
            end_content()
            above = Node("heading", " ".join(found[1].split()))
            root.children.append(above)
        elif line.strip():
            lines.append(line.strip())
    end_content()
    return root


def _has_heading(root: Node) -> bool:
    return any(child.kind == "heading" for child in root.children)
