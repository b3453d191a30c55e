"""The dense index of one segment: planned for each caller, exact where it can be, ANN where it pays."""

import logging
from pathlib import Path
from typing import Protocol

import numpy as np

from rag.config import DenseIndexConfig, DenseKind, PlanConfig
from rag.data import Vector
from rag.errors import ConfigError, IndexMismatch
from rag.index.access import RowMask
from rag.index.dense.build import Calibration, build_index, calibrate_hnsw, calibrate_ivf, recall_of, sample_queries
from rag.index.dense.exact import ExactSearch
from rag.index.dense.gpu import GpuFlatIndex, GpuIvfLists, gpu_available
from rag.index.dense.hnsw import HnswIndex
from rag.index.dense.ivf import IvfIndex, IvfSettings
from rag.index.dense.library import FaissIndex, faiss
from rag.index.dense.selector import prove_selector
from rag.index.dense.vectors import StoredVectors, exact_scores, widened
from rag.index.files import reading
from rag.index.selection import Rows, Scores
from rag.search.plan import plan_dense

logger = logging.getLogger(__name__)

DENSE, CALIBRATION = "dense.faiss", "dense.json"  # in the folder of a segment that has an ANN structure


class AnnIndex(Protocol):
    """An ANN structure over the rows of a segment."""

    def search(self, query: Vector, k: int, allowed: RowMask, widening: float = 1.0) -> tuple[Rows, Scores] | None:
        """The k best of the allowed rows with their exact scores, best first; None where it can't vouch for them.

        `widening` is how many times as many rows have to be looked at for as many allowed ones as without a mask.
        """
        ...

    def scan(self, query: Vector, k: int, allowed: RowMask) -> tuple[Rows, Scores]:
        """Up to k allowed rows near the query, as the structure itself scores them."""
        ...


class DenseIndex:
    """The vectors of a segment, searched among the rows that a caller may read."""

    def __init__(
        self,
        vectors: StoredVectors,
        ann: AnnIndex | None,
        kind: DenseKind,
        plan: PlanConfig,
        exact: ExactSearch | None = None,
    ) -> None:
        """`kind` is that of the structure, flat where there is none; `exact` is the exact search, on the processor if
        left out.

        Raises IndexMismatch where a selector of rows is ignored.
        """
        self._vectors, self._ann, self._kind, self._plan = vectors, ann, kind, plan
        self._exact = ExactSearch(vectors) if exact is None else exact
        if ann is not None:
            prove_selector(ann.scan, vectors, kind)

    def search(self, query: Vector, k: int, allowed: RowMask) -> tuple[Rows, Scores, str]:
        """The k best of the allowed rows with their exact scores, best first, ties by row, and how they were found;
        fewer where fewer are allowed."""
        plan = plan_dense(allowed.num_rows, allowed.count, self._kind, self._plan)
        if plan.strategy == "nothing":
            return np.empty(0, np.int64), np.empty(0, np.float32), plan.strategy
        if self._ann is None or plan.strategy == "exact":
            return *self._exact.search(query, k, allowed), "exact"
        strategy: str = self._kind if plan.strategy == "ann" else f"{self._kind} {plan.strategy}"
        found = self._ann.search(query, k, allowed, plan.widening)
        if found is None:
            return *self._exact.search(query, k, allowed), f"{strategy}, then exact"
        return *found, strategy

    def vector(self, row: int) -> Vector:
        """The stored vector of one row, as float32."""
        return widened(self._vectors[row])

    def packed(self, rows: Rows) -> list[bytes]:
        """The vector of each row in float16, as most are stored."""
        return [vector.tobytes() for vector in self._vectors[rows].astype(np.float16, copy=False)]

    def scores(self, query: Vector, rows: Rows) -> Scores:
        """The exact score of each row."""
        return exact_scores(self._vectors, rows, query)


def write_dense_index(directory: Path, vectors: StoredVectors, config: DenseIndexConfig) -> Calibration | None:
    """Writes the ANN structure of the configured kind into a segment's folder, and returns how good it is.

    None, and nothing written, for a flat index: the vectors are all it needs.
    """
    if config.kind == "flat" or len(vectors) < config.min_rows:
        return None
    index = build_index(vectors, config)
    calibration = _calibrated(index, vectors, config)
    faiss.write_index(index, str(directory / DENSE))
    (directory / CALIBRATION).write_text(calibration.model_dump_json(indent=2) + "\n", encoding="ascii")
    return calibration


