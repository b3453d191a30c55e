"""Versions of an index: committed beside each other, one of them live through the one-line file CURRENT."""

import fcntl
import json
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError
from pyroaring import BitMap

from rag.config import RagConfig
from rag.data import Vector
from rag.errors import IndexDamaged, IndexMismatch, InputError, NotFound, RagError
from rag.ids import ChunkId, DocumentId, SegmentId, VersionId
from rag.index.files import check_file, checksum, read_checked, reading, write_atomically
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
from rag.index.registry import DocumentRecord, records_from_bytes, records_to_table, table_from_bytes, table_to_bytes
from rag.index.remote import RemoteFiles, open_remote
from rag.index.revocations import RevocationFeed, RevocationList
from rag.index.segment import LEXICAL, SegmentInfo, check_segment, open_chunks, read_vectors
from rag.index.statistics import CorpusStatistics, merge_statistics, read_statistics, subtract_statistics

_VERSION = re.compile(r"v-[0-9a-f]{16}")
_MANIFEST = "manifest.json"
_STATISTICS = "statistics.arrow"
_CURRENT = "CURRENT"
_REVOCATIONS = "revocations.json"
_HISTORY = "history.jsonl"
_COMPLETE = "segment.json"  # beside a segment's objects on an object store: all of them are there
_HISTORY_LINES = 1_000


