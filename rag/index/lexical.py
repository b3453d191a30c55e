"""BM25 over one segment: term frequencies on disk, impacts from corpus-wide statistics in memory."""

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag.config import LexicalIndexConfig
from rag.index.access import RowMask
from rag.index.files import mapped_array, reading
from rag.index.postings import add_impacts, best_listed_sums, best_sums
from rag.index.selection import Rows, Scores
from rag.index.statistics import CorpusStatistics

VOCABULARY = "vocabulary.arrow"
_VOCABULARY_SCHEMA = pa.schema([("term", pa.string())])
_LISTED_SHARE = 0.1  # below it the allowed rows are walked one by one, above it all rows are, in order
_ARRAYS = {"indptr": np.int64, "rows": np.int32, "frequencies": np.int32, "lengths": np.int32}


@dataclass(frozen=True, slots=True)
class TermFrequencies:
    """How often each term occurs in each row, term by term; nothing here depends on other segments."""

    vocabulary: pa.Array  # strings, sorted
    indptr: npt.NDArray[np.int64]  # postings of term t are at indptr[t]:indptr[t + 1]
    rows: npt.NDArray[np.int32]  # ascending within a term
    frequencies: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]  # terms of each row

    def statistics(self, live: npt.NDArray[np.bool_]) -> CorpusStatistics:
        """The counts over the rows that are live."""
        seen = np.concatenate([[0], np.cumsum(live[self.rows])])
        counts = seen[self.indptr[1:]] - seen[self.indptr[:-1]]
        kept = counts > 0
        return CorpusStatistics(
            num_chunks=int(live.sum()),
            total_length=int(self.lengths[live].sum(dtype=np.int64)),
            terms=self.vocabulary.filter(pa.array(kept)),
            document_frequencies=pa.array(counts[kept], pa.int64()),
        )


def count_terms(rows: Iterable[Sequence[str]]) -> TermFrequencies:
    """The term frequencies of a segment whose row i holds the i-th sequence of terms."""
    numbers: dict[str, int] = {}
    lengths: list[int] = []
    occurrences: list[int] = []
    for terms in rows:
        lengths.append(len(terms))
        occurrences.extend([numbers.setdefault(term, len(numbers)) for term in terms])

    vocabulary = sorted(numbers)
    place = np.empty(len(numbers), np.int64)
    place[[numbers[term] for term in vocabulary]] = np.arange(len(numbers))
    row_of_occurrence = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    num_rows = max(len(lengths), 1)
    term_of_occurrence = place[np.asarray(occurrences, np.int64)]
    postings, frequencies = np.unique(term_of_occurrence * num_rows + row_of_occurrence, return_counts=True)
    return TermFrequencies(
        vocabulary=pa.array(vocabulary, pa.string()),
        indptr=np.searchsorted(postings, np.arange(len(numbers) + 1, dtype=np.int64) * num_rows).astype(np.int64),
        rows=(postings % num_rows).astype(np.int32),
        frequencies=frequencies.astype(np.int32),
        lengths=np.asarray(lengths, np.int32),
    )


def write_term_frequencies(directory: Path, frequencies: TermFrequencies) -> None:
    """Writes the arrays and the vocabulary into the folder, which is made."""
    directory.mkdir()
    table = pa.Table.from_arrays([frequencies.vocabulary], schema=_VOCABULARY_SCHEMA)
    with pa.OSFile(str(directory / VOCABULARY), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    for name, dtype in _ARRAYS.items():
        np.save(directory / f"{name}.npy", np.ascontiguousarray(getattr(frequencies, name), dtype))


def open_term_frequencies(directory: Path) -> TermFrequencies:
    """The term frequencies in the folder, memory-mapped. Raises IndexDamaged."""
    path = directory / VOCABULARY
    with reading(path):
        column = pa.ipc.open_file(pa.memory_map(str(path))).read_all().column("term")
        vocabulary = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())
    arrays = {name: mapped_array(directory / f"{name}.npy") for name in _ARRAYS}
    return TermFrequencies(vocabulary=vocabulary, **arrays)


