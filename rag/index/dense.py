"""Exact inner products over the vectors of one segment, among the rows that the caller may read."""

from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt

from rag.data import Vector, Vectors
from rag.errors import IndexMismatch
from rag.index.access import RowMask
from rag.index.files import reading
from rag.index.selection import Rows, Scores, best_rows

StoredVectors = npt.NDArray[np.float32] | npt.NDArray[np.float16]  # (n, dim), as in vectors.npy

_MARGIN = 16  # rows beyond k that faiss is asked for, so that one search is nearly always enough
_GRID = float(1 << 48)
_ROWS_AT_ONCE = 8192


def write_flat_index(path: Path, vectors: StoredVectors) -> None:
    """Writes a flat inner-product index of the rows in order, in their own precision."""
    dim = vectors.shape[1]
    index: faiss.Index = faiss.IndexFlatIP(dim)
    if vectors.dtype == np.float16:
        index = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    index.add(vectors.astype(np.float32))
    faiss.write_index(index, str(path))


class FlatIndex:
    """A faiss index that proposes rows, over the stored vectors that give them their scores.

    faiss sums in an order that its build, its instruction set and the size of the batch decide, so its scores serve
    only to narrow the rows down; `exact_scores` has the last word.
    """

    def __init__(self, index: faiss.Index, vectors: StoredVectors) -> None:
        """Raises IndexMismatch when the index does not belong to the vectors, or ignores a selector of rows."""
        if index.ntotal != len(vectors) or index.d != vectors.shape[1]:
            raise IndexMismatch(
                f"faiss index of {index.ntotal} rows x {index.d}, vectors of {len(vectors)} x {vectors.shape[1]}"
            )
        self._index, self._vectors = index, vectors
        self._prove_selector()

    def search(self, query: Vector, k: int, allowed: RowMask) -> tuple[Rows, Scores]:
        """The k best of the allowed rows with their exact scores, best first, ties by row; fewer where fewer are
        allowed."""
        num_proposed = k + _MARGIN
        # faiss adds float32 products of unit rows: each score is off by less than dim roundings.
        slack = 2 * len(query) * float(np.finfo(np.float32).eps) * max(1.0, float(np.linalg.norm(query)))
        while num_proposed < allowed.count:
            proposed, faiss_scores = self._propose(query, num_proposed, allowed)
            rows, scores = best_rows(proposed, exact_scores(self._vectors, proposed, query), k)
            if len(rows) == k and scores[-1] > faiss_scores.min() + slack:
                return rows, scores  # no row that faiss left out can reach the k-th
            num_proposed *= 4
        rows = allowed.rows()
        return best_rows(rows, exact_scores(self._vectors, rows, query), k)

    def vector(self, row: int) -> Vector:
        """The stored vector of one row, as float32."""
        return np.asarray(self._vectors[row], np.float32)

    def scores(self, query: Vector, rows: Rows) -> Scores:
        """The exact score of each row."""
        return exact_scores(self._vectors, rows, query)

    def _propose(self, query: Vector, num_rows: int, allowed: RowMask) -> tuple[Rows, Scores]:
        # The stubs of faiss show the constructors of C++, not those of its Python wrappers.
        selector = faiss.IDSelectorBitmap(allowed.bits)  # type: ignore[call-arg, arg-type]
        parameters = faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]
        scores, rows = self._index.search(
            np.ascontiguousarray(query, np.float32)[np.newaxis], num_rows, params=parameters
        )
        found = rows[0] >= 0  # faiss fills up with -1
        order = np.argsort(rows[0][found])
        return rows[0][found][order], scores[0][found][order]

    def _prove_selector(self) -> None:
        """Asks for the nearest row of the first vector with that row masked out.

        Indexes on a GPU without cuVS take a selector and ignore it; with one of those every permission would be void.
        """
        num_rows = len(self._vectors)
        flags = np.zeros(num_rows, np.bool_)
        flags[1:][-1:] = True
        allowed = RowMask(np.packbits(flags, bitorder="little"), int(flags.sum()))
        rows, _ = self._propose(np.asarray(self._vectors[0], np.float32), min(num_rows, 2), allowed)
        if rows.tolist() != allowed.rows().tolist():
            raise IndexMismatch(
                f"{type(self._index).__name__} of faiss {faiss.__version__} ignores a selector of rows, so permissions "
                "can't be enforced; install faiss-cpu or faiss-gpu-cuvs"
            )


def open_flat_index(path: Path, vectors: StoredVectors) -> FlatIndex:
    """The index in the file, memory-mapped. Raises IndexDamaged and IndexMismatch."""
    with reading(path):
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    return FlatIndex(index, vectors)


def exact_scores(vectors: StoredVectors, rows: Rows, query: Vector) -> Scores:
    """The inner product of each of the rows with the query, the same bits whatever else is scored beside it.

    Products of two float32 are exact in float64. Rounded to multiples of 2^-48 their sum is exact too, for unit
    vectors, and an exact sum has no order: neither the batch, nor the segment, nor the machine can change it.
    """
    scores = np.empty(len(rows), np.float32)
    wide = query.astype(np.float64)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE]
        products = vectors[block].astype(np.float64) * wide
        scores[start : start + len(block)] = np.rint(products * _GRID).sum(axis=1) / _GRID
    return scores


def store_vectors(vectors: Vectors, dtype: str) -> StoredVectors:
    """The vectors in the precision of the index."""
    stored: StoredVectors = np.ascontiguousarray(vectors, np.dtype(dtype))
    return stored