class IndexStore:
    """The folder of one index, with all its versions.

    With `remote` the index is on an object store: CURRENT, the revocations and the history are read there and written
    there first, what is immutable is copied to the folder when it is needed, and checked.
    """

    def __init__(self, root: Path, remote: RemoteFiles | None = None) -> None:
        self.root = root
        self.remote = remote
        self.segments_dir = root / "segments"
        self.versions_dir = root / "versions"
        self.documents_dir = root / "documents"

    def __repr__(self) -> str:
        return f"IndexStore({str(self.root)!r}{f', {self.remote!r}' if self.remote else ''})"

    # ------------------------------------------------------------ which version is live

    def current(self) -> VersionId:
        """The live version. Raises NotFound where nothing was published yet."""
        version = self.current_or_none()
        if version is None:
            place = self.root / _CURRENT
            raise NotFound(f"{place}: no index version is live; build and publish one with `{REBUILD_COMMAND}`")
        return version

    def current_or_none(self) -> VersionId | None:
        """The live version, or None where nothing was published yet. Raises IndexDamaged."""
        content = self.read_live(_CURRENT)
        if content is None:
            return None
        name = content.decode("ascii", errors="replace").strip()
        if not _VERSION.fullmatch(name):
            raise IndexDamaged(self.root / _CURRENT, f"holds {name[:40]!r}, expected the name of a version")
        return VersionId(name)

    def publish(self, version: VersionId, note: Mapping[str, Any] | None = None) -> None:  # Any: JSON
        """Makes a committed version the live one, in one step. Raises NotFound where it was never committed.

        The history keeps when that was, and the `note`.
        """
        self.manifest(version)
        self.write_live(_CURRENT, f"{version}\n".encode("ascii"))
        self._note(version, note or {})

    def rollback(self) -> VersionId:
        """Makes the parent of the live version live again, and returns it. Raises NotFound where it has none."""
        version = self.current()
        parent = self.manifest(version).parent
        if parent is None:
            raise NotFound(f"index version {version} is the first of its line; there is nothing to roll back to")
        try:
            self.publish(parent, {"rollback": True})
        except NotFound as error:
            raise NotFound(f"{error}: it was reclaimed; index.keep_versions says how many are kept") from error
        return parent

    def history(self) -> list[dict[str, Any]]:  # Any: JSON
        """What was published when, oldest first: `version`, `at`, and what was noted with it."""
        lines = (self.read_live(_HISTORY) or b"").decode().splitlines()
        return [json.loads(line) for line in lines]

    def _note(self, version: VersionId, note: Mapping[str, Any]) -> None:  # Any: JSON
        line = json.dumps({"version": version, "at": datetime.now(UTC).isoformat(), **note})
        earlier = (self.read_live(_HISTORY) or b"").decode().splitlines()
        self.write_live(_HISTORY, "".join(f"{one}\n" for one in [*earlier, line][-_HISTORY_LINES:]).encode())

    # ------------------------------------------------------------ what a version is made of

    def versions(self) -> list[VersionId]:
        """All committed versions, newest first."""
        manifests = [self.manifest(version) for version in self._committed()]
        manifests.sort(key=lambda manifest: (manifest.created_at, manifest.version), reverse=True)
        return [manifest.version for manifest in manifests]

    def _committed(self) -> list[VersionId]:
        if self.remote is None:
            return [VersionId(path.parent.name) for path in self.versions_dir.glob(f"*/{_MANIFEST}")]
        names = [VersionId(name) for name in self.remote.names("versions")]
        return [name for name in names if self.remote.exists(f"versions/{name}/{_MANIFEST}")]

    def manifest(self, version: VersionId) -> Manifest:
        """The manifest of a committed version. Raises NotFound and IndexDamaged."""
        path = self.version_dir(version) / _MANIFEST
        try:
            content = self._immutable(path).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"{path}: there is no index version {version}") from error
        except OSError as error:
            raise IndexDamaged(path, f"not readable as a manifest: {error}") from error
        try:
            manifest = Manifest.model_validate_json(content)
        except ValidationError as error:
            raise IndexDamaged(path, f"not readable as a manifest: {error}") from error
        if version != manifest.version or version != manifest.content.version_id(manifest.parent):
            raise IndexDamaged(path, "its content does not have the version id under which it is stored")
        return manifest

    def registry(self, version: VersionId) -> list[DocumentRecord]:
        """The documents of the version, by id. Raises NotFound and IndexDamaged."""
        path, content = self._registry_bytes(self.manifest(version))
        with reading(path):
            return records_from_bytes(content)

    def registry_table(self, manifest: Manifest) -> pa.Table:
        """The same as a table of DOCUMENT_SCHEMA."""
        path, content = self._registry_bytes(manifest)
        with reading(path):
            return table_from_bytes(content)

    def _registry_bytes(self, manifest: Manifest) -> tuple[Path, bytes]:
        file = manifest.content.registry
        path = self._immutable(self.documents_dir / file.name)
        return path, read_checked(path, file.info)

    def statistics(self, manifest: Manifest) -> CorpusStatistics:
        """The corpus-wide counts of the version. Raises IndexDamaged."""
        file = manifest.content.statistics
        path = self._immutable(self.version_dir(manifest.version) / file.name)
        read_checked(path, file.info)
        with reading(path):
            return read_statistics(path)

    def tombstones(self, manifest: Manifest, entry: SegmentEntry) -> BitMap:
        """The rows of a segment that are dead in the version. Raises IndexDamaged."""
        if entry.tombstones is None:
            return BitMap()
        path = self._immutable(self.version_dir(manifest.version) / entry.tombstones.name)
        content = read_checked(path, entry.tombstones.info)
        with reading(path):
            return BitMap.deserialize(content)

    def record_smoke(self, version: VersionId, figures: Mapping[str, float]) -> None:
        """Writes what the smoke test found into the version's manifest; neither its content nor its id changes."""
        manifest = self.manifest(version).model_copy(update={"smoke": figures})
        self.write_version_file(version, _MANIFEST, _manifest_bytes(manifest))

    def version_dir(self, version: VersionId) -> Path:
        """The folder of a version. Raises NotFound for what can't be the name of one."""
        if not _VERSION.fullmatch(version):
            raise NotFound(f"{version!r} is not the name of an index version")
        return self.versions_dir / version

    # ------------------------------------------------------------ segments

    def segment(self, info: SegmentInfo) -> Path:
        """The folder of the segment on this machine; from an object store it is copied once and checked.

        Raises IndexDamaged for a copy that is not what was written.
        """
        directory = self.segments_dir / info.id
        if self.remote is None or directory.is_dir():
            return directory
        temporary = self.segments_dir / f".tmp-{uuid.uuid4().hex}"
        try:
            for name, file in info.files.items():
                self.remote.download(f"segments/{info.id}/{name}", temporary / name)
                check_file(temporary / name, file, verify=True)
            try:
                temporary.rename(directory)
            except OSError:
                if not directory.is_dir():  # another process may have copied it meanwhile
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return directory

    def push_segment(self, info: SegmentInfo) -> None:
        """Puts a segment that was written here on the object store, if there is one and it lacks the segment."""
        if self.remote is None or self.remote.exists(f"segments/{info.id}/{_COMPLETE}"):
            return
        for name in info.files:
            self.remote.upload(f"segments/{info.id}/{name}", self.segments_dir / info.id / name)
        self.remote.write(f"segments/{info.id}/{_COMPLETE}", info.model_dump_json().encode())

    # ------------------------------------------------------------ revocations

    def revocations(self) -> RevocationList:
        """What is revoked, whatever the versions say. Raises IndexDamaged."""
        content = self.read_live(_REVOCATIONS)
        if content is None:
            return RevocationList()
        try:
            return RevocationList.model_validate_json(content)
        except ValidationError as error:
            raise IndexDamaged(self.root / _REVOCATIONS, f"not readable as revocations: {error}") from error

    def write_revocations(self, revocations: RevocationList) -> None:
        """Replaces the list in one step; open shards read it within their polling interval."""
        self.write_live(_REVOCATIONS, (revocations.model_dump_json(indent=2) + "\n").encode())

    def revocation_feed(self, clock: Callable[[], float] = time.monotonic) -> RevocationFeed:
        """The revocations as they are at each moment. An unchanged file on this machine is not read again."""
        path = self.root / _REVOCATIONS
        seen: tuple[object, RevocationList] = (None, RevocationList())

        def read() -> RevocationList:
            nonlocal seen
            if self.remote is not None:
                return self.revocations()
            try:
                status = path.stat()
            except FileNotFoundError:
                return RevocationList()
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            if stamp != seen[0]:
                seen = (stamp, self.revocations())
            return seen[1]

        return RevocationFeed(read, clock=clock)

    # ------------------------------------------------------------ files

    def read_live(self, name: str) -> bytes | None:
        """The content of a file that changes, as it is now; None where there is none."""
        if self.remote is not None:
            return self.remote.read(name)
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def write_live(self, name: str, content: bytes) -> None:
        """Replaces a file that changes, in one step."""
        if self.remote is not None:
            self.remote.write(name, content)
            return
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)

    def live_names(self, folder: str) -> list[str]:
        """The names of the changing files in a folder, sorted."""
        if self.remote is not None:
            return self.remote.names(folder)
        return sorted(path.name for path in (self.root / folder).glob("[!.]*"))

    def delete_live(self, name: str) -> None:
        """Deletes a file that changes; nothing where it is not there."""
        if self.remote is not None:
            self.remote.delete(name)
        (self.root / name).unlink(missing_ok=True)

    def segment_names(self) -> list[SegmentId]:
        """Every segment that is stored, whether a version names it or not."""
        local = {path.name for path in self.segments_dir.glob("[!.]*")}
        return [SegmentId(name) for name in sorted(local | set(self.remote.names("segments") if self.remote else ()))]

    def registry_names(self) -> list[str]:
        """Every registry that is stored, whether a version names it or not."""
        local = {path.name for path in self.documents_dir.glob("[!.]*")}
        return sorted(local | set(self.remote.names("documents") if self.remote else ()))

    def delete_version(self, version: VersionId) -> None:
        """Deletes a version, its manifest first, so that it is not half there; its segments stay."""
        self._delete(self.version_dir(version) / _MANIFEST)
        self._delete(self.version_dir(version))

    def delete_segment(self, name: SegmentId) -> None:
        """Deletes a segment, here and on the object store. Who has it mapped keeps it until it is closed."""
        if self.remote is not None:
            self.remote.delete(f"segments/{name}/{_COMPLETE}")
        self._delete(self.segments_dir / name)

    def delete_registry(self, name: str) -> None:
        """Deletes a registry, here and on the object store."""
        self._delete(self.documents_dir / name)

    def _delete(self, path: Path) -> None:
        if self.remote is not None:
            self.remote.delete(path.relative_to(self.root).as_posix())
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def write_version_file(self, version: VersionId, name: str, content: bytes) -> None:
        """Writes a file of a version's folder, here and on the object store."""
        self._write_immutable(self.version_dir(version) / name, content)

    def write_registry(self, name: str, content: bytes) -> None:
        """Writes a registry of the folder of documents, here and on the object store."""
        self._write_immutable(self.documents_dir / name, content)

    def _write_immutable(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
        if self.remote is not None:
            self.remote.write(path.relative_to(self.root).as_posix(), content)

    def _immutable(self, path: Path) -> Path:
        """The path, its file copied from the object store where this machine does not have it yet."""
        if self.remote is not None and not path.exists():
            content = self.remote.read(path.relative_to(self.root).as_posix())
            if content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, content)
        return path

    @contextmanager
    def writing(self, *, wait: bool = False) -> Iterator[None]:
        """One run an index and machine that builds versions: two would each drop the other's changes.

        The second waits or gets a RagError. The lock ends with the process, however it ends.
        """
        lock = self.root / "building" / "lock"
        with _locked(lock, None if wait else f"another run is writing this index ({lock} is locked)"):
            yield

    @contextmanager
    def reembedding(self) -> Iterator[None]:
        """One re-embedding at a time, beside runs that build. Raises RagError for the second."""
        with _locked(self.root / "locks" / "reembedding", "a re-embedding of this index is under way"):
            yield

    def is_reembedding(self) -> bool:
        """Whether a re-embedding is under way on this machine."""
        try:
            with self.reembedding():
                return False
        except RagError:
            return True

    @contextmanager
    def changing_revocations(self) -> Iterator[None]:
        """One change of the revocations after the other."""
        with _locked(self.root / "locks" / "revocations", None):
            yield


