"""Versions of an index: committed beside each other, one of them live through the one-line file CURRENT."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError
from pyroaring import BitMap

from rag.config import RagConfig
from rag.data import Vector
from rag.errors import IndexDamaged, IndexMismatch, InputError, NotFound
from rag.ids import ChunkId, DocumentId, SegmentId, VersionId
from rag.index.files import checksum, read_checked, reading, write_atomically
from rag.index.lexical import open_term_frequencies
from rag.index.manifest import (
    REBUILD_COMMAND,
    Content,
    Counts,
    EncoderInfo,
    Manifest,
    NamedFile,
    SegmentEntry,
    ShardEntry,
    check_compatible,
)
from rag.index.registry import DocumentRecord, records_from_bytes, records_to_bytes
from rag.index.segment import LEXICAL, SegmentInfo, check_segment, open_chunks, read_vectors
from rag.index.statistics import CorpusStatistics, merge_statistics, read_statistics

_VERSION = re.compile(r"v-[0-9a-f]{16}")
_MANIFEST = "manifest.json"
_STATISTICS = "statistics.arrow"


class IndexStore:
    """The folder of one index, with all its versions."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.segments_dir = root / "segments"
        self.versions_dir = root / "versions"
        self.documents_dir = root / "documents"
        self._current = root / "CURRENT"

    def __repr__(self) -> str:
        return f"IndexStore({str(self.root)!r})"

    def current(self) -> VersionId:
        """The live version. Raises NotFound where nothing was published yet."""
        version = self.current_or_none()
        if version is None:
            raise NotFound(f"{self._current}: no index version is live; build and publish one with `{REBUILD_COMMAND}`")
        return version

    def current_or_none(self) -> VersionId | None:
        """The live version, or None where nothing was published yet. Raises IndexDamaged."""
        try:
            name = self._current.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            return None
        if not _VERSION.fullmatch(name):
            raise IndexDamaged(self._current, f"holds {name[:40]!r}, expected the name of a version")
        return VersionId(name)

    def versions(self) -> list[VersionId]:
        """All committed versions, newest first."""
        paths = self.versions_dir.glob(f"*/{_MANIFEST}")
        manifests = [self.manifest(VersionId(path.parent.name)) for path in paths]
        manifests.sort(key=lambda manifest: (manifest.created_at, manifest.version), reverse=True)
        return [manifest.version for manifest in manifests]

    def manifest(self, version: VersionId) -> Manifest:
        """The manifest of a committed version. Raises NotFound and IndexDamaged."""
        path = self.version_dir(version) / _MANIFEST
        try:
            manifest = Manifest.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            raise NotFound(f"{path}: there is no index version {version}") from error
        except (OSError, ValidationError) as error:
            raise IndexDamaged(path, f"not readable as a manifest: {error}") from error
        if version != manifest.version or version != manifest.content.version_id(manifest.parent):
            raise IndexDamaged(path, "its content does not have the version id under which it is stored")
        return manifest

    def registry(self, version: VersionId) -> list[DocumentRecord]:
        """The documents of the version, by id. Raises NotFound and IndexDamaged."""
        file = self.manifest(version).content.registry
        path = self.documents_dir / file.name
        content = read_checked(path, file.info)
        with reading(path):
            return records_from_bytes(content)

    def statistics(self, manifest: Manifest) -> CorpusStatistics:
        """The corpus-wide counts of the version. Raises IndexDamaged."""
        file = manifest.content.statistics
        path = self.version_dir(manifest.version) / file.name
        read_checked(path, file.info)
        with reading(path):
            return read_statistics(path)

    def tombstones(self, manifest: Manifest, entry: SegmentEntry) -> BitMap:
        """The rows of a segment that are dead in the version. Raises IndexDamaged."""
        if entry.tombstones is None:
            return BitMap()
        path = self.version_dir(manifest.version) / entry.tombstones.name
        content = read_checked(path, entry.tombstones.info)
        with reading(path):
            return BitMap.deserialize(content)

    def record_smoke(self, version: VersionId, figures: Mapping[str, float]) -> None:
        """Writes what the smoke test found into the version's manifest; neither its content nor its id changes."""
        manifest = self.manifest(version).model_copy(update={"smoke": figures})
        write_atomically(self.version_dir(version) / _MANIFEST, _manifest_bytes(manifest))

    def publish(self, version: VersionId) -> None:
        """Makes a committed version the live one, in one step. Raises NotFound where it was never committed."""
        self.manifest(version)
        write_atomically(self._current, f"{version}\n".encode("ascii"))

    def rollback(self) -> VersionId:
        """Makes the parent of the live version live again, and returns it. Raises NotFound where it has none."""
        version = self.current()
        parent = self.manifest(version).parent
        if parent is None:
            raise NotFound(f"index version {version} is the first of its line; there is nothing to roll back to")
        self.publish(parent)
        return parent

    def version_dir(self, version: VersionId) -> Path:
        """The folder of a version. Raises NotFound for what can't be the name of one."""
        if not _VERSION.fullmatch(version):
            raise NotFound(f"{version!r} is not the name of an index version")
        return self.versions_dir / version


