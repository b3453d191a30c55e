"""What an operator does with the versions of an index: look, publish, roll back."""

from dataclasses import asdict
from typing import Any

from jobs.printing import print_json, print_pairs, print_rows
from rag.config import RagConfig
from rag.errors import IndexMismatch, NotFound
from rag.ids import VersionId
from rag.index.manifest import Manifest, ShardEntry, check_compatible, with_encoder_of
from rag.index.reclaim import reclaim
from rag.index.revocations import Revocation
from rag.index.revoke import Kind, revoke, unrevoke
from rag.index.store import IndexStore, open_store


def live_summary(config: RagConfig) -> dict[str, Any]:  # Any: JSON
    """The live version in names and values; `version` is None where nothing was published."""
    store = open_store(config)
    live = store.current_or_none()
    if live is None:
        return {"version": None, "store": str(store.root), "versions": len(store.versions())}
    manifest = store.manifest(live)
    mismatch = _mismatch(manifest, config)
    history = store.history()
    nothing: dict[str, Any] = {}  # Any: JSON
    published = next((line for line in reversed(history) if line["version"] == live), nothing)
    lag = next((line for line in reversed(history) if "lag_max_s" in line), nothing)
    return {
        "version": live,
        "created": manifest.created_at.isoformat(timespec="seconds"),
        "published": published.get("at"),
        "made_by": manifest.made_by,
        "documents": manifest.counts.documents,
        "chunks": manifest.counts.chunks,
        "tombstones": manifest.counts.tombstones,
        "segments": sum(len(shard.segments) for shard in manifest.shards),
        "size_bytes": sum(_size(shard) for shard in manifest.shards),
        "shards": manifest.num_shards,
        "encoder": f"{manifest.encoder.name}, {manifest.encoder.dim} dimensions",
        "recall": manifest.recall,
        "parent": manifest.parent,
        "versions": len(store.versions()),
        "lag_p50_s": lag.get("lag_p50_s"),
        "lag_p95_s": lag.get("lag_p95_s"),
        "lag_max_s": lag.get("lag_max_s"),
        "errors": _num_errors(store, live),
        "revocations": len(store.revocations().revocations),
        "store": str(store.root),
        **({"remote": config.remote.url} if config.remote.url else {}),
        **({"mismatch": mismatch} if mismatch else {}),
    }


def shard_rows(config: RagConfig) -> list[dict[str, Any]]:  # Any: JSON
    """How much each shard of the live version holds; empty where nothing was published."""
    store = open_store(config)
    live = store.current_or_none()
    return [
        {
            "shard": shard.shard,
            "segments": len(shard.segments),
            "chunks": shard.num_chunks,
            "tombstones": sum(entry.num_tombstones for entry in shard.segments),
            "size_bytes": _size(shard),
        }
        for shard in (store.manifest(live).shards if live else ())
    ]


def print_shards(config: RagConfig) -> None:
    """The shards as a table."""
    rows = shard_rows(config)
    if rows:
        print_rows("Shards", tuple(rows[0]), [tuple(row.values()) for row in rows])


def _mismatch(manifest: Manifest, config: RagConfig) -> str:
    """Why the configuration can't read the version; what only an ingest minds is said too."""
    own = with_encoder_of(config, manifest)
    try:
        check_compatible(manifest, own)
    except IndexMismatch as error:
        return str(error)
    if own != config:
        name = manifest.encoder.name
        return f"questions follow the version's encoder; before the next ingest, embed in rag.yaml has to name {name}"
    return ""


def _size(shard: ShardEntry) -> int:
    return sum(file.size_bytes for entry in shard.segments for file in entry.info.files.values())


def _num_errors(store: IndexStore, version: VersionId) -> int:
    """Rows of the errors table of the run that made the version."""
    try:
        with (store.root / "errors" / f"{version}.jsonl").open("rb") as lines:
            return sum(1 for _ in lines)
    except FileNotFoundError:
        return 0


def print_versions(config: RagConfig, *, as_json: bool) -> None:
    """Every committed version, newest first."""
    store = open_store(config)
    live = store.current_or_none()
    manifests = [store.manifest(version) for version in store.versions()]
    if as_json:
        print_json(
            [
                {
                    "version": manifest.version,
                    "live": manifest.version == live,
                    "parent": manifest.parent,
                    "made_by": manifest.made_by,
                    "encoder": manifest.encoder.name,
                    "recall": manifest.recall,
                    "created_at": manifest.created_at.isoformat(),
                    "documents": manifest.counts.documents,
                    "chunks": manifest.counts.chunks,
                    "tombstones": manifest.counts.tombstones,
                    "timings": dict(manifest.timings),
                }
                for manifest in manifests
            ]
        )
        return
    rows = [
        (
            "*" if manifest.version == live else "",
            manifest.version,
            manifest.created_at.isoformat(sep=" ", timespec="seconds"),
            manifest.counts.documents,
            manifest.counts.chunks,
            manifest.counts.tombstones,
            manifest.made_by,
            manifest.encoder.name,
            manifest.parent or "",
        )
        for manifest in manifests
    ]
    columns = ("live", "version", "created", "documents", "chunks", "tombstones", "by", "encoder", "parent")
    print_rows(f"Versions in {store.root}", columns, rows)


def publish_version(config: RagConfig, version: str) -> VersionId:
    """Make the version live. Raises NotFound, and IndexMismatch for one that this configuration can't serve.

    Another encoder is no obstacle: questions follow the encoder of the version.
    """
    store = open_store(config)
    try:
        manifest = store.manifest(VersionId(version))
    except NotFound as error:
        raise NotFound(f"{error}; `quire versions` lists them") from error
    check_compatible(manifest, with_encoder_of(config, manifest))
    store.publish(manifest.version)
    return manifest.version


def roll_back(config: RagConfig) -> VersionId:
    """Make the parent of the live version live."""
    return open_store(config).rollback()


# ---------------------------------------------------------------- revocations


def revoke_named(config: RagConfig, name: str, kind: Kind | None, tenant: str | None, *, undo: bool) -> Revocation:
    """Revoke a document or group, or take that back. Raises NotFound and InputError."""
    store = open_store(config)
    return unrevoke(store, name, kind, tenant) if undo else revoke(store, name, kind, tenant)


def print_revocations(config: RagConfig, *, as_json: bool) -> None:
    """Every revocation that a version still needs, oldest first."""
    entries = open_store(config).revocations().revocations
    if as_json:
        print_json([entry.model_dump(mode="json") for entry in entries])
        return
    rows = [
        (
            entry.kind,
            entry.label,
            entry.tenant or "",
            entry.revoked_at.isoformat(sep=" ", timespec="seconds"),
            ""
            if entry.absorbed_at is None
            else f"in versions before {entry.absorbed_at.isoformat(timespec='seconds')}",
        )
        for entry in entries
    ]
    print_rows("Revoked", ("what", "name", "tenant", "since", "still needed"), rows)


def reclaim_space(config: RagConfig, *, dry_run: bool, as_json: bool) -> None:
    """Delete old versions and unreferenced segments, and say which."""
    store = open_store(config)
    with store.writing():
        found = reclaim(store, config.index, dry_run=dry_run)
    if as_json:
        print_json(asdict(found))
        return
    print_pairs(
        "Would be reclaimed" if dry_run else "Reclaimed",
        {"versions": len(found.versions), "segments": len(found.segments), "bytes": found.size_bytes},
    )
