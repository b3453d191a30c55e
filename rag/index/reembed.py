"""Vectors of another encoder for the chunks that an index stores: nothing is read from a source, and nothing parsed.

The work is cut by the segments of the live version: tasks of rows are embedded and staged, then each segment is written
once more with the new vectors and without its dead rows. What is staged is found again by chunk id, so a run that was
killed repeats no finished batch; and since the version is made of the segments that are live at its end, deletions and
changes of access that came meanwhile are in it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag.config import RagConfig
from rag.data import Vectors
from rag.errors import RagError
from rag.ids import SegmentId
from rag.index.contents import live_rows
from rag.index.files import sync, write_atomically
from rag.index.manifest import Manifest, SegmentEntry
from rag.index.segment import SegmentInfo, open_chunks, write_segment
from rag.index.store import IndexStore
from rag.protocols import Embedder
from rag.tables import table_to_chunks

BATCH_CHUNKS = 512


@dataclass(frozen=True, slots=True)
class EmbedTask:
    """Some rows of one segment, of about the same length."""

    segment: SegmentId
    info: SegmentInfo
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Embedded:
    """What became of one task."""

    chunks: int
    truncated: int  # texts that the encoder's window cut
    seconds: float  # in the encoder


class StagedVectors:
    """Vectors by chunk id, in files of one batch each below a folder a segment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, segment: SegmentId, ids: pa.Array, vectors: Vectors) -> None:
        """Adds a batch in one step."""
        folder = self.directory / segment
        folder.mkdir(parents=True, exist_ok=True)
        name = uuid4().hex
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
        table = pa.table({"id": ids, "vector": column})
        temporary = folder / f"{name}.tmp"
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        sync(temporary)
        temporary.replace(folder / f"{name}.arrow")

    def find(self, segments: Sequence[SegmentId], ids: pa.Array) -> tuple[npt.NDArray[np.bool_], Vectors]:
        """Which of the chunks are staged under any of the segments, and their vectors, zeros for the others."""
        found = np.zeros(len(ids), np.bool_)
        vectors: Vectors = np.zeros((len(ids), 0), np.float32)
        for segment in segments:
            for file in sorted((self.directory / segment).glob("*.arrow")):
                table = pa.ipc.open_file(pa.memory_map(str(file))).read_all().combine_chunks()
                places = pc.index_in(ids, value_set=table.column("id").combine_chunks()).fill_null(-1).to_numpy()
                rows = np.flatnonzero((places >= 0) & ~found)
                if not len(rows):
                    continue
                column = table.column("vector").combine_chunks()
                if vectors.shape[1] == 0:
                    vectors = np.zeros((len(ids), column.type.list_size), np.float32)
                stored = column.flatten().to_numpy().reshape(len(column), -1)
                vectors[rows], found[rows] = stored[places[rows]], True
        return found, vectors

    def segments(self) -> list[SegmentId]:
        """Every segment under which something is staged."""
        return [SegmentId(path.name) for path in sorted(self.directory.glob("*/")) if path.is_dir()]

    @cached_property
    def built_dir(self) -> Path:
        """Where finished segments are noted."""
        return self.directory.with_name(f"{self.directory.name}-built")


class Reembedding:
    """The work of one run towards one encoder: what is left to embed, and the segments that can be written."""

    def __init__(self, store: IndexStore, staged: StagedVectors, config: RagConfig) -> None:
        """`config` names the new encoder."""
        self._store, self._staged, self._config = store, staged, config

    def tasks(self, manifest: Manifest, batch_chunks: int = BATCH_CHUNKS) -> Iterator[EmbedTask]:
        """What the version needs and is not staged yet: rows of one segment, shortest first, in batches.

        One segment's ids and lengths are in memory at a time.
        """
        for entry in manifest.segments:
            if self._built_file(entry).is_file():
                continue
            rows = live_rows(self._store, manifest, entry)
            table = open_chunks(self._store.segment(entry.info)).select(["id", "num_tokens"]).take(pa.array(rows))
            found, _ = self._find(manifest, entry.info.id, table.column("id").combine_chunks())
            lengths = table.column("num_tokens").to_numpy()[~found]
            left = rows[~found][np.argsort(lengths, kind="stable")]
            for start in range(0, len(left), batch_chunks):
                yield EmbedTask(entry.info.id, entry.info, tuple(left[start : start + batch_chunks].tolist()))

    def write_segment(self, manifest: Manifest, entry: SegmentEntry) -> SegmentInfo:
        """The live rows of one segment with their new vectors, as a segment. Raises RagError when one is not staged."""
        note = self._built_file(entry)
        if note.is_file():
            info = SegmentInfo.model_validate_json(note.read_bytes())
            if (self._store.segments_dir / info.id).is_dir():
                return info
        rows = live_rows(self._store, manifest, entry)
        table = open_chunks(self._store.segment(entry.info)).take(pa.array(rows))
        found, vectors = self._find(manifest, entry.info.id, table.column("id").combine_chunks())
        if not found.all():
            raise RagError(f"segment {entry.info.id}: {int((~found).sum())} of {len(rows)} vectors are not staged")
        info = write_segment(self._store.segments_dir, table_to_chunks(table), vectors, self._config.index)
        self._store.push_segment(info)
        note.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(note, info.model_dump_json().encode())
        return info

    def _find(self, manifest: Manifest, segment: SegmentId, ids: pa.Array) -> tuple[npt.NDArray[np.bool_], Vectors]:
        """Under the segment itself; for chunks that moved, under segments that are no longer live too."""
        found, vectors = self._staged.find([segment], ids)
        if found.all():
            return found, vectors
        live = {entry.info.id for entry in manifest.segments}
        elsewhere = [name for name in self._staged.segments() if name not in live]
        if not elsewhere:
            return found, vectors
        missing = np.flatnonzero(~found)
        there, moved = self._staged.find(elsewhere, ids.take(pa.array(missing)))
        if there.any():
            if vectors.shape[1] == 0:
                vectors = np.zeros((len(ids), moved.shape[1]), np.float32)
            vectors[missing[there]], found[missing[there]] = moved[there], True
        return found, vectors

    def _built_file(self, entry: SegmentEntry) -> Path:
        dead = entry.tombstones.info.checksum if entry.tombstones else "none"
        return self._staged.built_dir / f"{entry.info.id}-{dead}.json"


def embed_task(task: EmbedTask, store: IndexStore, staged: StagedVectors, embedder: Embedder) -> Embedded:
    """Embeds the rows of a task and stages their vectors."""
    table = open_chunks(store.segment(task.info)).take(pa.array(task.rows, pa.int64()))
    texts = [chunk.embedded_text for chunk in table_to_chunks(table)]
    cut_before = getattr(embedder, "num_truncated", 0)
    started = time.perf_counter()
    vectors = embedder.embed_passages(texts)
    seconds = time.perf_counter() - started
    staged.write(task.segment, table.column("id").combine_chunks(), vectors)
    return Embedded(len(texts), getattr(embedder, "num_truncated", 0) - cut_before, seconds)
