"""What a version holds, whoever may read it: for operators and for tools on the index's own machine."""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag.data import Chunk
from rag.ids import ChunkId, VersionId
from rag.index.segment import open_chunks
from rag.index.versions import IndexStore
from rag.tables import table_to_chunks


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
    for entry in (entry for shard in manifest.shards for entry in shard.segments):
        table = open_chunks(store.segment(entry.info))
        live = np.ones(len(table), np.bool_)
        live[np.asarray(store.tombstones(manifest, entry).to_array(), np.int64)] = False
        wanted = pa.array(live)
        for column, values in (("uri", uris), ("id", chunk_ids)):
            if values is not None:
                found = pc.is_in(table.column(column).combine_chunks(), value_set=pa.array(sorted(values), pa.string()))
                wanted = pc.and_(wanted, found)
        chunks += table_to_chunks(table.filter(wanted))
    return sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.ordinal, chunk.id))