def open_store(config: RagConfig) -> IndexStore:
    """The index of the configuration, in a folder or on an object store."""
    return IndexStore(config.index_root, open_remote(config.remote, config.index_name))


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

    tombstones: dict[SegmentId, BitMap] = {}
    killed: list[tuple[SegmentEntry, BitMap]] = []  # rows that were live in the parent
    shards: list[ShardEntry] = []
    for shard in range(config.index.num_shards):
        entries: list[SegmentEntry] = []
        if before is not None:
            entries = _carry_over(store, before, shard, removed_documents, replaced_segments, tombstones, killed)
        entries += [_added(store, info, dim) for info in new_segments.get(shard, ())]
        shards.append(ShardEntry(shard=shard, segments=tuple(sorted(entries, key=lambda entry: entry.info.id))))
    table = records if isinstance(records, pa.Table) else records_to_table(records)
    added = {shard: tuple(infos) for shard, infos in new_segments.items()}
    if before is None or replaced_segments or not _extends(store, before, added, removed_documents, table):
        _check_registry(store, shards, tombstones, table)

    if before is None:
        statistics = merge_statistics(
            _statistics_of(store, entry.info) for shard_entry in shards for entry in shard_entry.segments
        )
    else:
        statistics = _changed_statistics(store, before, killed, [info for infos in added.values() for info in infos])
    counted, registry = statistics.to_bytes(), table_to_bytes(table)
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


