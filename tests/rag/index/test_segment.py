from pathlib import Path

import numpy as np
import pytest

from rag.config import IndexConfig
from rag.data import Chunk, Principal
from rag.errors import IndexDamaged, ModelError
from rag.ids import ChunkId
from rag.index.segment import (
    Segment,
    SegmentInfo,
    check_segment,
    find_row,
    open_segment,
    read_vectors,
    write_segment,
)
from rag.index.statistics import merge_statistics
from rag.tables import table_to_chunks
from tests.rag.index.factories import EVERYONE, make_chunk, unit_vectors

CONFIG = IndexConfig()
CHUNKS = [
    make_chunk(f"Clause {n} of ERR_{n}", uri=f"d{n % 4}", ordinal=n, groups=("staff", "hr")[n % 2 :]) for n in range(12)
]
VECTORS = unit_vectors(12)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def opened(segments_dir: Path, info: SegmentInfo, verify: bool = True) -> Segment:
    return open_segment(segments_dir / info.id, info, CONFIG, merge_statistics([]), verify)


def test_equal_chunks_give_equal_bytes_whatever_their_order(tmp_path: Path) -> None:
    turned = list(reversed(range(12)))
    first = write_segment(tmp_path / "a", CHUNKS, VECTORS, CONFIG)
    second = write_segment(tmp_path / "b", [CHUNKS[n] for n in turned], VECTORS[turned], CONFIG)
    assert first == second
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_are_in_the_order_of_ids_in_every_file(tmp_path: Path, dtype: str) -> None:
    config = IndexConfig.model_validate({"vector_dtype": dtype})
    info = write_segment(tmp_path, CHUNKS, VECTORS, config)
    segment = opened(tmp_path, info)
    rows: list[Chunk] = table_to_chunks(segment.chunks)
    assert rows == sorted(CHUNKS, key=lambda chunk: chunk.id)
    assert [find_row(segment.chunks, chunk.id) for chunk in rows] == list(range(12))
    assert find_row(segment.chunks, ChunkId("no such chunk")) is None
    assert list(segment.access.allowed_rows(EVERYONE)) == [
        row for row, chunk in enumerate(rows) if "staff" in chunk.metadata.access.groups
    ]
    assert np.load(tmp_path / info.id / "vectors.npy").dtype == np.dtype(dtype)
    stored = read_vectors(tmp_path / info.id, [chunk.id for chunk in CHUNKS])
    for chunk, vector in zip(CHUNKS, VECTORS, strict=True):
        assert stored[chunk.id].tolist() == vector.astype(dtype).astype(np.float32).tolist()


def test_a_segment_that_is_there_already_is_kept(tmp_path: Path) -> None:
    info = write_segment(tmp_path, CHUNKS, VECTORS, CONFIG)
    before = {path: path.stat().st_ino for path in (tmp_path / info.id).rglob("*")}
    assert write_segment(tmp_path, CHUNKS, VECTORS, CONFIG) == info
    assert {path: path.stat().st_ino for path in (tmp_path / info.id).rglob("*")} == before
    assert [path.name for path in tmp_path.iterdir()] == [info.id]


def test_nothing_is_left_behind_by_a_write_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("rag.index.segment.write_dense_index", fail)
    with pytest.raises(OSError, match="disk full"):
        write_segment(tmp_path, CHUNKS, VECTORS, CONFIG)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def file_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return list(write_segment(tmp_path_factory.mktemp("names"), CHUNKS, VECTORS, CONFIG).files)


@pytest.mark.parametrize("damage", ["missing", "shorter", "one bit"])
def test_damage_to_any_file_is_found_and_named_and_writing_again_repairs_it(
    tmp_path: Path, damage: str, file_names: list[str]
) -> None:
    info = write_segment(tmp_path, CHUNKS, VECTORS, CONFIG)
    assert len(file_names) == 8
    for name in file_names:
        path = tmp_path / info.id / name
        content = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(content[:-1] if damage == "shorter" else content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(IndexDamaged) as caught:
            opened(tmp_path, info)
        assert caught.value.path == path
        write_segment(tmp_path, CHUNKS, VECTORS, CONFIG)
        check_segment(tmp_path / info.id, info)
        assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["chunks.arrow", "vectors.npy", "access.bin", "lexical/vocabulary.arrow"])
def test_a_file_of_zeros_is_damage_even_when_checksums_are_not_compared(tmp_path: Path, name: str) -> None:
    info = write_segment(tmp_path, CHUNKS, VECTORS, CONFIG)
    path = tmp_path / info.id / name
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(IndexDamaged, match=path.name):
        opened(tmp_path, info, verify=False)


def test_what_can_not_be_a_segment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one chunk"):
        write_segment(tmp_path, [], VECTORS[:0], CONFIG)
    with pytest.raises(ValueError, match=r"12 chunks need vectors of shape \(12, dim\), got \(11, 4\)"):
        write_segment(tmp_path, CHUNKS, VECTORS[:11], CONFIG)
    with pytest.raises(ValueError, match="repeat"):
        write_segment(tmp_path, [CHUNKS[0]] * 2, VECTORS[:2], CONFIG)
    broken = VECTORS.copy()
    broken[3, 1] = np.nan
    with pytest.raises(ModelError, match=CHUNKS[3].id):
        write_segment(tmp_path, CHUNKS, broken, CONFIG)


def test_a_principal_of_no_group_reads_nothing(tmp_path: Path) -> None:
    segment = opened(tmp_path, write_segment(tmp_path, CHUNKS, VECTORS, CONFIG))
    assert not segment.access.allowed_rows(Principal("eve", "acme", frozenset()))
