"""What every dense backend promises, whatever it is made of."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyroaring import BitMap

from rag.config import DenseIndexConfig, PlanConfig
from rag.data import Vector, Vectors
from rag.errors import ConfigError, IndexDamaged, IndexMismatch
from rag.index.access import RowMask, row_mask
from rag.index.dense.gpu import gpu_available
from rag.index.dense.index import AnnIndex, DenseIndex, open_dense_index, write_dense_index
from rag.index.dense.vectors import StoredVectors, exact_scores, store_vectors
from rag.index.selection import Rows, Scores
from tests.rag.index.factories import unit_vectors

KINDS: dict[str, dict[str, Any]] = {  # Any: settings of a kind
    "flat": {},
    "ivf_flat": {"nlist": 16, "nprobe": 2},
    "ivf_pq": {"nlist": 16, "nprobe": 2, "pq_bytes": 8},
    "hnsw": {"m": 16, "ef_construction": 40},
}
NUM_ROWS, DIM, NUM_TOPICS = 1_200, 16, 12
NEVER_EXACT = PlanConfig(exact_rows=0, exact_share=0.0, exact_share_hnsw=0.0)
TOPICS = np.arange(NUM_ROWS) % NUM_TOPICS


def corpus() -> StoredVectors:
    """Twelve topics, so that masks can follow them; rows 40 to 59 are the same vector."""
    vectors = unit_vectors(NUM_TOPICS, DIM, seed=1)[TOPICS] + 0.4 * unit_vectors(NUM_ROWS, DIM)
    vectors[40:60] = vectors[40]
    return store_vectors(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), "float32")


def config_of(kind: str) -> DenseIndexConfig:
    return DenseIndexConfig.model_validate({"kind": kind, "min_rows": 256, **KINDS[kind]})


# Where there is a GPU that honours masks, its indexes keep the same contract.
DEVICES = ("cpu", "gpu") if gpu_available() else ("cpu",)


@pytest.fixture(scope="module", params=list(itertools.product(KINDS, ("float32", "float16"), DEVICES)), ids=str)
def backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[DenseIndex, StoredVectors]:
    """The backend opened from its memory-mapped files, never by way of the exact search alone."""
    kind, dtype, device = request.param
    directory = tmp_path_factory.mktemp(kind)
    np.save(directory / "vectors.npy", corpus().astype(dtype))
    vectors = np.asarray(np.load(directory / "vectors.npy", mmap_mode="r"))
    config = config_of(kind).model_copy(update={"device": device})
    write_dense_index(directory, vectors, config)
    return open_dense_index(directory, vectors, config, NEVER_EXACT), vectors


Backend = tuple[DenseIndex, StoredVectors]
QUERIES = unit_vectors(20, DIM, seed=7)
MASKS = {
    "everything": np.ones(NUM_ROWS, np.bool_),
    "random half": np.random.default_rng(0).random(NUM_ROWS) < 0.5,
    "random few": np.random.default_rng(1).random(NUM_ROWS) < 0.02,
    "two topics": np.isin(TOPICS, (3, 8)),
    "one topic": TOPICS == 5,
    "one row": np.arange(NUM_ROWS) == 777,
}


def truth(vectors: StoredVectors, query: Vector, mask: RowMask, k: int) -> tuple[list[int], list[float]]:
    rows = mask.rows()
    scores = exact_scores(vectors, rows, query)
    best = np.argsort(-scores, kind="stable")[:k]
    return rows[best].tolist(), scores[best].tolist()


@pytest.mark.parametrize("name", MASKS)
def test_only_allowed_rows_come_back_with_exact_scores_and_nearly_all_that_should(backend: Backend, name: str) -> None:
    dense, vectors = backend
    mask, k, hits = RowMask(MASKS[name]), 10, 0
    for query in QUERIES:
        rows, scores, _ = dense.search(query, k, mask)
        assert mask.contains(rows).all()
        assert scores.tobytes() == exact_scores(vectors, rows, query).tobytes()
        assert len(rows) == min(k, mask.count)
        assert list(zip(-scores, rows, strict=True)) == sorted(zip(-scores, rows, strict=True))
        hits += len(set(rows.tolist()) & set(truth(vectors, query, mask, k)[0]))
    assert hits >= 0.97 * len(QUERIES) * min(k, mask.count)


def test_more_than_there_are_gives_all_there_are(backend: Backend) -> None:
    dense, vectors = backend
    mask = row_mask(BitMap(range(100, 130)), NUM_ROWS)
    rows, scores, _ = dense.search(QUERIES[0], 50, mask)
    assert (rows.tolist(), scores.tolist()) == truth(vectors, QUERIES[0], mask, 50)


def test_an_empty_mask_gives_nothing(backend: Backend) -> None:
    rows, scores, strategy = backend[0].search(QUERIES[0], 5, row_mask(BitMap(), NUM_ROWS))
    assert (len(rows), len(scores), strategy) == (0, 0, "nothing")


def test_equal_vectors_come_in_the_order_of_rows(backend: Backend) -> None:
    dense, _ = backend
    query = dense.vector(40)
    for allowed in (range(NUM_ROWS), range(40, 60)):
        rows, _, _ = dense.search(query, 20, row_mask(BitMap(allowed), NUM_ROWS))
        assert rows.tolist() == list(range(40, 60))


def test_a_search_is_the_same_every_time(backend: Backend) -> None:
    dense, _ = backend
    mask = RowMask(MASKS["random half"])
    found = [[part.tobytes() for part in dense.search(query, 10, mask)[:2]] for query in QUERIES]
    assert found == [[part.tobytes() for part in dense.search(query, 10, mask)[:2]] for query in QUERIES]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_vectors_give_equal_files(kind: str, tmp_path: Path) -> None:
    written: list[dict[str, bytes]] = []
    for turn in "ab":
        (tmp_path / turn).mkdir()
        calibration = write_dense_index(tmp_path / turn, corpus(), config_of(kind))
        written.append({path.name: path.read_bytes() for path in (tmp_path / turn).iterdir()})
        assert (calibration is None) == (kind == "flat")
        assert calibration is None or calibration.recall >= 0.97
    assert written[0] == written[1]
    assert bool(written[0]) == (kind != "flat")


def test_a_small_segment_is_flat_whatever_the_kind(tmp_path: Path) -> None:
    assert write_dense_index(tmp_path, corpus()[:255], config_of("hnsw")) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["ivf_flat", "ivf_pq", "hnsw"])
def test_damaged_or_foreign_files_are_refused(kind: str, tmp_path: Path) -> None:
    vectors, config = corpus(), config_of(kind)
    write_dense_index(tmp_path, vectors, config)
    with pytest.raises(IndexMismatch, match="1200 rows"):
        open_dense_index(tmp_path, vectors[:-1], config, NEVER_EXACT)
    content = (tmp_path / "dense.faiss").read_bytes()
    (tmp_path / "dense.faiss").write_bytes(content[:200])
    with pytest.raises(IndexDamaged, match=r"dense\.faiss"):
        open_dense_index(tmp_path, vectors, config, NEVER_EXACT)
    (tmp_path / "dense.faiss").write_bytes(content)
    (tmp_path / "dense.json").write_text("{}")
    with pytest.raises(IndexDamaged, match=r"dense\.json"):
        open_dense_index(tmp_path, vectors, config, NEVER_EXACT)


class MaskIgnored:
    """An ANN structure that answers from all rows."""

    def __init__(self, vectors: StoredVectors) -> None:
        self._vectors = vectors

    def search(self, query: Vector, k: int, allowed: RowMask, widening: float = 1.0) -> tuple[Rows, Scores] | None:
        return self.scan(query, k, allowed)

    def scan(self, query: Vector, k: int, allowed: RowMask) -> tuple[Rows, Scores]:
        scores = self._vectors @ query
        rows = np.argsort(-scores)[:k]
        return rows, scores[rows]


def test_an_ann_structure_that_ignores_the_mask_is_refused() -> None:
    broken: AnnIndex = MaskIgnored(corpus())
    with pytest.raises(IndexMismatch, match="permissions can't be enforced"):
        DenseIndex(corpus(), broken, "hnsw", NEVER_EXACT)


class IgnoresMasks:
    """A GPU index as a build without cuVS has it."""

    def __init__(self, vectors: StoredVectors) -> None:
        self._vectors, self.ntotal, self.d = vectors, len(vectors), vectors.shape[1]

    def search(self, queries: Vectors, k: int, *, params: object = None) -> tuple[Scores, Rows]:
        scores = queries @ np.asarray(self._vectors, np.float32).T
        rows = np.argsort(-scores, axis=1)[:, :k]
        return np.take_along_axis(scores, rows, axis=1), rows


def test_a_gpu_that_ignores_masks_is_routed_around_or_refused_where_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rag.index.dense.index.gpu_available", lambda: True)
    monkeypatch.setattr("rag.index.dense.index.GpuFlatIndex", IgnoresMasks)
    mask = RowMask(MASKS["one topic"])
    dense = open_dense_index(tmp_path, corpus(), DenseIndexConfig(device="auto"), NEVER_EXACT)
    assert "stays on the processor" in caplog.text
    assert mask.contains(dense.search(QUERIES[0], 10, mask)[0]).all()
    with pytest.raises(IndexMismatch, match="permissions can't be enforced"):
        open_dense_index(tmp_path, corpus(), DenseIndexConfig(device="gpu"), NEVER_EXACT)


def test_a_gpu_that_is_wanted_and_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.index.dense.index.gpu_available", lambda: False)
    with pytest.raises(ConfigError, match="finds no GPU"):
        open_dense_index(tmp_path, corpus(), DenseIndexConfig(device="gpu"), NEVER_EXACT)


def test_vectors_in_memory_and_mapped_ones_give_the_same_answers(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", corpus())
    mapped = np.asarray(np.load(tmp_path / "vectors.npy", mmap_mode="r"))
    mask = RowMask(MASKS["random half"])
    found = [
        open_dense_index(tmp_path, mapped, DenseIndexConfig(resident=resident), NEVER_EXACT).search(
            QUERIES[0], 10, mask
        )
        for resident in (True, False)
    ]
    assert [part.tolist() for part in found[0][:2]] == [part.tolist() for part in found[1][:2]]
