"""Flat and IVF indexes on a GPU, where faiss has one: the same searches, by another index.

Only builds of faiss with cuVS honour a selector of rows there; the others ignore it without a word, so whoever opens
one of these proves it first. One search at a time: a GPU index is not safe to read from two threads.
"""

import threading

import numpy as np

from rag.data import Vectors
from rag.index.dense.library import FaissIndex, faiss
from rag.index.dense.vectors import StoredVectors, widened
from rag.index.selection import Rows, Scores

_ROWS_AT_ONCE = 65_536


def gpu_available() -> bool:
    """Whether this build of faiss can use a GPU of this machine."""
    return hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0


class GpuFlatIndex:
    """The vectors in a GPU's memory, in their own precision."""

    def __init__(self, vectors: StoredVectors) -> None:
        self._lock, self._resources = threading.Lock(), faiss.StandardGpuResources()
        settings = faiss.GpuIndexFlatConfig()
        settings.useFloat16 = vectors.dtype == np.float16
        self._index = faiss.GpuIndexFlatIP(self._resources, vectors.shape[1], settings)
        for start in range(0, len(vectors), _ROWS_AT_ONCE):
            self._index.add(widened(vectors[start : start + _ROWS_AT_ONCE]))
        self.ntotal, self.d = len(vectors), vectors.shape[1]

    def search(self, queries: Vectors, k: int, *, params: object = None) -> tuple[Scores, Rows]:
        """Scores and rows of the k nearest, -1 where there are fewer, as faiss gives them."""
        with self._lock:
            scores, rows = self._index.search(queries, k, params=params)
        return scores, rows


class GpuIvfLists:
    """The lists of an IVF index in a GPU's memory, to be scanned by number."""

    def __init__(self, index: FaissIndex) -> None:
        self._lock, self._resources = threading.Lock(), faiss.StandardGpuResources()
        options = faiss.GpuClonerOptions()
        options.useFloat16 = True  # of the look-up tables, without which codes of more than 48 bytes do not fit
        self._index = faiss.index_cpu_to_gpu(self._resources, 0, index, options)

    def search_preassigned_c(self, *arguments: object) -> None:
        """As `IndexIVF.search_preassigned` of C++."""
        with self._lock:
            self._index.search_preassigned_c(*arguments)