def check_version(store: IndexStore, manifest: Manifest) -> None:
    """Raises IndexDamaged unless the live chunks of the version are exactly those that its registry lists."""
    tombstones = {
        entry.info.id: store.tombstones(manifest, entry) for shard in manifest.shards for entry in shard.segments
    }
    try:
        _check_registry(store, manifest.shards, tombstones, store.registry_table(manifest))
    except InputError as error:
        raise IndexDamaged(store.version_dir(manifest.version), str(error)) from error


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


def _carry_over(
    store: IndexStore,
    parent: Manifest,
    shard: int,
    removed_documents: Collection[DocumentId],
    replaced_segments: Collection[SegmentId],
    tombstones: dict[SegmentId, BitMap],
    killed: list[tuple[SegmentEntry, BitMap]],
) -> list[SegmentEntry]:
    """The parent's segments that still have a live row. Their dead rows go into `tombstones`; rows that die here, those
    of segments that are left out too, go into `killed`."""
    removed = pa.array(sorted(removed_documents), pa.string())
    kept: list[SegmentEntry] = []
    for entry in parent.shards[shard].segments:
        before = store.tombstones(parent, entry)
        if entry.info.id in replaced_segments:
            killed.append((entry, BitMap(range(entry.info.num_chunks)) - before))
            continue
        dead = before
        if len(removed):
            documents = open_chunks(store.segment(entry.info)).column("document_id")
            dead = before | BitMap(np.flatnonzero(pc.is_in(documents, value_set=removed).to_numpy()))
        if len(dead) > len(before):
            killed.append((entry, dead - before))
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


