"""The edit distance of two ordered, labelled trees: Zhang and Shasha, SIAM Journal on Computing 1989.

Exact, like every tree edit distance, and compiled: a document's tables are one tree of some thousand nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

Costs = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(slots=True)
class Node:
    """A node that is being built. Nodes of equal `kind` cost as much to rename as their texts differ, others cost 1."""

    kind: str
    text: str = ""
    children: list["Node"] = field(default_factory=list)

    def size(self) -> int:
        """The nodes of this tree, this one included."""
        return 1 + sum(child.size() for child in self.children)


def edit_distance(first: Node, second: Node, read_texts: bool = True) -> float:
    """The least cost that turns one tree into the other.

    To insert or delete a node costs 1; to rename costs 1 across kinds, else the Levenshtein distance of the texts over
    the longer length, or 0 without `read_texts`.
    """
    nodes_a, leftmost_a = _postorder(first)
    nodes_b, leftmost_b = _postorder(second)
    rename = _rename_costs(nodes_a, nodes_b, read_texts)
    return float(_compiled()(leftmost_a, _key_roots(leftmost_a), leftmost_b, _key_roots(leftmost_b), rename))


def _postorder(root: Node) -> tuple[list[Node], Places]:
    """The nodes, children before parents, and the place of the leftmost leaf below each."""
    nodes: list[Node] = []
    leftmost: list[int] = []

    def visit(node: Node) -> None:
        start = len(nodes)
        for child in node.children:
            visit(child)
        nodes.append(node)
        leftmost.append(start)

    visit(root)
    return nodes, np.array(leftmost, dtype=np.int64)


def _key_roots(leftmost: Places) -> Places:
    """The places of the root and of every node that has a sibling to its left, ascending."""
    last = {int(start): place for place, start in enumerate(leftmost)}
    return np.array(sorted(last.values()), dtype=np.int64)


def _rename_costs(nodes_a: Sequence[Node], nodes_b: Sequence[Node], read_texts: bool) -> Costs:
    """(len(a), len(b)): 1 across kinds, else how far the texts differ, in [0, 1]."""
    kinds = {kind: at for at, kind in enumerate({node.kind for node in (*nodes_a, *nodes_b)})}
    kinds_a, kinds_b = (np.array([kinds[node.kind] for node in nodes]) for nodes in (nodes_a, nodes_b))
    same = kinds_a[:, None] == kinds_b[None, :]
    if not read_texts:
        return np.where(same, 0.0, 1.0)
    texts_a, rows = np.unique(np.array([node.text for node in nodes_a], dtype=object), return_inverse=True)
    texts_b, columns = np.unique(np.array([node.text for node in nodes_b], dtype=object), return_inverse=True)
    apart = cdist(texts_a, texts_b, scorer=Levenshtein.normalized_distance, dtype=np.float64)
    return np.where(same, apart[rows[:, None], columns[None, :]], 1.0)


@cache
def _compiled() -> Any:  # Any: numba carries no types
    import numba

    return numba.njit(_distance)


def _distance(leftmost_a: Places, roots_a: Places, leftmost_b: Places, roots_b: Places, rename: Costs) -> float:
    num_a, num_b = rename.shape
    trees = np.zeros((num_a, num_b))  # distance of the trees below each pair of nodes
    forests = np.zeros((num_a + 1, num_b + 1))
    for root_a in roots_a:
        start_a = leftmost_a[root_a]
        for root_b in roots_b:
            start_b = leftmost_b[root_b]
            forests[0, 0] = 0.0
            for a in range(start_a, root_a + 1):
                forests[a - start_a + 1, 0] = a - start_a + 1.0
            for b in range(start_b, root_b + 1):
                forests[0, b - start_b + 1] = b - start_b + 1.0
            for a in range(start_a, root_a + 1):
                row = a - start_a + 1
                whole_a = leftmost_a[a] == start_a
                for b in range(start_b, root_b + 1):
                    column = b - start_b + 1
                    best = min(forests[row - 1, column], forests[row, column - 1]) + 1.0
                    if whole_a and leftmost_b[b] == start_b:
                        best = min(best, forests[row - 1, column - 1] + rename[a, b])
                        trees[a, b] = best
                    else:
                        before = forests[leftmost_a[a] - start_a, leftmost_b[b] - start_b]
                        best = min(best, before + trees[a, b])
                    forests[row, column] = best
    return float(trees[num_a - 1, num_b - 1])
