"""Builds the ANN structure of a segment, sets how wide it is searched, and measures its recall against brute force."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from rag.config import DenseIndexConfig
from rag.data import Vector, Vectors
from rag.index.access import RowMask
from rag.index.dense.hnsw import HnswIndex
from rag.index.dense.ivf import IvfIndex
from rag.index.dense.library import FaissIndex, faiss
from rag.index.dense.vectors import StoredVectors, widened
from rag.index.files import Record
from rag.index.selection import Rows, Scores

_SEED = 1234
_SAMPLE = 128  # queries that set the breadth of the search, and as many others that measure what it gives
_SAMPLE_K = 10
_MASKED_SHARE = 0.25  # of the lists, when a caller of few topics is played
_TRAINING_ROWS = 64  # a centroid
_ROWS_AT_ONCE = 50_000
_MOST_EF = 4096
_ROUNDING = 1e-6  # between scores of brute force and exact ones

Search = Callable[[Vector, int, RowMask], tuple[Rows, Scores] | None]


class Calibration(Record):
    """How wide a segment's structure has to be searched, found on a sample when it was built."""

    kind: Literal["ivf", "hnsw"]
    margin: float = 0.0  # of an IVF: see IvfIndex
    ef_search: int = 0  # of an HNSW
    recall: float  # recall@10 against brute force, on another sample
    masked_recall: float | None = None  # the same for a caller who may read a quarter of the clusters


@dataclass(frozen=True, slots=True)
class SampleQueries:
    """Queries of a sample under one mask, and the k rows that brute force finds for each, in any order."""

    vectors: Vectors
    allowed: RowMask
    nearest: npt.NDArray[np.int64]  # (queries, k)
    kth_scores: npt.NDArray[np.float32]  # (queries,), of the k-th nearest


