"""Committing a version: the parent's segments without what died, with what is new, checked and written beside it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from rag.config import RagConfig
from rag.errors import IndexMismatch, InputError
from rag.ids import DocumentId, SegmentId, VersionId
from rag.index.consistency import check_registry, extends_parent
from rag.index.files import checksum
from rag.index.lexical import open_term_frequencies
from rag.index.manifest import (
    REBUILD_COMMAND,
    Content,
    Counts,
    Manifest,
    NamedFile,
    SegmentEntry,
    ShardEntry,
    check_compatible,
    encoder_info,
)
from rag.index.registry import DocumentRecord, records_to_table, table_to_bytes
from rag.index.revoke import carry_revocations
from rag.index.row_flags import row_flags
from rag.index.segment import LEXICAL, SegmentInfo, check_segment, open_chunks
from rag.index.statistics import CorpusStatistics, merge_statistics, subtract_statistics
from rag.index.store import IndexStore

_STATISTICS = "statistics.arrow"


def commit_version(
    store: IndexStore,
    new_segments: Mapping[int, Sequence[SegmentInfo]],
    removed_documents: Collection[DocumentId],
    records: Sequence[DocumentRecord] | pa.Table,
    config: RagConfig,
    dim: int,
    parent: VersionId | None = None,
    timings: Mapping[str, float] | None = None,
    *,
    replaced_segments: Collection[SegmentId] = (),
    fresh: bool = False,
    made_by: str = "ingest",
) -> Manifest:
    """Writes the version that follows `parent`, or a first one, and returns its manifest; it is not live yet.

    `new_segments` gives the segments to add by shard; `removed_documents` are those whose chunks in the parent's
    segments die, because they are gone or because a new segment holds them anew; `replaced_segments` are those of the
    parent whose live rows are in new segments; `records` is the whole registry of the new version, or its table. With
    `fresh` nothing of the parent is carried over, and it may have other settings. Without a change, the parent's own
    manifest comes back. Raises IndexMismatch when the parent was built under other settings, and InputError when the
    live chunks are not exactly those that the records list.
    """
    before = store.manifest(parent) if parent is not None and not fresh else None
    if before is not None:
        check_compatible(before, config)
        _check_dim(before, dim)
    _check_shards(new_segments, config.index.num_shards)

    carried = [] if before is None else _carry_over(store, before, removed_documents, replaced_segments)
    shards: list[ShardEntry] = []
    for shard in range(config.index.num_shards):
        entries = [one.entry() for one in carried if one.shard == shard and one.lives]
        entries += [_added(store, info, dim) for info in new_segments.get(shard, ())]
        shards.append(ShardEntry(shard=shard, segments=tuple(sorted(entries, key=lambda entry: entry.info.id))))
    tombstones = {one.info.id: one.dead for one in carried if one.lives and one.dead}
    table = records if isinstance(records, pa.Table) else records_to_table(records)
    if before is None or replaced_segments or not extends_parent(store, before, new_segments, removed_documents, table):
        check_registry(store, shards, tombstones, table)

    counted, registry = _statistics(store, before, carried, new_segments).to_bytes(), table_to_bytes(table)
    content = Content(
        fingerprint=config.index_fingerprint(),
        encoder=encoder_info(config, dim),
        num_shards=config.index.num_shards,
        shards=tuple(shards),
        counts=Counts(
            documents=len(table),
            chunks=sum(entry.num_chunks for entry in shards),
            tombstones=sum(entry.num_tombstones for shard_entry in shards for entry in shard_entry.segments),
        ),
        statistics=NamedFile(name=_STATISTICS, info=checksum(counted)),
        registry=NamedFile(name=f"{checksum(registry).checksum}.parquet", info=checksum(registry)),
    )
    if before is not None and before.content == content:
        return before
    manifest = Manifest(
        version=content.version_id(parent),
        parent=parent,
        created_at=datetime.now(UTC),
        content=content,
        timings=timings or {},
        made_by=made_by,
        recall=_mean_recall(shards),
    )
    return _write_version(store, manifest, counted, registry, tombstones)


@dataclass(frozen=True, slots=True)
class _Carried:
    """A segment of the parent, and the rows of it that are dead in the new version."""

    shard: int
    info: SegmentInfo
    dead: BitMap
    killed: BitMap  # those of them that are live in the parent

    @property
    def lives(self) -> bool:
        """Whether a row of it does."""
        return len(self.dead) < self.info.num_chunks

    def entry(self) -> SegmentEntry:
        """The segment as the new version sees it."""
        if not self.dead:
            return SegmentEntry(info=self.info)
        file = NamedFile(name=f"{self.info.id}.tombstones", info=checksum(self.dead.serialize()))
        return SegmentEntry(info=self.info, tombstones=file, num_tombstones=len(self.dead))


def _carry_over(
    store: IndexStore,
    parent: Manifest,
    removed_documents: Collection[DocumentId],
    replaced_segments: Collection[SegmentId],
) -> list[_Carried]:
    """What becomes of the parent's segments. In one that is replaced every row dies."""
    removed = pa.array(sorted(removed_documents), pa.string())
    carried: list[_Carried] = []
    for shard in parent.shards:
        for entry in shard.segments:
            before = store.tombstones(parent, entry)
            dead = before
            if entry.info.id in replaced_segments:
                dead = BitMap(range(entry.info.num_chunks))
            elif len(removed):
                documents = open_chunks(store.segment(entry.info)).column("document_id")
                dead = before | BitMap(np.flatnonzero(pc.is_in(documents, value_set=removed).to_numpy()))
            dead.run_optimize()  # so that the bytes depend on the set alone
            carried.append(_Carried(shard.shard, entry.info, dead, dead - before))
    return carried


