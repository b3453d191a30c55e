"""Passages -> vectors, for corpora that training holds in memory."""

from collections.abc import Callable, Sequence

import numpy as np

from rag.data import Vectors
from rag.protocols import Embedder

_PASSAGES_AT_ONCE = 512


def encode_passages(texts: Sequence[str], embedder: Embedder, progress: Callable[[int, int], None]) -> Vectors:
    """The vectors of the texts, in their order; `progress` is told how many of how many are done."""
    parts = [np.empty((0, embedder.dim), np.float32)]
    for start in range(0, len(texts), _PASSAGES_AT_ONCE):
        parts.append(embedder.embed_passages(texts[start : start + _PASSAGES_AT_ONCE]))
        progress(min(start + _PASSAGES_AT_ONCE, len(texts)), len(texts))
    return np.concatenate(parts)
