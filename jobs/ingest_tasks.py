"""What one run does on the workers: read, parse and chunk; embed; stage; build segments.

A row on its way through Ray Data is a chunk (the columns of `rag.tables.CHUNK_SCHEMA`) or the outcome of one document
(`outcome`, all else null); the text to embed travels beside the chunk, and a vector replaces it. What comes back to
the driver is one small row a batch: counts, seconds and outcomes, never chunks or vectors.
"""

import pickle
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobs.ingest_plan import ReadTask
from jobs.ingest_quality import DocumentCounts, count_document
from rag.clean.clean import clean_document
from rag.clean.duplicates import sign
from rag.config import RagConfig
from rag.data import Chunk, ErrorRow, Vectors
from rag.errors import RagError
from rag.ids import ChunkId, VersionId, shard_of
from rag.index.contents import vectors_by_chunk_id
from rag.index.registry import DocumentRecord
from rag.index.segment import SegmentInfo, write_segment
from rag.index.store import open_store
from rag.parts import build_chunker, build_embedder, build_parser
from rag.protocols import Chunker, Parser
from rag.read.objects import read_object
from rag.tables import CHUNK_SCHEMA, chunks_to_table, table_to_chunks

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

TASK_SCHEMA = pa.schema([("task", pa.binary())])
PARSED_SCHEMA = pa.schema(
    [
        *CHUNK_SCHEMA,
        ("shard", pa.int32()),
        ("embedded_text", pa.string()),
        ("known", pa.bool_()),  # the live version has a vector for it
        ("outcome", pa.binary()),  # a pickled Outcome, in a row of its own
    ]
)
PROGRESS_SCHEMA = pa.schema(
    [
        ("outcomes", pa.list_(pa.binary())),
        ("embedded", pa.int64()),
        ("reused", pa.int64()),
        ("embed_s", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one document: a record (new, or as before), or an error."""

    task: ReadTask
    seconds: float  # of reading, parsing and chunking
    record: DocumentRecord | None = None
    error: ErrorRow | None = None
    unchanged: bool = False
    counts: DocumentCounts | None = None  # None where it was not parsed


def read_outcome(pickled: bytes) -> Outcome:
    """The outcome that `parse_batch` of this run wrote."""
    outcome: Outcome = pickle.loads(pickled)
    return outcome


# ---------------------------------------------------------------- read, parse, chunk


def tasks_to_table(tasks: Sequence[ReadTask]) -> pa.Table:
    """The rows that `parse_batch` takes."""
    return pa.table({"task": pa.array([pickle.dumps(task) for task in tasks], pa.binary())}, schema=TASK_SCHEMA)


def parse_batch(batch: pa.Table, config: RagConfig) -> pa.Table:
    """The chunks and outcomes of the batch's documents. A document that fails is one outcome with its error."""
    parts = _parts(config.model_dump_json())
    chunks: list[Chunk] = []
    known: list[bool] = []
    outcomes: list[bytes] = []
    for pickled in batch.column("task").to_pylist():
        task: ReadTask = pickle.loads(pickled)  # made by `tasks_to_table` in this run
        made, outcome = _read(task, config, *parts)
        before = frozenset(task.known.chunk_ids) if task.known else frozenset[ChunkId]()
        chunks += made
        known += [chunk.id in before for chunk in made]
        outcomes.append(pickle.dumps(outcome))
    num_outcomes, num_shards = len(outcomes), config.index.num_shards
    columns = [
        [shard_of(chunk.document_id, num_shards) for chunk in chunks] + [None] * num_outcomes,
        [chunk.embedded_text for chunk in chunks] + [None] * num_outcomes,
        known + [False] * num_outcomes,
        [None] * len(chunks) + outcomes,
    ]
    table = pa.concat_tables([chunks_to_table(chunks), _null_rows(CHUNK_SCHEMA, num_outcomes)])
    for field, column in zip(list(PARSED_SCHEMA)[len(CHUNK_SCHEMA) :], columns, strict=True):
        table = table.append_column(field, pa.array(column, field.type))
    return table


def _null_rows(schema: pa.Schema, count: int) -> pa.Table:
    return pa.table([pa.nulls(count, field.type) for field in schema], schema=schema)


def _read(task: ReadTask, config: RagConfig, parser: Parser, chunker: Chunker) -> tuple[list[Chunk], Outcome]:
    """The document's chunks and what became of it; no chunks where it is unchanged or failed."""
    started, stage = time.perf_counter(), "read"
    source, known = task.source, task.known
    try:
        raw = read_object(source, config.sources)
        if known and (known.content_hash, known.metadata_hash) == (raw.content_hash, task.metadata_hash):
            record = replace(known, watermark=source.watermark)
            return [], Outcome(task, time.perf_counter() - started, record, unchanged=True)
        stage = "parse"
        document = parser.parse(raw)
        stage = "clean"
        cleaned = clean_document(document, config.clean)
        counts = count_document(document, cleaned)
        signature = sign(cleaned, config.clean)
        stage = "chunk"
        chunks = chunker.chunk(cleaned)
        if not chunks:
            raise RagError(f"{source.uri}: no text to index")
    except Exception as error:  # whatever one document does, it must not take the others with it
        row = ErrorRow(source.uri, stage, type(error).__name__, _message(error))  # type: ignore[arg-type]
        return [], Outcome(task, time.perf_counter() - started, error=row)
    record = DocumentRecord(
        document_id=document.id,
        uri=source.uri,
        root=task.root,
        content_hash=raw.content_hash,
        metadata_hash=task.metadata_hash,
        watermark=source.watermark,
        shard=shard_of(document.id, config.index.num_shards),
        chunk_ids=tuple(chunk.id for chunk in chunks),
        signature=signature.to_bytes() if signature else b"",
    )
    return chunks, Outcome(task, time.perf_counter() - started, record, counts=counts)


@lru_cache(maxsize=1)
def _parts(config_json: str) -> tuple[Parser, Chunker]:
    """The parser and chunker of this worker process, built once: a tokenizer takes longer to load than a page."""
    config = RagConfig.model_validate_json(config_json)
    return build_parser(config), build_chunker(config)


def _message(error: Exception) -> str:
    return str(error).encode("utf-8", "backslashreplace").decode() or "no message"


# ---------------------------------------------------------------- embed


class EmbedBatches:
    """Puts vectors beside chunks; a vector that the live version or a killed run already has is taken from there.

    An empty outcome keeps its row and gets a vector of zeros, which nobody reads.
    """

    def __init__(self, config: RagConfig, live: VersionId | None, leftovers: Sequence[Path]) -> None:
        self._embedder = build_embedder(config)
        self._store, self._live = open_store(config), live
        self._leftovers = StagedRows([file for run in leftovers for file in sorted(run.glob("shard-*/*.arrow"))])

    def __call__(self, batch: pa.Table) -> pa.Table:
        started = time.perf_counter()
        vectors = np.zeros((len(batch), self._embedder.dim), np.float32)
        wanted = batch.column("id").is_valid().to_numpy()
        reused = np.zeros(len(batch), bool)
        self._fill_from_leftovers(batch, vectors, reused)
        self._fill_from_live(batch, wanted & batch.column("known").to_numpy() & ~reused, vectors, reused)
        missing = np.flatnonzero(wanted & ~reused)
        if len(missing):
            vectors[missing] = self._embedder.embed_passages(
                batch.column("embedded_text").take(pa.array(missing)).to_pylist()
            )
        seconds = np.full(len(batch), (time.perf_counter() - started) / max(len(batch), 1))
        return (
            batch.drop_columns(["embedded_text", "known"])
            .append_column("vector", _from_vectors(vectors))
            .append_column("reused", pa.array(reused))
            .append_column("embed_s", pa.array(seconds))
        )

    def _fill_from_leftovers(self, batch: pa.Table, vectors: Vectors, reused: Mask) -> None:
        places = self._leftovers.find(batch.column("id"))
        rows = np.flatnonzero(places >= 0)
        if len(rows):
            vectors[rows] = _to_vectors(self._leftovers.take(places[rows], ["vector"]).column("vector"))
            reused[rows] = True

    def _fill_from_live(self, batch: pa.Table, wanted: Mask, vectors: Vectors, reused: Mask) -> None:
        rows = np.flatnonzero(wanted)
        if self._live is None or not len(rows):
            return
        names = batch.select(["shard", "id"]).take(pa.array(rows)).to_pylist()
        by_shard: dict[int, dict[ChunkId, int]] = defaultdict(dict)
        for row, name in zip(rows.tolist(), names, strict=True):
            by_shard[name["shard"]][ChunkId(name["id"])] = row
        for shard, wanted_rows in by_shard.items():
            for chunk_id, vector in vectors_by_chunk_id(self._store, self._live, shard, list(wanted_rows)).items():
                vectors[wanted_rows[chunk_id]], reused[wanted_rows[chunk_id]] = vector, True


# ---------------------------------------------------------------- stage


def stage_batch(batch: pa.Table, directory: Path) -> pa.Table:
    """Write the batch's chunks to one file a shard below the directory, and say what was done."""
    outcomes = batch.column("outcome").drop_null()
    chunks = batch.filter(batch.column("id").is_valid())
    reused = pc.sum(chunks.column("reused")).as_py() or 0
    shards = np.array([int(name) for name in chunks.column("shard").to_pylist()], np.int64)
    rows = chunks.select([*CHUNK_SCHEMA.names, "vector"])
    for shard in np.unique(shards):
        _write_staged(shard_folder(directory, int(shard)), rows.filter(pa.array(shards == shard)))
    done = {
        "outcomes": [outcomes.to_pylist()],
        "embedded": [len(chunks) - reused],
        "reused": [reused],
        "embed_s": [pc.sum(batch.column("embed_s")).as_py() or 0.0],
    }
    return pa.table(done, schema=PROGRESS_SCHEMA)


def shard_folder(directory: Path, shard: int) -> Path:
    """Where a run stages the chunks of one shard."""
    return directory / f"shard-{shard:05d}"


def _write_staged(folder: Path, rows: pa.Table) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = uuid4().hex
    temporary = folder / f"{name}.tmp"
    with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    temporary.replace(folder / f"{name}.arrow")


class StagedRows:
    """The rows of staging files, memory-mapped and found by chunk id."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._tables = [pa.ipc.open_file(pa.memory_map(str(file))).read_all() for file in files]
        self._starts = np.cumsum([0, *(len(table) for table in self._tables)])
        ids = [chunk for table in self._tables for chunk in table.column("id").chunks]
        self._ids = pa.chunked_array(ids, pa.string())

    def find(self, chunk_ids: pa.ChunkedArray) -> Places:
        """The first row of each chunk, -1 where there is none."""
        found = pc.index_in(chunk_ids, value_set=self._ids, skip_nulls=True)
        places: Places = pc.fill_null(found, -1).to_numpy()
        return places

    def take(self, places: Places, columns: Sequence[str]) -> pa.Table:
        """The rows in the order of `places`.

        File by file: arrow's own take over many pieces first joins all of them, which overflows the offsets of a
        string column at 2 GiB.
        """
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        files = np.searchsorted(self._starts, ordered, side="right") - 1
        parts = [
            self._tables[file].select(columns).take(pa.array(ordered[files == file] - self._starts[file]))
            for file in np.unique(files)
        ]
        return pa.concat_tables(parts).take(pa.array(np.argsort(order)))


def _from_vectors(vectors: Vectors) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])


def _to_vectors(column: pa.ChunkedArray) -> Vectors:
    joined = column.combine_chunks()
    flat: Vectors = joined.flatten().to_numpy()
    return flat.reshape(len(joined), column.type.list_size)


# ---------------------------------------------------------------- build


@dataclass(frozen=True, slots=True)
class BuiltShard:
    """The new segments of one shard, and how long they took."""

    shard: int
    segments: tuple[SegmentInfo, ...]
    seconds: float


def build_shard(
    directory: Path, shard: int, records: Sequence[DocumentRecord], config: RagConfig, max_chunks: int
) -> BuiltShard:
    """Write the staged chunks of the documents as segments of about `max_chunks`, whole documents in order of id.

    Only the chunks that the records name are taken: a task that ran twice has staged its chunks twice. Raises RagError
    when one is missing.
    """
    started = time.perf_counter()
    ordered = sorted(records, key=lambda record: record.document_id)
    names = [chunk_id for record in ordered for chunk_id in record.chunk_ids]
    staged = StagedRows(sorted(shard_folder(directory, shard).glob("*.arrow")))
    places = staged.find(pa.chunked_array([names], pa.string()))
    if missing := int((places < 0).sum()):
        raise RagError(f"shard {shard}: {missing} of {len(names)} chunks are not in {directory}")
    segments = []
    for start, end in _pieces([len(record.chunk_ids) for record in ordered], max_chunks):
        rows = staged.take(places[start:end], [*CHUNK_SCHEMA.names, "vector"])
        chunks = table_to_chunks(rows.select(CHUNK_SCHEMA.names))
        vectors = _to_vectors(rows.column("vector"))
        segments.append(write_segment(config.index_root / "segments", chunks, vectors, config.index))
    return BuiltShard(shard, tuple(segments), time.perf_counter() - started)


def _pieces(sizes: Sequence[int], max_size: int) -> Iterator[tuple[int, int]]:
    """Cut a run of sizes into (start, end) pieces of at most `max_size`; a larger one is a piece of its own."""
    start = end = 0
    for size in sizes:
        if end > start and end + size - start > max_size:
            yield start, end
            start = end
        end += size
    if end > start:
        yield start, end
