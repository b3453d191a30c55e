"""What the version that should answer holds of the documents and candidates that an evaluation looks at."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from rag.data import Chunk
from rag.evaluate.tasks import Task
from rag.ids import ChunkId, VersionId
from rag.index.contents import read_chunks
from rag.index.segment import open_chunks
from rag.index.store import IndexStore


@dataclass(frozen=True, slots=True)
class Holdings:
    """Chunks of one version, read from the index itself and not from what a search said about them."""

    version: VersionId
    chunks: Mapping[ChunkId, Chunk]  # those that were asked for and are live
    gold: Mapping[str, tuple[Chunk, ...]]  # uri -> the document's chunks, in order
    newest: datetime | None  # effective date of the newest document of the version
    from_index: bool = True  # False: the index is out of reach, and the chunks are what searches said about them

    def met_by_chunks(self, task: Task) -> frozenset[int]:
        """The needs of the task that some single chunk meets; chunking has made the others unanswerable."""
        held = [chunk for uri in dict.fromkeys(task.gold.documents) for chunk in self.gold.get(uri, ())]
        return frozenset[int]().union(*(task.gold.met_by(c.metadata.uri, c.text) for c in held))


def read_holdings(
    store: IndexStore, version: VersionId, tasks: Sequence[Task], chunk_ids: Collection[ChunkId]
) -> Holdings:
    """What the version holds of the tasks' gold documents, and which of the chunks. Raises NotFound, IndexDamaged."""
    uris = {uri for task in tasks for uri in task.gold.documents}
    gold: dict[str, list[Chunk]] = {}
    for chunk in read_chunks(store, version, uris=uris):
        gold.setdefault(chunk.metadata.uri, []).append(chunk)
    chunks = {chunk.id: chunk for chunk in read_chunks(store, version, chunk_ids=chunk_ids)}
    return Holdings(version, chunks, {uri: tuple(found) for uri, found in gold.items()}, _newest(store, version))


def _newest(store: IndexStore, version: VersionId) -> datetime | None:
    """The latest date in the version's segments; a dead row counts, which no slice of years notices."""
    manifest = store.manifest(version)
    columns = [
        open_chunks(store.segment(entry.info)).column("updated_at").cast(pa.int64())
        for shard in manifest.shards
        for entry in shard.segments
    ]
    latest = [found for column in columns if (found := pc.max(column).as_py()) is not None]
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=max(latest)) if latest else None
