"""Selectors of rows for faiss, and the proof that a backend reads them.

Indexes on a GPU without cuVS take a selector and ignore it; with one of those every permission would be void.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from rag.data import Vector
from rag.errors import IndexMismatch
from rag.index.access import RowMask
from rag.index.dense.library import faiss
from rag.index.dense.vectors import StoredVectors, widened
from rag.index.selection import Rows, Scores

Scan = Callable[[Vector, int, RowMask], tuple[Rows, Scores]]

_PROBES = 4


@contextmanager
def select(allowed: RowMask) -> Iterator[object | None]:
    """A faiss selector of the allowed rows for one search; None where every row is allowed.

    faiss keeps a pointer to the bits, no reference, so the mask has to live as long as the selector.
    """
    yield None if allowed.everything else faiss.IDSelectorBitmap(allowed.bits)


def prove_selector(scan: Scan, vectors: StoredVectors, name: str) -> None:
    """Searches for rows with these rows masked out. Raises IndexMismatch when one comes back all the same."""
    num_rows = len(vectors)
    for row in np.unique(np.linspace(0, num_rows - 1, _PROBES).astype(np.int64)).tolist():
        flags = np.ones(num_rows, np.bool_)
        flags[row] = False
        found, _ = scan(widened(vectors[row : row + 1])[0], min(num_rows, 2), RowMask(flags))
        if row in found.tolist():
            raise IndexMismatch(
                f"{name} of faiss {faiss.__version__} ignores a selector of rows, so permissions can't be enforced; "
                "install faiss-cpu or faiss-gpu-cuvs"
            )
