from pathlib import Path
from typing import cast

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pyroaring import BitMap

from rag.data import Vectors
from rag.errors import IndexDamaged, IndexMismatch
from rag.index.access import row_mask
from rag.index.dense import FlatIndex, exact_scores, open_flat_index, store_vectors, write_flat_index
from tests.rag.index.factories import unit_vectors

# Small integers: float32 sums of them are exact, so equal means equal.
corpora = arrays(np.float32, st.tuples(st.integers(1, 90), st.just(4)), elements=st.integers(-3, 3))


def flat(vectors: Vectors) -> FlatIndex:
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return FlatIndex(index, vectors)


@settings(deadline=None)
@given(vectors=corpora, k=st.integers(1, 12), data=st.data())
def test_search_equals_brute_force_among_the_allowed_rows(vectors: Vectors, k: int, data: st.DataObject) -> None:
    allowed = data.draw(st.sets(st.integers(0, len(vectors) - 1)))
    query = data.draw(arrays(np.float32, 4, elements=st.integers(-3, 3)))
    rows, scores = flat(vectors).search(query, k, row_mask(BitMap(allowed), len(vectors)))
    truth = sorted((-float(vectors[row] @ query), row) for row in allowed)[:k]
    assert list(zip((-scores).tolist(), rows.tolist(), strict=True)) == truth


def test_search_is_exact_where_faiss_does_the_narrowing() -> None:
    vectors, query = unit_vectors(3_000, 48), unit_vectors(1, 48, seed=9)[0]
    allowed = list(range(0, 3_000, 3))
    rows, scores = flat(vectors).search(query, 20, row_mask(BitMap(allowed), 3_000))
    truth = exact_scores(vectors, np.array(allowed), query)
    assert rows.tolist() == [allowed[place] for place in np.argsort(-truth, kind="stable")[:20]]
    np.testing.assert_allclose(scores, vectors[rows] @ query, atol=1e-6)


class TiesTheOtherWay:
    """A flat index in which ties go to the larger row, as an index with another heap or on a GPU may have it."""

    def __init__(self, index: faiss.IndexFlatIP) -> None:
        self._index, self.ntotal, self.d = index, index.ntotal, index.d

    def search(self, queries: Vectors, k: int, params: faiss.SearchParameters) -> tuple[Vectors, Vectors]:
        scores, rows = self._index.search(queries, self.ntotal, params=params)
        order = np.lexsort((-rows[0], -scores[0]))[:k]
        return scores[:, order], rows[:, order]


def test_ties_go_to_the_smaller_row_whatever_faiss_makes_of_them() -> None:
    vectors = np.repeat(unit_vectors(2, 8), [3, 2_000], axis=0)
    index = faiss.IndexFlatIP(8)
    index.add(vectors)
    for backend in (index, TiesTheOtherWay(index)):
        flat_index = FlatIndex(cast(faiss.Index, backend), vectors)
        rows, _ = flat_index.search(vectors[-1], 5, row_mask(BitMap(range(2_003)), 2_003))
        assert rows.tolist() == [3, 4, 5, 6, 7]


def test_a_score_is_the_same_bits_whatever_is_scored_beside_it() -> None:
    vectors, query = unit_vectors(1_000, 384), unit_vectors(1, 384, seed=5)[0]
    together = exact_scores(vectors, np.arange(1_000), query)
    alone = np.concatenate([exact_scores(vectors[row : row + 1].copy(), np.array([0]), query) for row in range(1_000)])
    turned = exact_scores(np.ascontiguousarray(vectors[:, ::-1]), np.arange(1_000), query[::-1].copy())
    assert together.tobytes() == alone.tobytes() == turned.tobytes()
    np.testing.assert_allclose(together, vectors @ query, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_file_is_searched_like_the_vectors_that_were_written(tmp_path: Path, dtype: str) -> None:
    stored = store_vectors(unit_vectors(500, 16), dtype)
    write_flat_index(tmp_path / "dense.faiss", stored)
    query, everything = unit_vectors(1, 16, seed=2)[0], row_mask(BitMap(range(500)), 500)
    rows, scores = open_flat_index(tmp_path / "dense.faiss", stored).search(query, 7, everything)
    truth = exact_scores(stored, np.arange(500), query)
    assert rows.tolist() == np.argsort(-truth, kind="stable")[:7].tolist()
    assert scores.tolist() == truth[rows].tolist()


class SelectorIgnored:
    """A flat index that takes search parameters and does not read them, as those on a GPU without cuVS do."""

    def __init__(self, index: faiss.IndexFlatIP) -> None:
        self._index, self.ntotal, self.d = index, index.ntotal, index.d

    def search(self, queries: Vectors, k: int, params: object = None) -> tuple[Vectors, Vectors]:
        scores, rows = self._index.search(queries, k)
        return scores, rows


@pytest.mark.parametrize("num_rows", [1, 2, 50])
def test_a_backend_that_ignores_selectors_is_refused(num_rows: int) -> None:
    vectors = unit_vectors(num_rows)
    index = faiss.IndexFlatIP(4)
    index.add(vectors)
    FlatIndex(index, vectors)
    with pytest.raises(IndexMismatch, match="permissions can't be enforced"):
        FlatIndex(cast(faiss.Index, SelectorIgnored(index)), vectors)


def test_an_index_of_other_vectors_is_refused() -> None:
    index = faiss.IndexFlatIP(4)
    index.add(unit_vectors(3))
    with pytest.raises(IndexMismatch, match="3 rows"):
        FlatIndex(index, unit_vectors(4))


def test_a_file_that_is_cut_short_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "dense.faiss"
    write_flat_index(path, unit_vectors(50))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(IndexDamaged, match=r"dense\.faiss"):
        open_flat_index(path, unit_vectors(50))