def commit_version(
    store: IndexStore,
    new_segments: Mapping[int, Sequence[SegmentInfo]],
    removed_documents: Collection[DocumentId],
    records: Sequence[DocumentRecord],
    config: RagConfig,
    dim: int,
    parent: VersionId | None = None,
    timings: Mapping[str, float] | None = None,
) -> Manifest:
    """Writes the version that follows `parent`, or a first one, and returns its manifest; it is not live yet.

    `new_segments` gives the segments to add by shard; `removed_documents` are those whose chunks in the parent's
    segments die, because they are gone or because a new segment holds them anew; `records` is the whole registry of
    the new version. Without a change, the parent's own manifest comes back. Raises IndexMismatch when the parent was
    built under other settings, and InputError when the live chunks are not exactly those that the records list.
    """
    before = store.manifest(parent) if parent is not None else None
    if before is not None:
        check_compatible(before, config)
        _check_dim(before, dim)

    tombstones: dict[SegmentId, BitMap] = {}
    shards: list[ShardEntry] = []
    for shard in range(config.index.num_shards):
        entries = [] if before is None else _carry_over(store, before, shard, removed_documents, tombstones)
        entries += [_added(store, info, dim) for info in new_segments.get(shard, ())]
        shards.append(ShardEntry(shard=shard, segments=tuple(sorted(entries, key=lambda entry: entry.info.id))))
    _check_shards(new_segments, config.index.num_shards)
    _check_registry(store, shards, tombstones, records)

    statistics = merge_statistics(
        _segment_statistics(store, entry, tombstones) for shard_entry in shards for entry in shard_entry.segments
    ).to_bytes()
    registry = records_to_bytes(records)
    content = Content(
        fingerprint=config.index_fingerprint(),
        encoder=EncoderInfo(
            model=config.embed.model,
            dim=dim,
            query_prefix=config.embed.query_prefix,
            passage_prefix=config.embed.passage_prefix,
        ),
        num_shards=config.index.num_shards,
        shards=tuple(shards),
        counts=Counts(
            documents=len(records),
            chunks=sum(entry.num_chunks for entry in shards),
            tombstones=sum(entry.num_tombstones for shard_entry in shards for entry in shard_entry.segments),
        ),
        statistics=NamedFile(name=_STATISTICS, info=checksum(statistics)),
        registry=NamedFile(name=f"{checksum(registry).checksum}.parquet", info=checksum(registry)),
    )
    if before is not None and before.content == content:
        return before
    return _write_version(store, content, parent, timings or {}, statistics, registry, tombstones)


def vectors_by_chunk_id(
    store: IndexStore, version: VersionId, shard: int, chunk_ids: Collection[ChunkId]
) -> dict[ChunkId, Vector]:
    """The stored vectors of those of the chunks that the version's shard holds: equal ids, equal vectors."""
    manifest = store.manifest(version)
    if not 0 <= shard < manifest.num_shards:
        raise NotFound(f"index version {version} has no shard {shard}; it has {manifest.num_shards}")
    found: dict[ChunkId, Vector] = {}
    for entry in manifest.shards[shard].segments:
        found |= read_vectors(store.segments_dir / entry.info.id, [name for name in chunk_ids if name not in found])
    return found


