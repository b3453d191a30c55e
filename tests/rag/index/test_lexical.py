from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from rag.config import LexicalIndexConfig
from rag.index.access import RowMask, row_mask
from rag.index.lexical import BM25, count_terms, open_term_frequencies, write_term_frequencies
from rag.index.statistics import merge_statistics

CONFIG = LexicalIndexConfig(k1=1.3, b=0.6)


def zipf_corpus(num_rows: int, seed: int = 0) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    return [[f"t{term}" for term in rng.zipf(1.4, rng.integers(1, 60)) if term < 400] for _ in range(num_rows)]


def indexed(rows: list[list[str]], parts: int = 1) -> list[BM25]:
    counted = [count_terms(rows[part::parts]) for part in range(parts)]
    statistics = merge_statistics(part.statistics(np.ones(len(part.lengths), np.bool_)) for part in counted)
    return [BM25(part, statistics, CONFIG) for part in counted]


def everything(num_rows: int) -> RowMask:
    return row_mask(BitMap(range(num_rows)), num_rows)


SAMPLE = zipf_corpus(400, seed=3)
(INDEXED,) = indexed(SAMPLE)


def test_scores_equal_those_of_a_plain_bm25s_index() -> None:
    rows = zipf_corpus(300)
    plain = bm25s.BM25(k1=CONFIG.k1, b=CONFIG.b, method="lucene")
    plain.index(rows, show_progress=False)
    (ours,) = indexed(rows)
    for query in (["t1"], ["t3", "t7", "t250"], ["t2", "t2", "t9"], ["t5", "unknown"]):
        np.testing.assert_allclose(ours.scores(query), plain.get_scores(query), atol=1e-5)


@pytest.mark.parametrize("parts", [2, 5])
def test_scores_are_the_same_bits_in_whatever_segment_a_row_lies(parts: int) -> None:
    rows = zipf_corpus(200, seed=1)
    (whole,) = indexed(rows)
    pieces = indexed(rows, parts)
    for query in (["t1", "t4", "t17", "t4"], [f"t{term}" for term in range(40, 0, -1)]):
        expected = whole.scores(query)
        for part, piece in enumerate(pieces):
            assert piece.scores(query).tobytes() == expected[part::parts].tobytes()


def test_the_order_of_the_words_in_a_query_changes_no_bit() -> None:
    (ours,) = indexed(zipf_corpus(100))
    query = [f"t{term}" for term in range(1, 30)]
    assert ours.scores(query).tobytes() == ours.scores(query[::-1]).tobytes()


@settings(deadline=None)
@given(
    seed=st.integers(0, 50),
    share=st.sampled_from([0.0, 0.03, 0.5, 1.0]),
    query=st.lists(st.sampled_from([f"t{n}" for n in range(1, 40)]), min_size=1, max_size=5),
    k=st.integers(1, 40),
)
def test_a_search_gives_the_best_allowed_rows_with_the_bits_of_their_scores(
    seed: int, share: float, query: list[str], k: int
) -> None:
    allowed = np.random.default_rng(seed).random(len(SAMPLE)) < share
    rows, scores = INDEXED.search(query, k, RowMask(allowed))
    everything = INDEXED.scores(query)
    matching = np.flatnonzero((everything > 0) & allowed)
    expected = matching[np.argsort(-everything[matching], kind="stable")[:k]]
    assert rows.tolist() == expected.tolist()
    assert scores.tobytes() == everything[rows].tobytes() == INDEXED.scores_of(query, rows).tobytes()


def test_the_scores_of_any_rows_are_those_of_a_full_pass() -> None:
    query = ["t1", "t5", "t1", "t33", "unknown"]
    everything = INDEXED.scores(query)
    some = np.arange(0, len(SAMPLE), 7)
    assert INDEXED.scores_of(query, some).tobytes() == everything[some].tobytes()
    assert INDEXED.scores_of([], some).tolist() == [0.0] * len(some)


def test_an_unknown_word_matches_nothing() -> None:
    (ours,) = indexed([["a"], ["b"]])
    for query in (["zebra"], []):
        rows, scores = ours.search(query, 5, everything(2))
        assert (len(rows), len(scores)) == (0, 0)


def test_rows_behind_the_mask_do_not_fill_up_the_results() -> None:
    (ours,) = indexed([["a"], ["a"], ["a", "a"], ["a"], ["b"]])
    rows, scores = ours.search(["a"], 4, row_mask(BitMap([1, 4]), 5))
    assert rows.tolist() == [1]
    assert (scores > 0).all()


def test_ties_go_to_the_smaller_row() -> None:
    (ours,) = indexed([["a", "b"]] * 9)
    rows, _ = ours.search(["a"], 3, everything(9))
    assert rows.tolist() == [0, 1, 2]


def test_a_segment_without_any_term_can_be_written_and_searched(tmp_path: Path) -> None:
    write_term_frequencies(tmp_path / "lexical", count_terms([[], []]))
    frequencies = open_term_frequencies(tmp_path / "lexical")
    statistics = frequencies.statistics(np.ones(2, np.bool_))
    assert (statistics.num_chunks, statistics.total_length) == (2, 0)
    assert BM25(frequencies, statistics, CONFIG).scores(["a"]).tolist() == [0.0, 0.0]


def test_files_hold_what_was_counted(tmp_path: Path) -> None:
    counted = count_terms(zipf_corpus(50))
    write_term_frequencies(tmp_path / "lexical", counted)
    opened = open_term_frequencies(tmp_path / "lexical")
    assert opened.vocabulary == counted.vocabulary
    for name in ("indptr", "rows", "frequencies", "lengths"):
        written, read = getattr(counted, name), getattr(opened, name)
        assert read.dtype == written.dtype
        assert read.tolist() == written.tolist()
