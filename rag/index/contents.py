"""What a version holds, whoever may read it: for builders, for operators and for tools on the index's own machine."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag.data import Chunk, Vector, Vectors
from rag.errors import NotFound
from rag.ids import ChunkId, VersionId
from rag.index.files import mapped_array
from rag.index.manifest import Manifest, SegmentEntry
from rag.index.row_flags import row_flags
from rag.index.segment import VECTORS, SegmentInfo, open_chunks, read_vectors
from rag.index.selection import Rows
from rag.index.store import IndexStore
from rag.tables import table_to_chunks


def live_flags(store: IndexStore, manifest: Manifest, entry: SegmentEntry) -> npt.NDArray[np.bool_]:
    """Which rows of the segment are not dead in the version."""
    return ~row_flags(store.tombstones(manifest, entry), entry.info.num_chunks)


def live_rows(store: IndexStore, manifest: Manifest, entry: SegmentEntry) -> Rows:
    """The rows of the segment that are not dead in the version, ascending."""
    return np.flatnonzero(live_flags(store, manifest, entry))


def read_chunks(
    store: IndexStore,
    version: VersionId,
    uris: Collection[str] | None = None,
    chunk_ids: Collection[ChunkId] | None = None,
) -> list[Chunk]:
    """The live chunks of the version by document and ordinal: of these uris, and among these ids; None asks nothing.

    No permission is checked. Raises NotFound for a version that is not there, IndexDamaged for one that is not whole.
    """
    manifest = store.manifest(version)
    chunks: list[Chunk] = []
    for entry in manifest.segments:
        table = open_chunks(store.segment(entry.info))
        wanted = pa.array(live_flags(store, manifest, entry))
        for column, values in (("uri", uris), ("id", chunk_ids)):
            if values is not None:
                found = pc.is_in(table.column(column).combine_chunks(), value_set=pa.array(sorted(values), pa.string()))
                wanted = pc.and_(wanted, found)
        chunks += table_to_chunks(table.filter(wanted))
    return sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.ordinal, chunk.id))


def stored_vectors(store: IndexStore, info: SegmentInfo, rows: Rows) -> Vectors:
    """The vectors of the rows, as float32."""
    return np.asarray(mapped_array(store.segment(info) / VECTORS)[rows], np.float32)


def vectors_by_chunk_id(
    store: IndexStore, version: VersionId, shard: int, chunk_ids: Collection[ChunkId]
) -> dict[ChunkId, Vector]:
    """The stored vectors of those of the chunks that the version's shard holds: equal ids, equal vectors."""
    manifest = store.manifest(version)
    if not 0 <= shard < manifest.num_shards:
        raise NotFound(f"index version {version} has no shard {shard}; it has {manifest.num_shards}")
    found: dict[ChunkId, Vector] = {}
    for entry in manifest.shards[shard].segments:
        found |= read_vectors(store.segment(entry.info), [name for name in chunk_ids if name not in found])
    return found
