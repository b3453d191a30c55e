import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rag.index.selection import best_rows


@given(scores=st.lists(st.integers(0, 3), max_size=120), k=st.integers(1, 60))
def test_the_best_rows_come_first_and_ties_go_to_the_smaller_row(scores: list[int], k: int) -> None:
    rows = np.arange(len(scores), dtype=np.int64) * 2
    found, found_scores = best_rows(rows, np.array(scores, np.float32), k)
    expected = sorted(zip(scores, rows.tolist(), strict=True), key=lambda item: (-item[0], item[1]))[:k]
    assert list(zip(found_scores.tolist(), found.tolist(), strict=True)) == expected
