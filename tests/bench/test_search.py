from pathlib import Path

import numpy as np
import pytest

from bench.search import Opened, PlainFaiss, index_config, make_cells, measure, plot, shard_folders
from bench.search_corpus import SearchCorpus, reader_masks, with_noise
from rag.index.dense.build import one_thread
from tests.rag.index.factories import unit_vectors

NUM_ROWS = 2_000


@pytest.fixture(scope="module")
def corpus() -> SearchCorpus:
    rng = np.random.default_rng(0)
    real = unit_vectors(100, 16)
    sources = np.concatenate([np.arange(100), rng.integers(0, 100, NUM_ROWS - 100)])
    vectors = with_noise(rng, real, sources, NUM_ROWS)
    return SearchCorpus(vectors, (sources % 10).astype(np.int32), sources.astype(np.int32), unit_vectors(6, 16, seed=4))


def test_noise_keeps_real_vectors_and_their_neighbourhoods(corpus: SearchCorpus) -> None:
    np.testing.assert_array_equal(corpus.vectors[:100], unit_vectors(100, 16))
    np.testing.assert_allclose(np.linalg.norm(corpus.vectors, axis=1), 1, atol=1e-5)
    cosines = np.einsum("ij,ij->i", corpus.vectors[100:], corpus.vectors[corpus.sources[100:]])
    assert 0.8 < cosines.mean() < 0.9


@pytest.mark.parametrize("share", [0.1, 0.01, 0.0001])
def test_masks_let_through_their_share_and_topic_masks_few_topics(corpus: SearchCorpus, share: float) -> None:
    for mask in reader_masks(corpus, share, "random", 3):
        assert mask.sum() == max(1, round(share * NUM_ROWS))
    for mask in reader_masks(corpus, share, "topic", 3):
        assert mask.sum() == max(1, round(share * NUM_ROWS))
        assert len(np.unique(corpus.topics[mask])) <= 2
    first, second = (list(reader_masks(corpus, share, "topic", 1)) for _ in range(2))
    assert first[0].tolist() == second[0].tolist()


def test_the_truth_is_brute_force_and_flat_search_has_all_of_it(corpus: SearchCorpus, tmp_path: Path) -> None:
    queries = corpus.queries
    cells = list(make_cells(corpus, queries, (10,)))
    assert len(cells) == 9
    allowed = np.flatnonzero(next(iter(reader_masks(corpus, 0.1, "topic", 1))))
    (cell,) = (cell for cell in cells if cell.name == "10.00% topic")
    for kth, query in zip(cell.kth_scores[10][0], queries, strict=True):
        assert kth == pytest.approx(np.sort(corpus.vectors[allowed] @ query)[-10], abs=1e-6)
    folders = shard_folders(corpus, tmp_path)
    flat = Opened(folders, index_config("flat"))
    plain = PlainFaiss(flat, folders).at(0)
    with one_thread():
        found = measure(
            [(name, s, c) for c in cells for name, s in (("ours", flat.search), ("faiss", plain))], queries, 10
        )
    assert {measured.recall for measured in found.values()} == {1.0}
    assert all(len(measured.times_ms) == len(queries) for measured in found.values())
    assert flat.bytes_per_vector() == 64


def test_the_plot_shows_every_kind(tmp_path: Path) -> None:
    names = ["all", "10.00% topic", "1.00% topic", "0.10% topic"]
    cells = [{"cell": name, "recall": 1.0, "p50_ms": 2.0} for name in names]
    curve = [{"search": "faiss 4", "cell": name, "recall": 0.5, "p50_ms": 1.0} for name in names]
    plot({"kinds": {"flat": {"cells": cells, "faiss": curve}}}, tmp_path / "search.png")
    assert (tmp_path / "search.png").stat().st_size > 10_000
