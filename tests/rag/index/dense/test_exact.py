from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pyroaring import BitMap

from rag.data import Vectors
from rag.errors import IndexMismatch
from rag.index.access import row_mask
from rag.index.dense.exact import ExactSearch, FlatSearch
from rag.index.dense.library import FaissIndex, faiss
from rag.index.dense.vectors import exact_scores, store_vectors, widened
from tests.rag.index.factories import unit_vectors

# Small integers: float32 sums of them are exact, so equal means equal.
corpora = arrays(np.float32, st.tuples(st.integers(1, 90), st.just(4)), elements=st.integers(-3, 3))


@settings(deadline=None)
@given(vectors=corpora, k=st.integers(1, 12), data=st.data())
def test_search_equals_brute_force_among_the_allowed_rows(vectors: Vectors, k: int, data: st.DataObject) -> None:
    allowed = data.draw(st.sets(st.integers(0, len(vectors) - 1)))
    query = data.draw(arrays(np.float32, 4, elements=st.integers(-3, 3)))
    rows, scores = ExactSearch(vectors).search(query, k, row_mask(BitMap(allowed), len(vectors)))
    truth = sorted((-float(vectors[row] @ query), row) for row in allowed)[:k]
    assert list(zip((-scores).tolist(), rows.tolist(), strict=True)) == truth


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("step", [1, 3, 9])
def test_search_is_exact_where_faiss_does_the_narrowing(dtype: str, step: int) -> None:
    vectors, query = store_vectors(unit_vectors(3_000, 48), dtype), unit_vectors(1, 48, seed=9)[0]
    allowed = list(range(0, 3_000, step))
    rows, scores = ExactSearch(vectors).search(query, 20, row_mask(BitMap(allowed), 3_000))
    truth = exact_scores(vectors, np.array(allowed), query)
    assert rows.tolist() == [allowed[place] for place in np.argsort(-truth, kind="stable")[:20]]
    np.testing.assert_allclose(scores, widened(vectors[rows]) @ query, atol=1e-6)


class TiesTheOtherWay:
    """A flat index in which ties go to the larger row, as an index with another heap or on a GPU may have it."""

    def __init__(self, index: FaissIndex) -> None:
        self._index, self.ntotal, self.d = index, index.ntotal, index.d

    def search(self, queries: Vectors, k: int, *, params: object) -> tuple[Vectors, Vectors]:
        scores, rows = self._index.search(queries, self.ntotal, params=params)
        order = np.lexsort((-rows[0], -scores[0]))[:k]
        return scores[:, order], rows[:, order]


def test_ties_go_to_the_smaller_row_whatever_faiss_makes_of_them() -> None:
    vectors = np.repeat(unit_vectors(2, 8), [3, 2_000], axis=0)
    index = faiss.IndexFlatIP(8)
    index.add(vectors)
    for backend in (None, index, cast(FlatSearch, TiesTheOtherWay(index))):
        for allowed in (range(2_003), range(800)):
            rows, _ = ExactSearch(vectors, backend).search(vectors[-1], 5, row_mask(BitMap(allowed), 2_003))
            assert rows.tolist() == [3, 4, 5, 6, 7]


def test_a_score_is_the_same_bits_whatever_is_scored_beside_it() -> None:
    vectors, query = unit_vectors(1_000, 384), unit_vectors(1, 384, seed=5)[0]
    together = exact_scores(vectors, np.arange(1_000), query)
    alone = np.concatenate([exact_scores(vectors[row : row + 1].copy(), np.array([0]), query) for row in range(1_000)])
    turned = exact_scores(np.ascontiguousarray(vectors[:, ::-1]), np.arange(1_000), query[::-1].copy())
    assert together.tobytes() == alone.tobytes() == turned.tobytes()
    np.testing.assert_allclose(together, vectors @ query, atol=1e-6)


def test_widening_is_what_numpy_does() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(-1, 4)
    np.testing.assert_array_equal(widened(halves), halves.astype(np.float32))
    floats = unit_vectors(3)
    assert widened(floats) is floats


class SelectorIgnored:
    """A flat index that takes search parameters and does not read them, as those on a GPU without cuVS do."""

    def __init__(self, index: FaissIndex) -> None:
        self._index, self.ntotal, self.d = index, index.ntotal, index.d

    def search(self, queries: Vectors, k: int, *, params: object = None) -> tuple[Vectors, Vectors]:
        scores, rows = self._index.search(queries, k)
        return scores, rows


@pytest.mark.parametrize("num_rows", [1, 2, 50])
def test_a_backend_that_ignores_selectors_is_refused(num_rows: int) -> None:
    vectors = unit_vectors(num_rows)
    index = faiss.IndexFlatIP(4)
    index.add(vectors)
    ExactSearch(vectors, index)
    with pytest.raises(IndexMismatch, match="permissions can't be enforced"):
        ExactSearch(vectors, cast(FlatSearch, SelectorIgnored(index)))


def test_an_index_of_other_vectors_is_refused() -> None:
    index = faiss.IndexFlatIP(4)
    index.add(unit_vectors(3))
    with pytest.raises(IndexMismatch, match="3 rows"):
        ExactSearch(unit_vectors(4), index)
