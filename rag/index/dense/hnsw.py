"""HNSW that says when a mask left too few rows around the query for its answer to be trusted."""

import math

import numpy as np

from rag.data import Vector
from rag.index.access import RowMask
from rag.index.dense.library import FaissIndex, faiss
from rag.index.dense.selector import select
from rag.index.dense.vectors import StoredVectors, exact_scores
from rag.index.selection import Rows, Scores, best_rows

_MARGIN = 16  # rows beyond k that are scored exactly


class HnswIndex:
    """An HNSW graph over the rows of a segment.

    The graph is walked through forbidden rows too, or it would fall apart. What is visited are about the `ef` nearest
    rows, so the allowed ones among them are the nearest allowed ones; there must be as many of them as an unfiltered
    search would have to choose from. Around a question from another topic there are not, and the search says so.
    """

    def __init__(self, index: FaissIndex, vectors: StoredVectors, ef_search: int) -> None:
        self._index, self._vectors, self.ef_search = index, vectors, ef_search

    def search(self, query: Vector, k: int, allowed: RowMask, widening: float = 1.0) -> tuple[Rows, Scores] | None:
        """The k best of the allowed rows with their exact scores, best first, ties by row; None where too few allowed
        rows were met on the way to vouch for them."""
        breadth = max(self.ef_search, 2 * k)
        num_visited = math.ceil(breadth * widening)
        # Under a mask all that were met are counted; without one the best are enough.
        wanted, enough = (num_visited, breadth) if widening > 1.0 else (k + _MARGIN, k)
        found, _ = self._scan(query, wanted, num_visited, allowed)
        if len(found) < min(enough, allowed.count):
            return None
        rows = np.sort(found[: k + _MARGIN])
        return best_rows(rows, exact_scores(self._vectors, rows, query), k)

    def scan(self, query: Vector, k: int, allowed: RowMask) -> tuple[Rows, Scores]:
        """Up to k allowed rows by faiss' own scores: for the proof that the mask is honoured."""
        return self._scan(query, k, k, allowed)

    def _scan(self, query: Vector, num_rows: int, num_visited: int, allowed: RowMask) -> tuple[Rows, Scores]:
        """Up to `num_rows` allowed ones among about `num_visited` nearest rows, by faiss' own scores, best first."""
        with select(allowed) as selector:
            parameters = faiss.SearchParametersHNSW(efSearch=num_visited, sel=selector)
            batch = np.ascontiguousarray(query, np.float32)[np.newaxis]
            scores, rows = self._index.search(batch, min(num_rows, allowed.num_rows), params=parameters)
        found = rows[0] >= 0  # faiss fills up with -1
        return rows[0][found], scores[0][found]
