"""The best rows of a segment, chosen the same way by both legs."""

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]


def best_rows(rows: Rows, scores: Scores, k: int) -> tuple[Rows, Scores]:
    """The k best of `rows` with their scores, best first; `rows` ascend, and ties go to the smaller row.

    Rows of a segment are in the order of their chunk ids, so that a tie of rows is a tie of ids.
    """
    if len(rows) > k:
        # All ties of the k-th stay in until the sort: a partition alone would keep an arbitrary few of them.
        kept = np.flatnonzero(scores >= np.partition(scores, len(rows) - k)[len(rows) - k])
        rows, scores = rows[kept], scores[kept]
    order = np.argsort(-scores, kind="stable")[:k]
    return rows[order], scores[order]