def _carry_over(
    store: IndexStore,
    parent: Manifest,
    shard: int,
    removed_documents: Collection[DocumentId],
    tombstones: dict[SegmentId, BitMap],
) -> list[SegmentEntry]:
    """The parent's segments that still have a live row; their dead rows go into `tombstones`."""
    removed = pa.array(sorted(removed_documents), pa.string())
    kept: list[SegmentEntry] = []
    for entry in parent.shards[shard].segments:
        documents = open_chunks(store.segments_dir / entry.info.id).column("document_id")
        gone = np.flatnonzero(pc.is_in(documents, value_set=removed).to_numpy(zero_copy_only=False))
        dead = store.tombstones(parent, entry) | BitMap(gone)
        if len(dead) == entry.info.num_chunks:
            continue
        if dead:
            dead.run_optimize()
            tombstones[entry.info.id] = dead
            content = dead.serialize()
            file = NamedFile(name=f"{entry.info.id}.tombstones", info=checksum(content))
            kept.append(SegmentEntry(info=entry.info, tombstones=file, num_tombstones=len(dead)))
        else:
            kept.append(SegmentEntry(info=entry.info))
    return kept


def _added(store: IndexStore, info: SegmentInfo, dim: int) -> SegmentEntry:
    if info.dim != dim:
        raise IndexMismatch(f"segment {info.id} holds vectors of {info.dim} dimensions, the version {dim}")
    check_segment(store.segments_dir / info.id, info, verify=False)
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


def _check_registry(
    store: IndexStore,
    shards: Iterable[ShardEntry],
    tombstones: Mapping[SegmentId, BitMap],
    records: Iterable[DocumentRecord],
) -> None:
    """Raises InputError unless each shard's live chunks are those of its records, each once."""
    listed: Counter[tuple[int, str]] = Counter(
        (record.shard, chunk_id) for record in records for chunk_id in record.chunk_ids
    )
    live: Counter[tuple[int, str]] = Counter(
        (shard.shard, chunk_id) for shard in shards for chunk_id in _live_ids(store, shard, tombstones)
    )
    if listed == live:
        return
    for (shard, chunk_id), count in sorted(((live - listed) + (listed - live)).items()):
        raise InputError(
            f"chunk {chunk_id} is live {live[shard, chunk_id]} times in shard {shard}, and the registry lists it "
            f"{listed[shard, chunk_id]} times (one of {(live - listed).total() + (listed - live).total()} such cases, "
            f"off by {count})"
        )


def _live_ids(store: IndexStore, shard: ShardEntry, tombstones: Mapping[SegmentId, BitMap]) -> Iterator[str]:
    for entry in shard.segments:
        dead = tombstones.get(entry.info.id, BitMap())
        ids = open_chunks(store.segments_dir / entry.info.id).column("id").to_pylist()
        yield from (chunk_id for row, chunk_id in enumerate(ids) if row not in dead)


def _segment_statistics(
    store: IndexStore, entry: SegmentEntry, tombstones: Mapping[SegmentId, BitMap]
) -> CorpusStatistics:
    live = np.ones(entry.info.num_chunks, np.bool_)
    live[np.asarray(tombstones.get(entry.info.id, BitMap()).to_array(), np.int64)] = False
    return open_term_frequencies(store.segments_dir / entry.info.id / LEXICAL).statistics(live)


def _write_version(
    store: IndexStore,
    content: Content,
    parent: VersionId | None,
    timings: Mapping[str, float],
    statistics: bytes,
    registry: bytes,
    tombstones: Mapping[SegmentId, BitMap],
) -> Manifest:
    version = content.version_id(parent)
    directory = store.version_dir(version)
    if (directory / _MANIFEST).is_file():
        return store.manifest(version)
    directory.mkdir(parents=True, exist_ok=True)
    store.documents_dir.mkdir(exist_ok=True)
    for entry in (entry for shard in content.shards for entry in shard.segments):
        if entry.tombstones is not None:
            write_atomically(directory / entry.tombstones.name, tombstones[entry.info.id].serialize())
    write_atomically(directory / content.statistics.name, statistics)
    write_atomically(store.documents_dir / content.registry.name, registry)
    manifest = Manifest(version=version, parent=parent, created_at=datetime.now(UTC), content=content, timings=timings)
    write_atomically(directory / _MANIFEST, _manifest_bytes(manifest))
    return manifest


def _manifest_bytes(manifest: Manifest) -> bytes:
    return (manifest.model_dump_json(indent=2) + "\n").encode()
