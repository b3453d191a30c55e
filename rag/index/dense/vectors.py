"""The stored vectors of a segment, and the scores that they give: the same bits whatever else is scored beside them."""

import numpy as np
import numpy.typing as npt

from rag.data import Vector, Vectors
from rag.index.compiled import compiled
from rag.index.dense.library import FaissIndex, faiss
from rag.index.selection import Rows, Scores

StoredVectors = npt.NDArray[np.float32] | npt.NDArray[np.float16]  # (n, dim), as in vectors.npy

_GRID = float(1 << 48)
_ROWS_AT_ONCE = 8192
# numpy widens float16 one number at a time; a table of all of them is ten times as fast.
_WIDENED = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def store_vectors(vectors: Vectors, dtype: str) -> StoredVectors:
    """The vectors in the precision of the index."""
    stored: StoredVectors = np.ascontiguousarray(vectors, np.dtype(dtype))
    return stored


def widened(vectors: StoredVectors) -> Vectors:
    """The vectors as float32."""
    if vectors.dtype == np.float16:
        wide: Vectors = _WIDENED[vectors.view(np.uint16)]
        return wide
    return np.asarray(vectors, np.float32)


def exact_scores(vectors: StoredVectors, rows: Rows, query: Vector) -> Scores:
    """The inner product of each of the rows with the query, the same bits whatever else is scored beside it.

    Products of two float32 are exact in float64. Rounded to multiples of 2^-48 their sum is exact too, for unit
    vectors, and an exact sum has no order: neither the batch, nor the segment, nor the machine can change it.
    """
    scores = np.empty(len(rows), np.float32)
    scaled = query.astype(np.float64) * _GRID
    if vectors.dtype == np.float32:
        _sum_on_grid(vectors, rows, scaled, scores)
        return scores
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = widened(vectors[rows[start : start + _ROWS_AT_ONCE]])
        _sum_on_grid(block, np.arange(len(block)), scaled, scores[start : start + len(block)])
    return scores


# Sums of whole numbers are exact, so the order that vector instructions add them in changes no bit.
@compiled(fastmath=("reassoc",))
def _sum_on_grid(vectors: StoredVectors, rows: Rows, scaled: npt.NDArray[np.float64], scores: Scores) -> None:
    """The inner products of the rows with a query that is multiplied by the grid, each product rounded to a whole."""
    for place in range(len(rows)):
        row, total = np.uint64(rows[place]), 0.0
        for column in range(np.uint64(len(scaled))):
            total += np.rint(np.float64(vectors[row, column]) * scaled[column])
        scores[place] = np.float32(total * (1.0 / _GRID))


@compiled(fastmath=("reassoc", "contract"))
def score_listed(vectors: StoredVectors, listed: Rows, query: Vector, scores: Scores) -> None:
    """The inner products of the listed rows with the query, to within a rounding a dimension; of float32 rows alone.

    Rows that lie far apart are waited for one by one by faiss; four at a time take two thirds of its time.
    """
    whole = len(listed) - len(listed) % 4
    for place in range(0, whole, 4):
        row0, row1 = np.uint64(listed[place]), np.uint64(listed[place + 1])
        row2, row3 = np.uint64(listed[place + 2]), np.uint64(listed[place + 3])
        sum0 = sum1 = sum2 = sum3 = np.float32(0.0)
        for column in range(np.uint64(len(query))):
            factor = query[column]
            sum0 += vectors[row0, column] * factor
            sum1 += vectors[row1, column] * factor
            sum2 += vectors[row2, column] * factor
            sum3 += vectors[row3, column] * factor
        scores[place], scores[place + 1], scores[place + 2], scores[place + 3] = sum0, sum1, sum2, sum3
    for place in range(whole, len(listed)):
        row, total = np.uint64(listed[place]), np.float32(0.0)
        for column in range(np.uint64(len(query))):
            total += vectors[row, column] * query[column]
        scores[place] = total


def flat_index(vectors: StoredVectors) -> FaissIndex:
    """A flat inner-product index of the vectors in their own precision, over their memory: nothing is copied.

    The array must outlive the index.
    """
    dim = vectors.shape[1]
    index: FaissIndex = faiss.IndexFlatIP(dim)
    if vectors.dtype == np.float16:
        index = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        index.is_trained = True  # float16 has nothing to learn
    # How faiss itself refers to a mapped file. The constructor of such a view takes a pointer that Python can't make.
    codes, address = index.codes, faiss.cast_integer_to_uint8_ptr(vectors.ctypes.data)
    codes.is_owned = False
    codes.view_data, codes.view_size = address, vectors.nbytes
    codes.c_ptr, codes.c_size = address, vectors.nbytes
    index.ntotal = len(vectors)
    return index
