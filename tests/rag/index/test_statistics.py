from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.index.lexical import count_terms
from rag.index.statistics import CorpusStatistics, merge_statistics, statistics_from_bytes

documents = st.lists(st.lists(st.sampled_from("abcdé"), max_size=6), min_size=1, max_size=8)


def counted(rows: list[list[str]]) -> CorpusStatistics:
    frequencies = Counter(term for row in rows for term in set(row))
    terms = sorted(frequencies)
    return CorpusStatistics(
        len(rows),
        sum(map(len, rows)),
        pa.array(terms, pa.string()),
        pa.array([frequencies[term] for term in terms], pa.int64()),
    )


@settings(deadline=None)
@given(parts=st.lists(documents, max_size=4))
def test_parts_add_up_to_the_whole(parts: list[list[list[str]]]) -> None:
    whole = [row for part in parts for row in part]
    assert merge_statistics(counted(part) for part in parts) == counted(whole)


@settings(deadline=None)
@given(rows=documents, data=st.data())
def test_only_live_rows_are_counted(rows: list[list[str]], data: st.DataObject) -> None:
    live = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), np.bool_)
    assert count_terms(rows).statistics(live) == counted([row for row, alive in zip(rows, live, strict=True) if alive])


@settings(max_examples=20, deadline=None)
@given(rows=documents)
def test_a_file_holds_what_was_written(rows: list[list[str]]) -> None:
    assert statistics_from_bytes(counted(rows).to_bytes()) == counted(rows)


def test_an_unknown_term_is_in_no_chunk() -> None:
    statistics = counted([["a", "b"], ["a"]])
    assert statistics.frequencies_of(pa.array(["b", "zebra", "a"])).tolist() == [1, 0, 2]
    assert merge_statistics([]).frequencies_of(pa.array(["a"])).tolist() == [0]
    assert statistics.average_length == 1.5
