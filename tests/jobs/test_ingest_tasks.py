from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.ingest import Cut, _blocks
from jobs.ingest_plan import ReadTask
from jobs.ingest_tasks import (
    StagedRows,
    _from_vectors,
    _pieces,
    _to_vectors,
    build_shard,
    shard_folder,
    stage_batch,
)
from rag.config import RagConfig
from rag.data import Access, Chunk, DocumentMetadata, SourceObject
from rag.errors import RagError
from rag.ids import ChunkId, DocumentId, digest
from rag.index.registry import DocumentRecord
from rag.index.segment import read_vectors
from rag.tables import CHUNK_SCHEMA, chunks_to_table

METADATA = DocumentMetadata("a.md", "A", Access("acme", ("staff",)))
DIM = 4


def chunk(number: int, document: int) -> Chunk:
    text = f"text {number}"
    name = DocumentId(digest(str(document)))
    return Chunk(ChunkId(digest(str(number))), name, number, 0, text, 0, len(text), (), (), 3, METADATA)


def vector(number: int) -> np.ndarray:
    return np.array([number, number + 0.5, -number, 1], np.float32)


def embedded_rows(numbers: list[int], shard: int = 0) -> pa.Table:
    """What `EmbedBatches` hands to `stage_batch`: two chunks a document."""
    table = chunks_to_table([chunk(number, number // 2) for number in numbers])
    rest = {
        "shard": pa.array([shard] * len(numbers), pa.int32()),
        "outcome": pa.nulls(len(numbers), pa.binary()),
        "vector": _from_vectors(np.array([vector(number) for number in numbers]).reshape(-1, DIM)),
        "reused": pa.array([number % 2 == 0 for number in numbers]),
        "embed_s": pa.array([0.5] * len(numbers)),
    }
    for name, column in rest.items():
        table = table.append_column(name, column)
    return table


def staged(directory: Path, *batches: list[int]) -> StagedRows:
    for batch in batches:
        stage_batch(embedded_rows(batch), directory)
    return StagedRows(sorted(directory.glob("shard-*/*.arrow")))


def ids(numbers: list[int]) -> pa.ChunkedArray:
    return pa.chunked_array([[chunk(number, 0).id for number in numbers]], pa.string())


def test_staging_reports_counts_and_writes_whole_files(tmp_path: Path) -> None:
    report = stage_batch(embedded_rows([0, 1, 2]), tmp_path).to_pylist()
    assert report == [{"outcomes": [], "embedded": 1, "reused": 2, "embed_s": 1.5}]
    assert [path.suffix for path in shard_folder(tmp_path, 0).iterdir()] == [".arrow"]


def test_each_shard_has_its_own_files(tmp_path: Path) -> None:
    batch = pa.concat_tables([embedded_rows([0, 1], shard=0), embedded_rows([2], shard=3)])
    stage_batch(batch, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shard-00000", "shard-00003"]


@given(
    batches=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=8), min_size=1, max_size=4),
    asked=st.lists(st.integers(0, 35), min_size=1, max_size=12),
)
def test_staged_rows_are_found_and_taken_in_the_order_asked(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], asked: list[int]
) -> None:
    rows = staged(tmp_path_factory.mktemp("staging"), *batches)
    there = {number for batch in batches for number in batch}
    places = rows.find(ids(asked))
    assert [place >= 0 for place in places] == [number in there for number in asked]
    wanted = [number for number in asked if number in there]
    if wanted:
        taken = rows.take(places[places >= 0], ["text", "vector"])
        assert taken.column("text").to_pylist() == [f"text {number}" for number in wanted]
        assert np.array_equal(_to_vectors(taken.column("vector")), [vector(number) for number in wanted])


def test_without_files_nothing_is_found() -> None:
    assert StagedRows([]).find(ids([1, 2])).tolist() == [-1, -1]


def test_a_missing_id_is_not_found_under_the_missing_ids_of_outcomes(tmp_path: Path) -> None:
    rows = staged(tmp_path, [1])
    assert rows.find(pa.chunked_array([[None, chunk(1, 0).id]], pa.string())).tolist() == [-1, 0]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20))
