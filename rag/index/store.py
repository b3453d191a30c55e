"""An index with all its versions: committed beside each other, one of them live through the one-line file CURRENT."""

import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError
from pyroaring import BitMap

from rag.config import RagConfig
from rag.errors import IndexDamaged, NotFound, RagError
from rag.ids import SegmentId, VersionId
from rag.index.files import check_file, read_checked, reading
from rag.index.locks import holding
from rag.index.manifest import REBUILD_COMMAND, Manifest, SegmentEntry
from rag.index.registry import DocumentRecord, records_from_bytes, table_from_bytes
from rag.index.remote import RemoteFiles, open_remote
from rag.index.revocations import RevocationFeed, RevocationList
from rag.index.segment import SegmentInfo
from rag.index.statistics import CorpusStatistics, statistics_from_bytes
from rag.index.storage import Storage

_VERSION = re.compile(r"v-[0-9a-f]{16}")
_MANIFEST = "manifest.json"
_CURRENT = "CURRENT"
_REVOCATIONS = "revocations.json"
_HISTORY = "history.jsonl"
_COMPLETE = "segment.json"  # beside a segment's objects on an object store: all of them are there
_HISTORY_LINES = 1_000


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that builds versions: when it began, and what was live at its last look."""

    at: datetime
    live: VersionId | None


class IndexStore(Storage):
    """One index, with all its versions."""

    def __init__(self, root: Path, remote: RemoteFiles | None = None) -> None:
        super().__init__(root, remote)
        self.segments_dir = root / "segments"
        self.versions_dir = root / "versions"
        self.documents_dir = root / "documents"
        self.begun: Begun | None = None  # the run that builds versions through this object, while it does

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

        The history keeps when that was, and the `note`. A run that builds versions does not undo what somebody else
        made live meanwhile, by a rollback for example: it gets a RagError.
        """
        with self.publishing():
            if self.begun is not None and (live := self.current_or_none()) != self.begun.live:
                raise RagError(
                    f"index version {live} went live while this run built {version} on {self.begun.live}; nothing was "
                    f"published. Run it again, or make its version live all the same with `quire publish {version}`"
                )
            self._make_live(version, note or {})
            if self.begun is not None:
                self.begun = replace(self.begun, live=version)

    def rollback(self) -> VersionId:
        """Makes the parent of the live version live again, and returns it. Raises NotFound where it has none."""
        with self.publishing():
            version = self.current()
            parent = self.manifest(version).parent
            if parent is None:
                raise NotFound(f"index version {version} is the first of its line; there is nothing to roll back to")
            try:
                self._make_live(parent, {"rollback": True})
            except NotFound as error:
                raise NotFound(f"{error}: it was reclaimed; index.keep_versions says how many are kept") from error
            return parent

    def _make_live(self, version: VersionId, note: Mapping[str, Any]) -> None:  # Any: JSON
        self.manifest(version)
        if not self.is_committed(version):  # another machine reclaimed what this one has a copy of
            raise NotFound(f"{self.remote!r}: there is no index version {version}")
        self.write_live(_CURRENT, f"{version}\n".encode("ascii"))
        self._note(version, note)

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
        return [name for name in names if self.is_committed(name)]

    def is_committed(self, version: VersionId) -> bool:
        """Whether the version is there; a copy on this machine may outlive it on the object store."""
        path = self.version_dir(version) / _MANIFEST
        return path.exists() if self.remote is None else self.remote.exists(self.name_of(path))

    def manifest(self, version: VersionId) -> Manifest:
        """The manifest of a committed version. Raises NotFound and IndexDamaged."""
        path = self.version_dir(version) / _MANIFEST
        try:
            content = self.immutable(path).read_bytes()
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
        path = self.immutable(self.documents_dir / file.name)
        return path, read_checked(path, file.info)

    def statistics(self, manifest: Manifest) -> CorpusStatistics:
        """The corpus-wide counts of the version. Raises IndexDamaged."""
        file = manifest.content.statistics
        path = self.immutable(self.version_dir(manifest.version) / file.name)
        content = read_checked(path, file.info)
        with reading(path):
            return statistics_from_bytes(content)

    def tombstones(self, manifest: Manifest, entry: SegmentEntry) -> BitMap:
        """The rows of a segment that are dead in the version. Raises IndexDamaged."""
        if entry.tombstones is None:
            return BitMap()
        path = self.immutable(self.version_dir(manifest.version) / entry.tombstones.name)
        content = read_checked(path, entry.tombstones.info)
        with reading(path):
            return BitMap.deserialize(content)

    def write_manifest(self, manifest: Manifest) -> None:
        """Writes a version's manifest, with which the version exists."""
        self.write_version_file(manifest.version, _MANIFEST, (manifest.model_dump_json(indent=2) + "\n").encode())

    def record_smoke(self, version: VersionId, figures: Mapping[str, float]) -> None:
        """Writes what the smoke test found into the version's manifest; neither its content nor its id changes."""
        self.write_manifest(self.manifest(version).model_copy(update={"smoke": figures}))

    def write_version_file(self, version: VersionId, name: str, content: bytes) -> None:
        """Writes a file of a version's folder, here and on the object store."""
        self.write_immutable(self.version_dir(version) / name, content)

    def write_registry(self, name: str, content: bytes) -> None:
        """Writes a registry of the folder of documents, here and on the object store."""
        self.write_immutable(self.documents_dir / name, content)

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

    # ------------------------------------------------------------ deleting

    def segment_names(self) -> list[SegmentId]:
        """Every segment that is stored, whether a version names it or not."""
        return [SegmentId(name) for name in self.immutable_names("segments")]

    def registry_names(self) -> list[str]:
        """Every registry that is stored, whether a version names it or not."""
        return self.immutable_names("documents")

    def delete_version(self, version: VersionId) -> None:
        """Deletes a version, its manifest first, so that it is not half there; its segments stay."""
        self.delete_immutable(self.version_dir(version) / _MANIFEST)
        self.delete_immutable(self.version_dir(version))

    def delete_segment(self, name: SegmentId) -> None:
        """Deletes a segment, here and on the object store. Who has it mapped keeps it until it is closed."""
        if self.remote is not None:
            self.remote.delete(f"segments/{name}/{_COMPLETE}")
        self.delete_immutable(self.segments_dir / name)

    def delete_registry(self, name: str) -> None:
        """Deletes a registry, here and on the object store."""
        self.delete_immutable(self.documents_dir / name)

    # ------------------------------------------------------------ one at a time

    @contextmanager
    def writing(self, *, wait: bool = False) -> Iterator[None]:
        """One run an index and machine that builds versions: two would each drop the other's changes.

        The second waits or gets a RagError. The lock ends with the process, however it ends.
        """
        lock = self.root / "building" / "lock"
        with holding(lock, "" if wait else f"another run is writing this index ({lock} is locked)"):
            self.begun = Begun(datetime.now(UTC), self.current_or_none())
            try:
                yield
            finally:
                self.begun = None

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """One change of what is live after the other, and none while versions are deleted."""
        with holding(self.root / "locks" / "publishing"):
            yield

    @contextmanager
    def reembedding(self) -> Iterator[None]:
        """One re-embedding at a time, beside runs that build. Raises RagError for the second."""
        refusal = "a re-embedding of this index is under way, or what it no longer needs is being deleted"
        with holding(self.root / "locks" / "reembedding", refusal):
            yield

    @contextmanager
    def keeping_reembedding_out(self) -> Iterator[bool]:
        """Whether no re-embedding is under way on this machine; where none is, none begins before the block ends."""
        with ExitStack() as held:
            try:
                held.enter_context(self.reembedding())
                alone = True
            except RagError:
                alone = False
            yield alone

    @contextmanager
    def changing_revocations(self) -> Iterator[RevocationList]:
        """The list, for one change of it after the other."""
        with holding(self.root / "locks" / "revocations"):
            yield self.revocations()


def open_store(config: RagConfig) -> IndexStore:
    """The index of the configuration, in a folder or on an object store."""
    return IndexStore(config.index_root, open_remote(config.remote, config.index_name))
