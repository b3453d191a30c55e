"""Rows of a segment as flags, to count and filter with; on disk and in sums they are bitmaps."""

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap


def row_flags(rows: BitMap, num_rows: int) -> npt.NDArray[np.bool_]:
    """Which of `num_rows` rows are in the bitmap."""
    flags = np.zeros(num_rows, np.bool_)
    flags[np.asarray(rows.to_array(), np.int64)] = True
    return flags