def test_pieces_cover_everything_once_and_stay_small(sizes: list[int], limit: int) -> None:
    pieces = list(_pieces(sizes, limit))
    assert [place for start, end in pieces for place in range(start, end)] == list(range(sum(sizes)))
    ends = {0} | {sum(sizes[:count]) for count in range(len(sizes) + 1)}
    assert all(start in ends and end in ends for start, end in pieces)
    assert all(end - start <= max(limit, *sizes) for start, end in pieces)


def record(document: int, numbers: list[int]) -> DocumentRecord:
    name = DocumentId(digest(str(document)))
    names = tuple(chunk(number, 0).id for number in numbers)
    return DocumentRecord(name, f"{document}.md", "root", "hash", "hash", "mark", 0, names)


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return RagConfig.model_validate({"store": tmp_path / "store", "var": tmp_path, "models": tmp_path})


def test_segments_hold_exactly_the_recorded_chunks(tmp_path: Path, config: RagConfig) -> None:
    staged(tmp_path / "staging", [0, 1, 2], [3, 4, 5], [2, 3])  # 2 and 3 twice; document 2 (4, 5) in no record
    records = [record(0, [0, 1]), record(1, [2, 3])]
    built = build_shard(tmp_path / "staging", 0, records, config, max_chunks=2)
    assert sorted(info.num_chunks for info in built.segments) == [2, 2]
    stored: dict[ChunkId, np.ndarray] = {}
    for info in built.segments:
        stored |= read_vectors(config.index_root / "segments" / info.id, [chunk(n, 0).id for n in range(6)])
    assert set(stored) == {chunk(n, 0).id for n in range(4)}
    for number in range(4):
        assert np.array_equal(stored[chunk(number, 0).id], vector(number))


def test_segments_do_not_depend_on_the_order_of_arrival(tmp_path: Path, config: RagConfig) -> None:
    records = [record(number, [2 * number, 2 * number + 1]) for number in range(5)]
    staged(tmp_path / "one", [0, 1, 2, 3], [4, 5, 6, 7, 8, 9])
    staged(tmp_path / "two", [9, 8, 7], [1, 0, 5], [6, 4, 3, 2])
    one = build_shard(tmp_path / "one", 0, records, config, max_chunks=4)
    two = build_shard(tmp_path / "two", 0, list(reversed(records)), config, max_chunks=4)
    assert one.segments == two.segments


def test_a_chunk_that_was_never_staged_stops_the_build(tmp_path: Path, config: RagConfig) -> None:
    staged(tmp_path / "staging", [0])
    with pytest.raises(RagError, match="1 of 2 chunks"):
        build_shard(tmp_path / "staging", 0, [record(0, [0, 1])], config, max_chunks=10)


def task(size_bytes: int) -> ReadTask:
    return ReadTask(SourceObject("a.md", "/a.md", "mark", size_bytes, METADATA), "/", "hash", None)


@given(st.lists(st.integers(0, 50), max_size=20))
def test_blocks_keep_the_order_and_both_limits(sizes: list[int]) -> None:
    blocks = list(_blocks([task(size) for size in sizes], Cut(block_documents=4, block_bytes=60)))
    assert [item.source.size_bytes for block in blocks for item in block] == sizes
    for block in blocks:
        assert 1 <= len(block) <= 4
        assert sum(item.source.size_bytes for item in block) <= 60


def test_the_columns_of_chunks_survive_staging(tmp_path: Path) -> None:
    rows = staged(tmp_path, [0, 1])
    taken = rows.take(np.array([0, 1]), CHUNK_SCHEMA.names)
    assert taken.schema.equals(CHUNK_SCHEMA)
