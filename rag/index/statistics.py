"""What BM25 needs to know of the whole corpus, so that a chunk scores the same in every shard and segment."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SCHEMA = pa.schema([("term", pa.string()), ("document_frequency", pa.int64())])


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """Counts over the live chunks of a corpus. They are integers, so sums over its parts are exact."""

    num_chunks: int
    total_length: int  # terms of all chunks together
    terms: pa.Array  # strings, sorted, unique
    document_frequencies: pa.Array  # int64, chunks that hold terms[i], from 1

    @property
    def average_length(self) -> float:
        """Terms per chunk; 1.0 where no chunk has any, so that it can divide."""
        return (self.total_length / self.num_chunks if self.num_chunks else 0.0) or 1.0

    def frequencies_of(self, terms: pa.Array) -> npt.NDArray[np.int64]:
        """How many chunks hold each term; 0 for a term that no live chunk holds."""
        places = pc.index_in(terms, value_set=self.terms)
        found: npt.NDArray[np.int64] = (
            pc.take(self.document_frequencies, places).fill_null(0).to_numpy(zero_copy_only=False)
        )
        return found

    def to_bytes(self) -> bytes:
        """The statistics as an arrow file."""
        counts = {"num_chunks": str(self.num_chunks), "total_length": str(self.total_length)}
        schema = _SCHEMA.with_metadata(counts)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(pa.Table.from_arrays([self.terms, self.document_frequencies], schema=schema))
        content: bytes = sink.getvalue().to_pybytes()
        return content


def statistics_from_bytes(content: bytes) -> CorpusStatistics:
    """The statistics of a file that `to_bytes` made."""
    table = pa.ipc.open_file(pa.py_buffer(content)).read_all().combine_chunks()
    counts = table.schema.metadata
    return _from_table(table, int(counts[b"num_chunks"]), int(counts[b"total_length"]))


def merge_statistics(parts: Iterable[CorpusStatistics]) -> CorpusStatistics:
    """The statistics of the disjoint parts together; of an empty corpus where there are no parts."""
    parts = list(parts)
    tables = [pa.Table.from_arrays([part.terms, part.document_frequencies], schema=_SCHEMA) for part in parts]
    stacked = pa.concat_tables([_SCHEMA.empty_table(), *tables])
    summed = stacked.group_by("term").aggregate([("document_frequency", "sum")]).sort_by("term")
    merged = summed.rename_columns({"document_frequency_sum": "document_frequency"}).select(_SCHEMA.names)
    return _from_table(
        merged.combine_chunks(), sum(part.num_chunks for part in parts), sum(part.total_length for part in parts)
    )


def subtract_statistics(whole: CorpusStatistics, part: CorpusStatistics) -> CorpusStatistics:
    """The statistics of the whole without a part of it; terms that no chunk holds any longer are left out."""
    negative = pc.negate(part.document_frequencies)
    rest = merge_statistics(
        [whole, CorpusStatistics(-part.num_chunks, -part.total_length, part.terms, negative)],
    )
    held = pc.greater(rest.document_frequencies, 0)
    return CorpusStatistics(
        rest.num_chunks, rest.total_length, rest.terms.filter(held), rest.document_frequencies.filter(held)
    )


def _from_table(table: pa.Table, num_chunks: int, total_length: int) -> CorpusStatistics:
    terms, frequencies = (_one_array(table.column(name)) for name in _SCHEMA.names)
    return CorpusStatistics(num_chunks, total_length, terms, frequencies)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; combine_chunks alone gives a chunked array where there are no chunks."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
