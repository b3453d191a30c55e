"""Compaction: small segments merged, dead rows dropped. What a search finds, and how it is ranked, stays the same."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from rag.config import RagConfig
from rag.ids import SegmentId
from rag.index.commit import commit_version
from rag.index.contents import live_rows, stored_vectors
from rag.index.manifest import Manifest, SegmentEntry
from rag.index.segment import SegmentInfo, open_chunks, write_segment
from rag.index.store import IndexStore
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
        for entry in sorted(worn, key=lambda entry: (entry.num_live, entry.info.id)):
            if groups and size + entry.num_live <= max_chunks:
                groups[-1].append(entry)
                size += entry.num_live
            else:
                groups.append([entry])
                size = entry.num_live
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


def _is_worn(entry: SegmentEntry, max_chunks: int, everything: bool) -> bool:
    if entry.num_tombstones and (everything or entry.num_tombstones > MAX_DEAD_SHARE * entry.info.num_chunks):
        return True
    return entry.num_live <= SMALL_SHARE * max_chunks