def build_index(vectors: StoredVectors, config: DenseIndexConfig) -> FaissIndex:
    """The faiss index of the configured kind, of the rows in order. On one thread: with more, HNSW and the sums of
    k-means would depend on which thread comes first."""
    num_rows, dim = vectors.shape
    with one_thread():
        if config.kind == "hnsw":
            return _build_hnsw(vectors, config)
        nlist = min(config.lists_for(num_rows), num_rows)
        quantizer = faiss.IndexFlatIP(dim)
        if config.kind == "ivf_pq":
            index: FaissIndex = faiss.IndexIVFPQ(
                quantizer, dim, nlist, _pq_bytes(dim, config.pq_bytes), 8, faiss.METRIC_INNER_PRODUCT
            )
            index.pq.cp.seed, index.pq.cp.niter = _SEED, 8
            index.pq.cp.min_points_per_centroid, index.pq.cp.max_points_per_centroid = 1, _TRAINING_ROWS // 2
        elif vectors.dtype == np.float16:
            index = faiss.IndexIVFScalarQuantizer(
                quantizer, dim, nlist, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT, False
            )
        else:
            index = faiss.IndexIVFFlat(quantizer, dim, nlist, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed, index.cp.niter, index.cp.max_points_per_centroid = _SEED, 10, _TRAINING_ROWS
        index.cp.min_points_per_centroid = 1  # below it faiss only warns
        rng = np.random.default_rng(_SEED)
        sample = np.sort(rng.choice(num_rows, min(num_rows, _TRAINING_ROWS * max(nlist, 256)), replace=False))
        index.train(widened(vectors[sample]))
        for start in range(0, num_rows, _ROWS_AT_ONCE):
            index.add(widened(vectors[start : start + _ROWS_AT_ONCE]))
        return index


def calibrate_ivf(index: IvfIndex, vectors: StoredVectors, target_recall: float) -> float:
    """The margin that covers all but half of the misses that the target allows, for callers of all topics and of few.

    See IvfIndex: how far below the k-th best row's score the centroid of a true neighbour's list may lie.
    """
    margin = 0.0
    for sample in sample_queries(vectors, _SEED, index.list_of):
        centroid_scores = np.take_along_axis(sample.vectors @ index.centroids.T, index.list_of[sample.nearest], axis=1)
        gaps = sample.kth_scores[:, np.newaxis] - centroid_scores
        margin = max(margin, float(np.quantile(gaps, 1 - (1 - target_recall) / 2)))
    return margin


def calibrate_hnsw(index: FaissIndex, vectors: StoredVectors, target_recall: float) -> int:
    """The least power of two for `ef_search` that reaches the target on the sample."""
    ef_search = 16
    sample = next(iter(sample_queries(vectors, _SEED, None)))
    while ef_search < _MOST_EF:
        found = HnswIndex(index, vectors, ef_search)
        if recall_of(found.search, sample) >= target_recall:
            break
        ef_search *= 2
    return ef_search


def sample_queries(vectors: StoredVectors, seed: int, list_of: npt.NDArray[np.int32] | None) -> Iterator[SampleQueries]:
    """Queries between two random rows each, as questions lie between what answers them: first under a mask that lets
    every row through, then, where rows have lists, under one that lets a few random lists through."""
    rng = np.random.default_rng(seed)
    num_rows = len(vectors)
    ends = widened(vectors[rng.integers(0, num_rows, 2 * _SAMPLE)])
    queries = ends[:_SAMPLE] + ends[_SAMPLE:]
    queries /= np.maximum(np.linalg.norm(queries, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    yield _answered(vectors, queries, np.ones(num_rows, np.bool_))
    if list_of is not None:
        few = rng.random(int(list_of.max()) + 1) < _MASKED_SHARE
        if (flags := few[list_of]).any():
            yield _answered(vectors, queries, flags)


def recall_of(search: Search, sample: SampleQueries) -> float:
    """The mean share of the k nearest that a search finds, where any row as near as the k-th counts: equal chunks stand
    in for each other. A search that gives up counts in full, since the exact one takes its place."""
    k = sample.nearest.shape[1]
    shares: list[float] = []
    for query, kth_score in zip(sample.vectors, sample.kth_scores, strict=True):
        found = search(query, k, sample.allowed)
        shares.append(1.0 if found is None else float((found[1] >= kth_score - _ROUNDING).sum()) / k)
    return float(np.mean(shares))


def _answered(vectors: StoredVectors, queries: Vectors, flags: npt.NDArray[np.bool_]) -> SampleQueries:
    rows = np.flatnonzero(flags)
    k = min(_SAMPLE_K, len(rows))
    best = np.full((len(queries), k), -np.inf, np.float32)
    nearest = np.zeros((len(queries), k), np.int64)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE]
        scores = np.concatenate([best, queries @ widened(vectors[block]).T], axis=1)
        places = np.concatenate([nearest, np.broadcast_to(block, (len(queries), len(block)))], axis=1)
        kept = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        best, nearest = np.take_along_axis(scores, kept, axis=1), np.take_along_axis(places, kept, axis=1)
    return SampleQueries(queries, RowMask(flags), nearest, best.min(axis=1))


def _build_hnsw(vectors: StoredVectors, config: DenseIndexConfig) -> FaissIndex:
    dim = vectors.shape[1]
    if vectors.dtype == np.float16:
        index: FaissIndex = faiss.IndexHNSWSQ(dim, faiss.ScalarQuantizer.QT_fp16, config.m, faiss.METRIC_INNER_PRODUCT)
        index.train(widened(vectors[:1]))
    else:
        index = faiss.IndexHNSWFlat(dim, config.m, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = config.ef_construction
    # Without the links that the heuristic prunes, 1.5% of 250,000 rows in tight clusters can't be reached at all.
    index.keep_max_size_level0 = True
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        index.add(widened(vectors[start : start + _ROWS_AT_ONCE]))
    return index


def _pq_bytes(dim: int, wanted: int) -> int:
    """The largest number of sub-vectors up to the wanted one into which the dimensions can be cut."""
    return max(number for number in range(1, min(wanted, dim) + 1) if dim % number == 0)


@contextmanager
def one_thread() -> Iterator[None]:
    """faiss on one thread, for whoever asks from this one."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
