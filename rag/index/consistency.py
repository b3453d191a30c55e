"""Whether a version's registry and its segments say the same: each listed chunk live once, in the right shard."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from rag.errors import IndexDamaged, InputError
from rag.ids import DocumentId, SegmentId
from rag.index.manifest import Manifest, SegmentEntry, ShardEntry
from rag.index.row_flags import row_flags
from rag.index.segment import SegmentInfo, open_chunks
from rag.index.store import IndexStore


def check_version(store: IndexStore, manifest: Manifest) -> None:
    """Raises IndexDamaged unless the live chunks of the version are exactly those that its registry lists."""
    tombstones = {entry.info.id: store.tombstones(manifest, entry) for entry in manifest.segments}
    try:
        check_registry(store, manifest.shards, tombstones, store.registry_table(manifest))
    except InputError as error:
        raise IndexDamaged(store.version_dir(manifest.version), str(error)) from error


def extends_parent(
    store: IndexStore,
    parent: Manifest,
    added: Mapping[int, Sequence[SegmentInfo]],
    removed_documents: Collection[DocumentId],
    records: pa.Table,
) -> bool:
    """Whether the records are the parent's, but for the documents that were removed and those in the added segments,
    and list of the latter exactly the added chunks. Looks at no chunk of the parent, whose own records were checked."""
    new = [
        open_chunks(store.segment(info))
        .select(["document_id", "id"])
        .append_column("shard", pa.array([shard] * info.num_chunks, pa.int32()))
        for shard, infos in added.items()
        for info in infos
    ]
    chunks = pa.concat_tables(new).combine_chunks() if new else None
    documents = [] if chunks is None else pc.unique(chunks.column("document_id")).to_pylist()
    known = store.registry_table(parent)
    removed = pa.array(sorted(removed_documents), pa.string())
    gone = pc.is_in(known.column("document_id"), value_set=removed)
    changed = pa.array(sorted({*removed_documents, *documents}), pa.string())
    is_changed = pc.is_in(records.column("document_id"), value_set=changed)
    columns = ["document_id", "shard", "chunk_ids"]
    if not known.filter(pc.invert(gone)).select(columns).equals(records.filter(pc.invert(is_changed)).select(columns)):
        return False
    rows = records.filter(is_changed).select(columns).to_pylist()
    listed = Counter((row["shard"], row["document_id"], name) for row in rows for name in row["chunk_ids"])
    names = chunks.to_pylist() if chunks is not None else []
    return listed == Counter((row["shard"], row["document_id"], row["id"]) for row in names)


def check_registry(
    store: IndexStore, shards: Sequence[ShardEntry], tombstones: Mapping[SegmentId, BitMap], records: pa.Table
) -> None:
    """Raises InputError unless each shard's live chunks are those of its records, each once."""
    for shard in shards:
        mine = records.filter(pc.equal(records.column("shard"), shard.shard)).column("chunk_ids")
        listed = _sorted([pc.list_flatten(chunk) for chunk in mine.chunks])
        live = _sorted([_live_ids(store, entry, tombstones) for entry in shard.segments])
        if not listed.equals(live):
            raise _difference(shard.shard, Counter(listed.to_pylist()), Counter(live.to_pylist()))
    if lost := [shard for shard in pc.unique(records.column("shard")).to_pylist() if not 0 <= shard < len(shards)]:
        raise InputError(f"the registry has documents in shards {lost}, but the index has {len(shards)}")


def _sorted(arrays: Sequence[pa.Array]) -> pa.Array:
    joined = pa.concat_arrays(arrays) if arrays else pa.array([], pa.string())
    return joined.take(pc.sort_indices(joined))


def _difference(shard: int, listed: Counter[str], live: Counter[str]) -> InputError:
    """The error that names the first chunk of which the two know another number."""
    differences = (live - listed) + (listed - live)
    chunk_id = min(differences)
    return InputError(
        f"chunk {chunk_id} is live {live[chunk_id]} times in shard {shard}, and the registry lists it "
        f"{listed[chunk_id]} times (one of {differences.total()} such cases, off by {differences[chunk_id]})"
    )


def _live_ids(store: IndexStore, entry: SegmentEntry, tombstones: Mapping[SegmentId, BitMap]) -> pa.Array:
    live = ~row_flags(tombstones.get(entry.info.id, BitMap()), entry.info.num_chunks)
    return open_chunks(store.segment(entry.info)).column("id").combine_chunks().filter(pa.array(live))