def _added(store: IndexStore, info: SegmentInfo, dim: int) -> SegmentEntry:
    """The new segment as an entry; it is on the object store by then, where there is one."""
    if info.dim != dim:
        raise IndexMismatch(f"segment {info.id} holds vectors of {info.dim} dimensions, the version {dim}")
    check_segment(store.segment(info), info, verify=False)
    store.push_segment(info)
    return SegmentEntry(info=info)


def _check_dim(parent: Manifest, dim: int) -> None:
    if parent.encoder.dim != dim:
        raise IndexMismatch(
            f"index version {parent.version} holds vectors of {parent.encoder.dim} dimensions, the encoder makes "
            f"{dim}; build a version with it with `{REBUILD_COMMAND}`"
        )


def _check_shards(new_segments: Mapping[int, Sequence[SegmentInfo]], num_shards: int) -> None:
    unknown = sorted(shard for shard in new_segments if not 0 <= shard < num_shards)
    if unknown:
        raise InputError(f"segments for shards {unknown}, but the index has {num_shards}")


def _statistics(
    store: IndexStore,
    parent: Manifest | None,
    carried: Iterable[_Carried],
    added: Mapping[int, Sequence[SegmentInfo]],
) -> CorpusStatistics:
    """The parent's counts without the rows that died and with those that came: integers, so equal to a recount."""
    come = [_statistics_of(store, info) for infos in added.values() for info in infos]
    if parent is None:
        return merge_statistics(come)
    gone = merge_statistics(_statistics_of(store, one.info, one.killed) for one in carried if one.killed)
    return subtract_statistics(merge_statistics([store.statistics(parent), *come]), gone)


def _statistics_of(store: IndexStore, info: SegmentInfo, rows: BitMap | None = None) -> CorpusStatistics:
    """The counts over these rows of the segment, over all without."""
    counted = np.ones(info.num_chunks, np.bool_) if rows is None else row_flags(rows, info.num_chunks)
    return open_term_frequencies(store.segment(info) / LEXICAL).statistics(counted)


def _mean_recall(shards: Iterable[ShardEntry]) -> float | None:
    """The recall that was measured of the segments, by chunks; None where every segment is searched exactly."""
    infos = [entry.info for shard in shards for entry in shard.segments]
    if all(info.recall is None for info in infos):
        return None
    whole = sum(info.num_chunks for info in infos)
    return sum((1.0 if info.recall is None else info.recall) * info.num_chunks for info in infos) / whole


def _write_version(
    store: IndexStore,
    manifest: Manifest,
    statistics: bytes,
    registry: bytes,
    tombstones: Mapping[SegmentId, BitMap],
) -> Manifest:
    """Writes all that the version has of its own, its manifest last; one that is there already is returned as it is."""
    if store.is_committed(manifest.version):
        return store.manifest(manifest.version)
    for entry in manifest.segments:
        if entry.tombstones is not None:
            content = tombstones[entry.info.id].serialize()
            store.write_version_file(manifest.version, entry.tombstones.name, content)
    store.write_version_file(manifest.version, manifest.content.statistics.name, statistics)
    store.write_registry(manifest.content.registry.name, registry)
    parent = None if manifest.parent is None else store.manifest(manifest.parent)
    carry_revocations(store, parent, manifest, store.begun.at if store.begun else manifest.created_at)
    store.write_manifest(manifest)
    return manifest
