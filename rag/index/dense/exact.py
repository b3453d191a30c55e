"""Exact search among the allowed rows of a segment: the flat index, and what every other kind falls back on."""

from typing import Protocol

import numpy as np

from rag.data import Vector
from rag.errors import IndexMismatch
from rag.index.access import RowMask
from rag.index.dense.library import faiss
from rag.index.dense.selector import prove_selector, select
from rag.index.dense.vectors import StoredVectors, exact_scores, flat_index, score_listed
from rag.index.selection import Rows, Scores, best_rows

_MARGIN = 16  # rows beyond k that faiss is asked for, so that one search is nearly always enough
_MOST_PROPOSED = 2_048  # what a GPU can give at once; only long rows of ties ever ask for more
_SCORED_AT_ONCE = 64  # so few rows are scored exactly at once, without a narrowing before
_LISTED_SHARE = 0.5  # below it a list of rows is walked, above it all rows are, and the mask is asked of each


class FlatSearch(Protocol):
    """What is needed of a flat faiss index."""

    ntotal: int
    d: int

    def search(
        self, queries: np.ndarray[tuple[int, int], np.dtype[np.float32]], k: int, *, params: object = None
    ) -> tuple[Scores, Rows]: ...


class ExactSearch:
    """The best of the allowed rows, by the stored vectors.

    faiss sums in an order that its build, its instruction set and the size of the batch decide, so its scores serve
    only to narrow the rows down; `exact_scores` has the last word.
    """

    def __init__(self, vectors: StoredVectors, index: FlatSearch | None = None) -> None:
        """`index` narrows instead of a flat index over the vectors' own memory, from a GPU for example.

        Raises IndexMismatch when it does not belong to the vectors, or ignores a selector of rows.
        """
        self._vectors, self._plain = vectors, index is None
        self._index: FlatSearch = flat_index(vectors) if index is None else index
        if self._index.ntotal != len(vectors) or self._index.d != vectors.shape[1]:
            raise IndexMismatch(
                f"faiss index of {self._index.ntotal} rows x {self._index.d}, vectors of {len(vectors)} x "
                f"{vectors.shape[1]}"
            )
        prove_selector(self._scan, vectors, type(self._index).__name__)

    def search(self, query: Vector, k: int, allowed: RowMask) -> tuple[Rows, Scores]:
        """The k best of the allowed rows with their exact scores, best first, ties by row; fewer where fewer are
        allowed."""
        num_proposed = k + _MARGIN
        # faiss adds float32 products of unit rows: each score is off by less than dim roundings.
        slack = 2 * len(query) * float(np.finfo(np.float32).eps) * max(1.0, float(np.linalg.norm(query)))
        while max(num_proposed, _SCORED_AT_ONCE) < allowed.count and num_proposed <= _MOST_PROPOSED:
            proposed, faiss_scores = self._propose(query, num_proposed, allowed)
            rows, scores = best_rows(proposed, exact_scores(self._vectors, proposed, query), k)
            if len(rows) == k and scores[-1] > faiss_scores.min() + slack:
                return rows, scores  # no row that faiss left out can reach the k-th
            num_proposed *= 4
        rows = allowed.rows()
        return best_rows(rows, exact_scores(self._vectors, rows, query), k)

    def _propose(self, query: Vector, num_rows: int, allowed: RowMask) -> tuple[Rows, Scores]:
        """The `num_rows` best of the allowed rows by faiss' own scores, ascending by row."""
        few = allowed.count < _LISTED_SHARE * allowed.num_rows
        if self._plain and few and self._vectors.dtype == np.float32:
            rows, scores = self._scan_listed(query, num_rows, allowed.rows())
        else:
            rows, scores = self._scan(query, num_rows, allowed)
        order = np.argsort(rows)
        return rows[order], scores[order]

    def _scan(self, query: Vector, num_rows: int, allowed: RowMask) -> tuple[Rows, Scores]:
        with select(allowed) as selector:
            parameters = None if selector is None else faiss.SearchParameters(sel=selector)
            scores, rows = self._index.search(_one(query), num_rows, params=parameters)
        found = rows[0] >= 0  # faiss fills up with -1
        return rows[0][found], scores[0][found]

    def _scan_listed(self, query: Vector, num_rows: int, listed: Rows) -> tuple[Rows, Scores]:
        scores = np.empty(len(listed), np.float32)
        score_listed(self._vectors, listed, np.ascontiguousarray(query, np.float32), scores)
        best = np.argpartition(scores, len(scores) - num_rows)[len(scores) - num_rows :]
        return listed[best], scores[best]


def _one(query: Vector) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """The query as a batch of one."""
    return np.ascontiguousarray(query, np.float32)[np.newaxis]
