from pathlib import Path

import numpy as np
import pytest

from rag.config import DenseIndexConfig, IndexConfig, RagConfig
from rag.data import Vectors
from rag.index.access import RowMask
from rag.index.dense.build import build_index, calibrate_hnsw, calibrate_ivf, one_thread, recall_of, sample_queries
from rag.index.dense.hnsw import HnswIndex
from rag.index.dense.ivf import IvfIndex, IvfSettings
from rag.index.dense.library import faiss
from tests.rag.index.factories import unit_vectors

NUM_ROWS, DIM, NUM_TOPICS = 2_000, 16, 20
TOPICS = np.arange(NUM_ROWS) % NUM_TOPICS


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    rows = unit_vectors(NUM_TOPICS, DIM, seed=1)[TOPICS] + 0.5 * unit_vectors(NUM_ROWS, DIM, seed=2)
    unit: Vectors = np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)
    return unit


def config_of(kind: str, nlist: int | None = 32) -> DenseIndexConfig:
    return DenseIndexConfig.model_validate({"kind": kind, "nlist": nlist, "m": 8, "ef_construction": 32})


def test_lists_grow_with_the_root_of_the_rows() -> None:
    config = DenseIndexConfig()
    assert [config.lists_for(rows) for rows in (4, 50_000, 250_000, 35_000_000)] == [1, 512, 1024, 16_384]
    assert DenseIndexConfig(nlist=64).lists_for(100) == 25


def test_the_margin_reaches_the_target_for_callers_of_few_topics_too(vectors: Vectors) -> None:
    index = build_index(vectors, config_of("ivf_flat"))
    plain = IvfIndex(index, vectors, IvfSettings(nprobe=1, rescore=1, margin=-10.0))  # one list, and no other
    margin = calibrate_ivf(plain, vectors, 0.99)
    tuned = IvfIndex(index, vectors, IvfSettings(nprobe=1, rescore=1, margin=margin))
    samples = list(sample_queries(vectors, 99, tuned.list_of))
    assert len(samples) == 2
    for sample in samples:
        assert recall_of(tuned.search, sample) >= 0.98
        assert recall_of(plain.search, sample) < 0.9


def test_a_question_from_another_topic_gets_more_lists_and_not_a_worse_answer(vectors: Vectors) -> None:
    index = build_index(vectors, config_of("ivf_flat"))
    ivf = IvfIndex(index, vectors, IvfSettings(nprobe=2, rescore=1, margin=0.0))
    ivf = IvfIndex(index, vectors, IvfSettings(nprobe=2, rescore=1, margin=calibrate_ivf(ivf, vectors, 0.99)))
    mask = RowMask(TOPICS == 4)
    hits = 0
    for query in vectors[TOPICS == 11][:20]:
        rows, _ = ivf.search(query, 10, mask)
        truth = mask.rows()[np.argsort(-(vectors[mask.rows()] @ query), kind="stable")[:10]]
        hits += len(np.intersect1d(rows, truth))
    assert hits >= 0.97 * 200


def test_hnsw_gives_up_where_a_mask_left_nothing_around_the_question(vectors: Vectors) -> None:
    hnsw = HnswIndex(build_index(vectors, config_of("hnsw")), vectors, ef_search=32)
    query = vectors[TOPICS == 11][0]
    assert hnsw.search(query, 10, RowMask(TOPICS == 4), widening=2.0) is None
    found = hnsw.search(query, 10, RowMask(np.isin(TOPICS, range(5, 15))), widening=2.0)
    assert found is not None
    assert len(found[0]) == 10


def test_rows_in_tight_clusters_can_be_reached() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.standard_normal((20, 32)), 200, axis=0) + 0.2 * rng.standard_normal((4_000, 32))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    index = build_index(rows[rng.permutation(4_000)].astype(np.float32), config_of("hnsw"))
    linked = faiss.vector_to_array(index.hnsw.neighbors)
    assert 4_000 - len(np.unique(linked[linked >= 0])) <= 4  # without links that the heuristic prunes: 15


def test_the_breadth_of_hnsw_reaches_the_target_on_another_sample(vectors: Vectors) -> None:
    index = build_index(vectors, config_of("hnsw"))
    ef_search = calibrate_hnsw(index, vectors, 0.99)
    (sample,) = sample_queries(vectors, 99, None)
    assert recall_of(HnswIndex(index, vectors, ef_search).search, sample) >= 0.98


def test_product_codes_take_as_many_bytes_as_the_dimensions_can_be_cut_into(vectors: Vectors) -> None:
    index = build_index(vectors[:600], config_of("ivf_pq").model_copy(update={"pq_bytes": 7}))
    assert (index.pq.M, index.code_size) == (4, 4)


def test_threads_are_what_they_were_after_a_build() -> None:
    before = faiss.omp_get_max_threads()
    with one_thread():
        assert faiss.omp_get_max_threads() == 1
    assert faiss.omp_get_max_threads() == before


def test_only_settings_that_the_files_depend_on_ask_for_another_index() -> None:
    root = Path("nowhere")

    def fingerprint(**dense: object) -> str:
        index = IndexConfig(dense=DenseIndexConfig.model_validate(dense))
        return RagConfig(store=root, var=root, models=root, index=index).index_fingerprint()

    assert fingerprint() == fingerprint(nlist=8) == fingerprint(device="cpu")
    assert fingerprint(kind="ivf_pq") == fingerprint(kind="ivf_pq", nprobe=99, rescore=9, m=8)
    assert fingerprint(kind="hnsw") == fingerprint(kind="hnsw", ef_search=99, nlist=8)
    assert len({fingerprint(kind=kind) for kind in ("flat", "ivf_flat", "ivf_pq", "hnsw")}) == 4
    assert fingerprint(kind="hnsw") != fingerprint(kind="hnsw", m=8)
    assert fingerprint(kind="ivf_pq") != fingerprint(kind="ivf_pq", pq_bytes=48)
