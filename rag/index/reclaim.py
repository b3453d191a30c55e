"""Old versions, and segments that no version needs, deleted by policy and never while anybody uses them.

Who serves a version holds a lease on it, a small file that is renewed while it is open. A version is kept while it is
live, the one to roll back to, one of the newest `index.keep_versions`, leased, or younger than
`index.reclaim_grace_s`; a segment and a registry are kept while a kept version names them.
"""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from rag.config import IndexConfig
from rag.ids import SegmentId, VersionId
from rag.index.files import Record
from rag.index.manifest import Manifest
from rag.index.revoke import forget_absorbed
from rag.index.store import IndexStore

logger = logging.getLogger(__name__)

LEASE_S = 120.0  # how long one counts after it was renewed
RENEW_S = 30.0
_LEASES = "leases"


class Lease(Record):
    """The versions that one process has open."""

    versions: tuple[VersionId, ...]
    renewed_at: datetime


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What was deleted, or would be."""

    versions: tuple[VersionId, ...] = ()
    segments: tuple[SegmentId, ...] = ()
    registries: tuple[str, ...] = ()
    size_bytes: int = 0  # on this machine

    def __bool__(self) -> bool:
        return bool(self.versions or self.segments or self.registries)


def renew_lease(store: IndexStore, holder: str, versions: Collection[VersionId]) -> None:
    """Says that the holder, a name of its own, uses these versions now."""
    lease = Lease(versions=tuple(sorted(versions)), renewed_at=datetime.now(UTC))
    store.write_live(f"{_LEASES}/{holder}.json", lease.model_dump_json().encode())


def leased_versions(store: IndexStore, now: datetime) -> set[VersionId]:
    """Every version that a lease holds; leases that have run out are deleted."""
    held: set[VersionId] = set()
    for name in store.live_names(_LEASES):
        content = store.read_live(f"{_LEASES}/{name}")
        try:
            lease = Lease.model_validate_json(content or b"")
        except ValidationError:
            continue  # one that is being deleted, or none of ours
        if now - lease.renewed_at <= timedelta(seconds=LEASE_S):
            held.update(lease.versions)
        else:
            store.delete_live(f"{_LEASES}/{name}")
    return held


def reclaim(store: IndexStore, config: IndexConfig, *, dry_run: bool = False) -> Reclaimed:
    """Deletes what the policy no longer keeps. The caller holds `store.writing()`: nothing is being built.

    While a re-embedding is under way, which builds without that lock, segments stay.
    """
    with store.keeping_reembedding_out() as alone:
        with store.publishing():  # nothing is made live that is about to go
            manifests = [store.manifest(version) for version in store.versions()]
            kept = _kept(store, manifests, config)
            found = _unneeded(store, manifests, kept, config, segments=alone)
            if dry_run or not found:
                return found
            for version in found.versions:
                store.delete_version(version)
        for name in found.segments:
            store.delete_segment(name)
        for registry in found.registries:
            store.delete_registry(registry)
    if kept:
        forget_absorbed(store, min(manifest.created_at for manifest in kept))
    logger.info(
        "reclaimed %d versions and %d segments, %d bytes", len(found.versions), len(found.segments), found.size_bytes
    )
    return found


def _kept(store: IndexStore, manifests: Sequence[Manifest], config: IndexConfig) -> list[Manifest]:
    """Those that the policy keeps, of all manifests, newest first."""
    now = datetime.now(UTC)
    kept = leased_versions(store, now)
    kept |= {manifest.version for manifest in manifests[: config.keep_versions]}
    grace = timedelta(seconds=config.reclaim_grace_s)
    kept |= {manifest.version for manifest in manifests if now - manifest.created_at < grace}
    live = store.current_or_none()
    for manifest in manifests:
        if manifest.version == live:
            kept |= {manifest.version, *((manifest.parent,) if manifest.parent else ())}
    return [manifest for manifest in manifests if manifest.version in kept]


def _unneeded(
    store: IndexStore,
    manifests: Sequence[Manifest],
    kept: Sequence[Manifest],
    config: IndexConfig,
    *,
    segments: bool,
) -> Reclaimed:
    """The other versions, the registries that no kept one names and, where asked for, such segments."""
    versions = {manifest.version for manifest in kept}
    gone = [manifest.version for manifest in manifests if manifest.version not in versions]
    named = {entry.info.id for manifest in kept for entry in manifest.segments}
    stored = store.segment_names() if segments else []
    unnamed = [name for name in stored if name not in named and _is_old(store, name, config)]
    registries = {manifest.content.registry.name for manifest in kept}
    unlisted = [name for name in store.registry_names() if name not in registries]
    places = [
        *(store.version_dir(version) for version in gone),
        *(store.segments_dir / name for name in unnamed),
        *(store.documents_dir / name for name in unlisted),
    ]
    return Reclaimed(tuple(gone), tuple(unnamed), tuple(unlisted), sum(map(_size, places)))


def _is_old(store: IndexStore, name: SegmentId, config: IndexConfig) -> bool:
    """Whether this machine's copy, if there is one, is older than the grace time."""
    try:
        return time.time() - (store.segments_dir / name).stat().st_mtime >= config.reclaim_grace_s
    except FileNotFoundError:
        return True


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