class BM25:
    """BM25, Lucene's variant, of the rows of one segment, on the statistics of the whole corpus.

    A row scores the same to the last bit in whatever segment it lies: its impacts are made of integers that do not
    depend on the segment, and they are added in the order of the terms. bm25s gives the same scores, and no way to
    leave rows out: its own top k returns rows that match nothing, and rows behind its mask, with score 0.

    Source: Kamphuis, de Vries, Boytsov and Lin, ECIR 2020.
    """

    def __init__(self, frequencies: TermFrequencies, statistics: CorpusStatistics, config: LexicalIndexConfig) -> None:
        self._indptr, self._rows = frequencies.indptr, frequencies.rows.view(np.uint32)
        self._impacts = _impacts(frequencies, statistics, config)
        self._num_rows = len(frequencies.lengths)
        self._number_of = {term: number for number, term in enumerate(frequencies.vocabulary.to_pylist())}
        self._scratch = threading.local()

    def search(self, terms: Sequence[str], k: int, allowed: RowMask) -> tuple[Rows, Scores]:
        """The k best of the allowed rows that hold one of the terms, best first, ties by row; fewer where fewer do.

        A repeated term counts again.
        """
        numbers = self._numbers(terms)
        if not len(numbers) or not allowed.count or k < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        sums = self._sums()
        add_impacts(numbers, self._indptr, self._rows, self._impacts, sums)
        rows, scores = np.empty(k, np.int64), np.empty(k, np.float32)
        if allowed.count < _LISTED_SHARE * allowed.num_rows:
            count = best_listed_sums(sums, allowed.rows(), rows, scores)
        else:
            count = best_sums(sums, allowed.bits, rows, scores)
        sums.fill(0.0)
        return rows[:count], scores[:count]

    def scores(self, terms: Sequence[str]) -> Scores:
        """The score of every row; 0.0 exactly where no term matches. A repeated term counts again."""
        sums = np.zeros(self._num_rows, np.float32)
        add_impacts(self._numbers(terms), self._indptr, self._rows, self._impacts, sums)
        return sums

    def scores_of(self, terms: Sequence[str], rows: Rows) -> Scores:
        """The scores of these rows alone, with the same bits."""
        scores = np.zeros(len(rows), np.float32)
        for number in self._numbers(terms).tolist():
            start, end = int(self._indptr[number]), int(self._indptr[number + 1])
            places = start + np.searchsorted(self._rows[start:end], rows)
            found = self._rows[np.minimum(places, end - 1)] == rows
            scores[found] += self._impacts[places[found]]
        return scores

    def _numbers(self, terms: Sequence[str]) -> npt.NDArray[np.int64]:
        return np.array([self._number_of[term] for term in sorted(terms) if term in self._number_of], np.int64)

    def _sums(self) -> Scores:
        """This thread's sums, all zero between searches."""
        if not hasattr(self._scratch, "sums"):
            self._scratch.sums = np.zeros(self._num_rows, np.float32)
        sums: Scores = self._scratch.sums
        return sums


def build_bm25(rows: Iterable[Sequence[str]], config: LexicalIndexConfig) -> BM25:
    """BM25 over rows in memory that are the whole corpus; row i holds the i-th sequence of terms."""
    frequencies = count_terms(rows)
    everything = np.ones(len(frequencies.lengths), np.bool_)
    return BM25(frequencies, frequencies.statistics(everything), config)


def _impacts(
    frequencies: TermFrequencies, statistics: CorpusStatistics, config: LexicalIndexConfig
) -> npt.NDArray[np.float32]:
    chunks_with_term = statistics.frequencies_of(frequencies.vocabulary)
    # One scalar logarithm for each document frequency: numpy's may differ in the last bit by place in the array.
    distinct, place = np.unique(chunks_with_term, return_inverse=True)
    idf = np.array([math.log1p((statistics.num_chunks - df + 0.5) / (df + 0.5)) for df in distinct.tolist()])[place]
    length = frequencies.lengths / statistics.average_length
    norm = config.k1 * (1.0 - config.b + config.b * length)
    saturation = frequencies.frequencies / (norm[frequencies.rows] + frequencies.frequencies)
    impacts: npt.NDArray[np.float32] = (np.repeat(idf, np.diff(frequencies.indptr)) * saturation).astype(np.float32)
    return impacts
