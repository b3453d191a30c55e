"""A segment: chunks of one shard with their vectors, terms and readers, written once and never changed.

Its id is the digest of its files, so equal chunks give an equal segment, and versions share the ones they have in
common. Row i is the i-th chunk in the order of ids, in every file.
"""

import bisect
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from rag.config import DEFAULT_PLAN, IndexConfig, PlanConfig
from rag.data import Chunk, Vector, Vectors
from rag.errors import ModelError
from rag.ids import ChunkId, SegmentId, digest
from rag.index.access import AccessTable, build_access_table, read_access_table
from rag.index.analysis import Analyzer
from rag.index.dense.build import Calibration
from rag.index.dense.index import DenseIndex, open_dense_index, write_dense_index
from rag.index.dense.vectors import StoredVectors, store_vectors
from rag.index.files import FileInfo, Record, check_file, checksum_file, mapped_array, reading, sync, temporary_sibling
from rag.index.lexical import BM25, count_terms, open_term_frequencies, write_term_frequencies
from rag.index.statistics import CorpusStatistics
from rag.tables import chunks_to_table

CHUNKS, VECTORS, LEXICAL, ACCESS = "chunks.arrow", "vectors.npy", "lexical", "access.bin"


class SegmentInfo(Record):
    """What a version has to know of a segment to open it."""

    id: SegmentId
    num_chunks: int
    dim: int
    files: Mapping[str, FileInfo]  # by path inside the segment's folder
    recall: float | None = None  # recall@10 of its ANN structure on a sample; None where the search is exact


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that is open for search. Everything large is memory-mapped."""

    info: SegmentInfo
    chunks: pa.Table  # CHUNK_SCHEMA
    dense: DenseIndex
    lexical: BM25
    access: AccessTable


def write_segment(segments_dir: Path, chunks: Sequence[Chunk], vectors: Vectors, config: IndexConfig) -> SegmentInfo:
    """Writes the chunks, vectors[i] for chunks[i], as one segment; one that is already there is kept.

    Raises ValueError for no chunks, repeated ids or vectors of another number, ModelError for a vector that is not
    finite.
    """
    _check_input(chunks, vectors)
    order = sorted(range(len(chunks)), key=lambda place: chunks[place].id)
    rows = [chunks[place] for place in order]

    segments_dir.mkdir(parents=True, exist_ok=True)
    temporary = temporary_sibling(segments_dir / "segment")
    temporary.mkdir()
    try:
        calibration = _write_files(temporary, rows, store_vectors(vectors[order], config.vector_dtype), config)
        files = {path.relative_to(temporary).as_posix(): checksum_file(path) for path in _files(temporary)}
        parts = [part for name, file in files.items() for part in (name, file.checksum)]
        info = SegmentInfo(
            id=SegmentId(digest(*parts)),
            num_chunks=len(rows),
            dim=int(vectors.shape[1]),
            files=files,
            recall=None if calibration is None else calibration.recall,
        )
        _move_into_place(temporary, segments_dir / info.id, info)
        return info
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def open_segment(
    directory: Path,
    info: SegmentInfo,
    config: IndexConfig,
    statistics: CorpusStatistics,
    verify: bool = True,
    plan: PlanConfig = DEFAULT_PLAN,
) -> Segment:
    """The segment in the folder, ready to search; `verify` reads every byte once to compare checksums.

    Raises IndexDamaged with the name of a file that is missing or damaged.
    """
    check_segment(directory, info, verify)
    frequencies = open_term_frequencies(directory / LEXICAL)
    with reading(directory / ACCESS):
        access = read_access_table((directory / ACCESS).read_bytes())
    return Segment(
        info=info,
        chunks=open_chunks(directory),
        dense=open_dense_index(directory, _open_vectors(directory), config.dense, plan),
        lexical=BM25(frequencies, statistics, config.lexical),
        access=access,
    )


def check_segment(directory: Path, info: SegmentInfo, verify: bool = True) -> None:
    """Raises IndexDamaged for the first file that is missing, of another size or, with `verify`, other content."""
    for name, file in info.files.items():
        check_file(directory / name, file, verify)


def open_chunks(directory: Path) -> pa.Table:
    """The chunks of the segment in the folder, memory-mapped. Raises IndexDamaged."""
    with reading(directory / CHUNKS):
        return pa.ipc.open_file(pa.memory_map(str(directory / CHUNKS))).read_all()


def find_row(chunks: pa.Table, chunk_id: ChunkId) -> int | None:
    """The row of a chunk, by bisection of the mapped ids; None where the segment does not hold it."""
    ids = chunks.column("id")
    row = bisect.bisect_left(range(len(ids)), chunk_id, key=lambda place: ids[place].as_py())
    return row if row < len(ids) and ids[row].as_py() == chunk_id else None


def read_vectors(directory: Path, chunk_ids: Collection[ChunkId]) -> dict[ChunkId, Vector]:
    """The stored vectors of the chunks that the segment in the folder holds, as float32."""
    chunks, vectors = open_chunks(directory), _open_vectors(directory)
    rows = {chunk_id: find_row(chunks, chunk_id) for chunk_id in chunk_ids}
    return {chunk_id: vectors[row].astype(np.float32) for chunk_id, row in rows.items() if row is not None}


def _check_input(chunks: Sequence[Chunk], vectors: Vectors) -> None:
    if not chunks:
        raise ValueError("a segment holds at least one chunk")
    if vectors.ndim != 2 or len(vectors) != len(chunks):
        raise ValueError(f"{len(chunks)} chunks need vectors of shape ({len(chunks)}, dim), got {vectors.shape}")
    if len({chunk.id for chunk in chunks}) < len(chunks):
        raise ValueError("chunk ids repeat")
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        raise ModelError(f"the vector of chunk {chunks[broken[0]].id} is not finite; {len(broken)} such vectors")


def _write_files(
    directory: Path, rows: Sequence[Chunk], vectors: StoredVectors, config: IndexConfig
) -> Calibration | None:
    table = chunks_to_table(rows)
    with pa.OSFile(str(directory / CHUNKS), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    np.save(directory / VECTORS, vectors)
    calibration = write_dense_index(directory, vectors, config.dense)
    analyzer = Analyzer(config.lexical)
    write_term_frequencies(directory / LEXICAL, count_terms(analyzer.terms(chunk.embedded_text) for chunk in rows))
    (directory / ACCESS).write_bytes(build_access_table(rows).to_bytes())
    return calibration


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _move_into_place(temporary: Path, target: Path, info: SegmentInfo) -> None:
    for path in (*_files(temporary), temporary / LEXICAL, temporary):
        sync(path)
    try:
        os.rename(temporary, target)  # atomic; fails where another run has written the same segment
    except OSError:
        if not target.is_dir():
            raise
        _repair(temporary, target, info)
    sync(target.parent)


def _repair(temporary: Path, target: Path, info: SegmentInfo) -> None:
    """Replaces what is damaged in a segment that is already there by the same file, newly written."""
    (target / LEXICAL).mkdir(exist_ok=True)
    for name, file in info.files.items():
        path = target / name
        if not path.is_file() or checksum_file(path) != file:
            os.replace(temporary / name, path)


def _open_vectors(directory: Path) -> StoredVectors:
    vectors: StoredVectors = mapped_array(directory / VECTORS)
    return vectors