def open_dense_index(directory: Path, vectors: StoredVectors, config: DenseIndexConfig, plan: PlanConfig) -> DenseIndex:
    """The dense index in a segment's folder; an ANN structure and its vectors stay memory-mapped.

    Raises IndexDamaged and IndexMismatch.
    """
    path = directory / DENSE
    if not path.exists():
        held: StoredVectors = vectors.copy() if config.resident else vectors
        return DenseIndex(held, None, "flat", plan, _exact_search(held, config))
    with reading(path):
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    if index.ntotal != len(vectors) or index.d != vectors.shape[1]:
        raise IndexMismatch(
            f"{path}: faiss index of {index.ntotal} rows x {index.d}, vectors of {len(vectors)} x {vectors.shape[1]}"
        )
    with reading(directory / CALIBRATION):
        calibration = Calibration.model_validate_json((directory / CALIBRATION).read_bytes())
    if calibration.kind == "hnsw":
        ef_search = max(config.ef_search, calibration.ef_search)
        return DenseIndex(vectors, HnswIndex(index, vectors, ef_search), config.kind, plan)
    settings = _ivf_settings(config, calibration.margin)
    if _on_gpu(config):
        on_gpu = IvfIndex(index, vectors, settings, GpuIvfLists(index))
        try:
            return DenseIndex(vectors, on_gpu, config.kind, plan)
        except IndexMismatch as error:
            _stay_on_cpu(config, error)
    return DenseIndex(vectors, IvfIndex(index, vectors, settings), config.kind, plan)


def _calibrated(index: FaissIndex, vectors: StoredVectors, config: DenseIndexConfig) -> Calibration:
    if config.kind == "hnsw":
        ef_search = calibrate_hnsw(index, vectors, config.target_recall)
        found: AnnIndex = HnswIndex(index, vectors, ef_search)
        (sample,) = sample_queries(vectors, _MEASURED, None)
        return Calibration(kind="hnsw", ef_search=ef_search, recall=recall_of(found.search, sample))
    ivf = IvfIndex(index, vectors, _ivf_settings(config, 0.0))
    margin = calibrate_ivf(ivf, vectors, config.target_recall)
    ivf = IvfIndex(index, vectors, _ivf_settings(config, margin))
    recalls = [recall_of(ivf.search, sample) for sample in sample_queries(vectors, _MEASURED, ivf.list_of)]
    return Calibration(
        kind="ivf", margin=margin, recall=recalls[0], masked_recall=recalls[1] if len(recalls) > 1 else None
    )


def _exact_search(vectors: StoredVectors, config: DenseIndexConfig) -> ExactSearch:
    if _on_gpu(config):
        try:
            return ExactSearch(vectors, GpuFlatIndex(vectors))
        except IndexMismatch as error:
            _stay_on_cpu(config, error)
    return ExactSearch(vectors)


def _on_gpu(config: DenseIndexConfig) -> bool:
    """Whether a GPU is to be used. Raises ConfigError where it is wanted and there is none."""
    if config.device == "gpu" and not gpu_available():
        raise ConfigError(
            f"index.dense.device is gpu, but faiss {faiss.__version__} finds no GPU; install faiss-gpu-cuvs"
        )
    return config.device != "cpu" and gpu_available()


def _stay_on_cpu(config: DenseIndexConfig, error: IndexMismatch) -> None:
    """What becomes of a GPU index that does not honour masks: raised when a GPU is wanted, logged when any will do."""
    if config.device == "gpu":
        raise error
    logger.warning("the %s index stays on the processor: %s", config.kind, error)


def _ivf_settings(config: DenseIndexConfig, margin: float) -> IvfSettings:
    return IvfSettings(config.nprobe, config.rescore if config.kind == "ivf_pq" else 1, margin)


_MEASURED = 4321  # the seed of the sample that measures, another one than the sample that sets
