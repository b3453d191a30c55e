"""Compaction: small segments merged, dead rows dropped. What a search finds, and how it is ranked, stays the same."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from rag.config import RagConfig
from rag.data import Vectors
from rag.ids import SegmentId
from rag.index.files import reading
from rag.index.manifest import Manifest, SegmentEntry
from rag.index.segment import VECTORS, SegmentInfo, open_chunks, write_segment
from rag.index.selection import Rows
from rag.index.versions import IndexStore, commit_version
from rag.tables import table_to_chunks

MAX_DEAD_SHARE = 0.1  # a segment with more dead rows is written anew
SMALL_SHARE = 0.5  # of the most chunks of a segment; a smaller one is merged with others


def plan_compaction(
    manifest: Manifest, max_chunks: int, *, everything: bool = False
) -> dict[int, list[list[SegmentEntry]]]:
    """Which segments of each shard become one segment each. Segments that gain nothing are left out.

    A group holds at most `max_chunks` live rows, or one segment. With `everything` no dead row stays.
    """
    plan: dict[int, list[list[SegmentEntry]]] = {}
    for shard in manifest.shards:
        worn = [entry for entry in shard.segments if _is_worn(entry, max_chunks, everything)]
        groups: list[list[SegmentEntry]] = []
        size = 0
        for entry in sorted(worn, key=lambda entry: (num_live(entry), entry.info.id)):
            if groups and size + num_live(entry) <= max_chunks:
                groups[-1].append(entry)
                size += num_live(entry)
            else:
                groups.append([entry])
                size = num_live(entry)
        if useful := [group for group in groups if len(group) > 1 or group[0].num_tombstones]:
            plan[shard.shard] = useful
    return plan


def compact(
    store: IndexStore, manifest: Manifest, plan: Mapping[int, Sequence[Sequence[SegmentEntry]]], config: RagConfig
) -> Manifest:
    """Writes the version in which each group of the plan is one segment, and returns its manifest; it is not live yet.

    Raises IndexMismatch when the version was built under other settings.
    """
    written: dict[int, list[SegmentInfo]] = {}
    replaced: set[SegmentId] = set()
    for shard, groups in plan.items():
        for group in groups:
            written.setdefault(shard, []).append(merge_segments(store, manifest, group, config))
            replaced.update(entry.info.id for entry in group)
    return commit_version(
        store,
        written,
        (),
        store.registry(manifest.version),
        config,
        manifest.encoder.dim,
        parent=manifest.version,
        replaced_segments=replaced,
        made_by="compact",
    )


def merge_segments(
    store: IndexStore, manifest: Manifest, entries: Sequence[SegmentEntry], config: RagConfig
) -> SegmentInfo:
    """The live rows of the segments as one segment, with the vectors that they have."""
    tables, vectors = [], []
    for entry in entries:
        rows = live_rows(store, manifest, entry)
        tables.append(open_chunks(store.segment(entry.info)).take(pa.array(rows)))
        vectors.append(stored_vectors(store, entry.info, rows))
    chunks = table_to_chunks(pa.concat_tables(tables))
    return write_segment(store.segments_dir, chunks, np.concatenate(vectors), config.index)


def num_live(entry: SegmentEntry) -> int:
    """Rows of the segment that are not dead."""
    return entry.info.num_chunks - entry.num_tombstones


def live_rows(store: IndexStore, manifest: Manifest, entry: SegmentEntry) -> Rows:
    """The rows of the segment that are not dead in the version, ascending."""
    dead = np.asarray(store.tombstones(manifest, entry).to_array(), np.int64)
    return np.setdiff1d(np.arange(entry.info.num_chunks), dead, assume_unique=True)


def stored_vectors(store: IndexStore, info: SegmentInfo, rows: Rows) -> Vectors:
    """The vectors of the rows, as float32."""
    path = store.segment(info) / VECTORS
    with reading(path):
        stored = np.load(path, mmap_mode="r")
        return np.asarray(stored[rows], np.float32)


def _is_worn(entry: SegmentEntry, max_chunks: int, everything: bool) -> bool:
    if entry.num_tombstones and (everything or entry.num_tombstones > MAX_DEAD_SHARE * entry.info.num_chunks):
        return True
    return num_live(entry) <= SMALL_SHARE * max_chunks