def _extends(
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


def _check_registry(
    store: IndexStore, shards: Iterable[ShardEntry], tombstones: Mapping[SegmentId, BitMap], records: pa.Table
) -> None:
    """Raises InputError unless each shard's live chunks are those of its records, each once."""
    for shard in shards:
        mine = records.filter(pc.equal(records.column("shard"), shard.shard)).column("chunk_ids")
        listed = _sorted([pc.list_flatten(chunk) for chunk in mine.chunks])
        live = _sorted([_live_ids(store, entry, tombstones) for entry in shard.segments])
        if not listed.equals(live):
            _name_difference(shard.shard, Counter(listed.to_pylist()), Counter(live.to_pylist()))
    num_shards = len(list(shards))
    if lost := [shard for shard in pc.unique(records.column("shard")).to_pylist() if not 0 <= shard < num_shards]:
        raise InputError(f"the registry has documents in shards {lost}, but the index has {num_shards}")


def _sorted(arrays: Sequence[pa.Array]) -> pa.Array:
    joined = pa.concat_arrays(arrays) if arrays else pa.array([], pa.string())
    return joined.take(pc.sort_indices(joined))


def _name_difference(shard: int, listed: Counter[str], live: Counter[str]) -> None:
    for chunk_id, count in sorted(((live - listed) + (listed - live)).items()):
        raise InputError(
            f"chunk {chunk_id} is live {live[chunk_id]} times in shard {shard}, and the registry lists it "
            f"{listed[chunk_id]} times (one of {(live - listed).total() + (listed - live).total()} such cases, "
            f"off by {count})"
        )


def _live_ids(store: IndexStore, entry: SegmentEntry, tombstones: Mapping[SegmentId, BitMap]) -> pa.Array:
    live = np.ones(entry.info.num_chunks, np.bool_)
    live[np.asarray(tombstones.get(entry.info.id, BitMap()).to_array(), np.int64)] = False
    return open_chunks(store.segment(entry.info)).column("id").combine_chunks().filter(pa.array(live))


def _statistics_of(store: IndexStore, info: SegmentInfo, rows: BitMap | None = None) -> CorpusStatistics:
    """The counts over these rows of the segment, over all without."""
    counted = np.full(info.num_chunks, rows is None)
    if rows is not None:
        counted[np.asarray(rows.to_array(), np.int64)] = True
    return open_term_frequencies(store.segment(info) / LEXICAL).statistics(counted)


def _changed_statistics(
    store: IndexStore,
    parent: Manifest,
    killed: Iterable[tuple[SegmentEntry, BitMap]],
    added: Iterable[SegmentInfo],
) -> CorpusStatistics:
    """The parent's counts without the rows that died and with those that came: integers, so equal to a recount."""
    gone = merge_statistics(_statistics_of(store, entry.info, rows) for entry, rows in killed)
    come = merge_statistics([store.statistics(parent), *(_statistics_of(store, info) for info in added)])
    return subtract_statistics(come, gone)


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
    try:
        return store.manifest(manifest.version)
    except NotFound:
        pass
    for entry in (entry for shard in manifest.shards for entry in shard.segments):
        if entry.tombstones is not None:
            content = tombstones[entry.info.id].serialize()
            store.write_version_file(manifest.version, entry.tombstones.name, content)
    store.write_version_file(manifest.version, manifest.content.statistics.name, statistics)
    store.write_registry(manifest.content.registry.name, registry)
    store.write_version_file(manifest.version, _MANIFEST, _manifest_bytes(manifest))
    return manifest


def _manifest_bytes(manifest: Manifest) -> bytes:
    return (manifest.model_dump_json(indent=2) + "\n").encode()


@contextmanager
def _locked(lock: Path, refusal: str | None) -> Iterator[None]:
    """Holds a lock of this machine; waits for it where nothing is to be said to who comes second."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
        except BlockingIOError as error:
            raise RagError(refusal or "") from error
        yield
