"""IVF indexes, flat or product-quantized, that visit the lists which may still hold one of the k best allowed rows."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rag.data import Vector, Vectors
from rag.index.access import RowMask
from rag.index.dense.library import FaissIndex, faiss
from rag.index.dense.selector import select
from rag.index.dense.vectors import StoredVectors, exact_scores
from rag.index.selection import Rows, Scores, best_rows

_FEWEST_RESCORED = 32


@dataclass(frozen=True, slots=True)
class IvfSettings:
    """How an IVF index is searched."""

    nprobe: int  # lists visited first; later rounds take twice as many each
    rescore: int  # rows whose exact score is taken, in multiples of k
    margin: float  # how far a list's centroid may score below the k-th best row and still be visited


class IvfLists(Protocol):
    """What scans lists by their numbers."""

    def search_preassigned_c(self, *arguments: object) -> None: ...


class IvfIndex:
    """An IVF index over the rows of a segment.

    A row that is among the k best lies, nearly always, in a list whose centroid scores at most `margin` below the k-th
    best row: so often in the sample that the margin was set by. Lists are visited by centroid, best first, those
    without an allowed row skipped, until no list within the margin is left. The k-th best row found so far scores at
    most what the true one does, so stopping never comes too early by it; and a question far from all that its asker may
    read gets more lists visited, not a worse answer.
    """

    def __init__(
        self, index: FaissIndex, vectors: StoredVectors, settings: IvfSettings, lists: IvfLists | None = None
    ) -> None:
        """`lists` are scanned instead of the index's own: the same ones on a GPU."""
        self._index, self._vectors, self.settings = index, vectors, settings
        self._scanned: IvfLists = index if lists is None else lists
        self.centroids: Vectors = faiss.downcast_index(index.quantizer).reconstruct_n(0, index.nlist)
        self.list_of = _list_of_row(index)
        self._sizes = np.bincount(self.list_of, minlength=index.nlist)

    def search(self, query: Vector, k: int, allowed: RowMask, widening: float = 1.0) -> tuple[Rows, Scores]:
        """The k best of the allowed rows with their exact scores, best first, ties by row; fewer where fewer are
        allowed. `widening` is not read: the margin decides."""
        del widening
        lists, centroid_scores = self._lists(query, allowed)
        rows, scores = np.empty(0, np.int64), np.empty(0, np.float32)
        start, num_lists = 0, self.settings.nprobe
        while start < len(lists):
            end = start + num_lists
            if len(rows) == k:
                reach = float(scores[-1]) - self.settings.margin
                end = min(end, int(np.searchsorted(-centroid_scores, -reach, side="right")))
            if end <= start:
                break
            found = self._scan(query, self._num_rescored(k), allowed, lists[start:end], centroid_scores[start:end])[0]
            both = np.sort(np.concatenate([rows, found]))
            rows, scores = best_rows(both, exact_scores(self._vectors, both, query), k)
            start, num_lists = end, 2 * num_lists
        return rows, scores

    def scan(self, query: Vector, k: int, allowed: RowMask) -> tuple[Rows, Scores]:
        """The k best allowed rows by faiss' own scores among all lists: for the proof that the mask is honoured."""
        return self._scan(query, k, allowed, *self._lists(query, RowMask(np.ones(allowed.num_rows, np.bool_))))

    def _lists(self, query: Vector, allowed: RowMask) -> tuple[Rows, Scores]:
        """The lists with an allowed row, those with the best centroids first, and the scores of their centroids."""
        sizes = self._sizes if allowed.everything else allowed.counts_by(self.list_of, len(self.centroids))
        lists = np.flatnonzero(sizes)
        centroid_scores = (self.centroids @ query)[lists]
        order = np.argsort(-centroid_scores, kind="stable")
        return lists[order], centroid_scores[order]

    def _scan(
        self, query: Vector, num_rows: int, allowed: RowMask, lists: Rows, centroid_scores: Scores
    ) -> tuple[Rows, Scores]:
        scores, rows = np.empty(num_rows, np.float32), np.empty(num_rows, np.int64)
        batch = np.ascontiguousarray(query, np.float32)
        lists, centroid_scores = np.ascontiguousarray(lists), np.ascontiguousarray(centroid_scores)
        with select(allowed) as selector:
            parameters = faiss.SearchParametersIVF(nprobe=len(lists), sel=selector)
            self._scanned.search_preassigned_c(
                1, faiss.swig_ptr(batch), num_rows, faiss.swig_ptr(lists), faiss.swig_ptr(centroid_scores),
                faiss.swig_ptr(scores), faiss.swig_ptr(rows), False, parameters,
            )  # fmt: skip
        found = rows >= 0  # faiss fills up with -1
        return rows[found], scores[found]

    def _num_rescored(self, k: int) -> int:
        return max(k * self.settings.rescore, k + _FEWEST_RESCORED)


def _list_of_row(index: FaissIndex) -> npt.NDArray[np.int32]:
    """The list in which each row lies."""
    list_of = np.empty(index.ntotal, np.int32)
    for number in range(index.nlist):
        size = index.invlists.list_size(number)
        if size:
            list_of[faiss.rev_swig_ptr(index.invlists.get_ids(number), size)] = number
    return list_of
