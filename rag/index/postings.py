"""The inner loops of BM25, compiled: numpy can neither add up postings at speed nor keep the best under a mask.

Places are unsigned: numba looks for negative ones at every access otherwise.
"""

import numpy as np
import numpy.typing as npt

from rag.index.compiled import compiled
from rag.index.selection import Rows, Scores


@compiled()
def add_impacts(
    terms: npt.NDArray[np.int64],
    indptr: npt.NDArray[np.int64],
    rows: npt.NDArray[np.uint32],
    impacts: npt.NDArray[np.float32],
    sums: Scores,
) -> None:
    """Adds the impacts of the terms' postings to `sums` (n,), term by term."""
    for term in terms:
        for place in range(np.uint64(indptr[term]), np.uint64(indptr[term + 1])):
            sums[rows[place]] += impacts[place]


@compiled()
def best_sums(sums: Scores, allowed: npt.NDArray[np.uint8], rows: Rows, scores: Scores) -> int:
    """Fills `rows` and `scores` (k,) with the best sums above zero that the bits allow, best first, ties to the smaller
    row, and returns how many there are."""
    count, k, worst = 0, len(rows), np.float32(0.0)
    for row in range(np.uint64(len(sums))):
        if sums[row] > worst and (allowed[row >> np.uint64(3)] >> np.uint8(row & np.uint64(7))) & np.uint8(1):
            count = _place(int(row), sums[row], count, rows, scores)
            if count == k:
                worst = scores[k - 1]
    return count


@compiled()
def best_listed_sums(sums: Scores, listed: Rows, rows: Rows, scores: Scores) -> int:
    """The same among the listed rows, which ascend."""
    count, k, worst = 0, len(rows), np.float32(0.0)
    for row in listed:
        if sums[np.uint64(row)] > worst:
            count = _place(row, sums[np.uint64(row)], count, rows, scores)
            if count == k:
                worst = scores[k - 1]
    return count


@compiled()
def _place(row: int, score: float, count: int, rows: Rows, scores: Scores) -> int:
    """Puts a row behind those that are as good, in front of the worse; the last one falls out when there is no room."""
    place = min(count, len(rows) - 1)
    while place > 0 and scores[place - 1] < score:
        rows[place], scores[place] = rows[place - 1], scores[place - 1]
        place -= 1
    rows[place], scores[place] = row, score
    return min(count + 1, len(rows))
