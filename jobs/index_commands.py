"""What an operator does with the versions of an index: look, publish, roll back."""

from typing import Any

from jobs.printing import print_json, print_rows
from rag.config import RagConfig
from rag.errors import IndexMismatch, NotFound
from rag.ids import VersionId
from rag.index.manifest import check_compatible
from rag.index.versions import IndexStore


def live_summary(config: RagConfig) -> dict[str, Any]:  # Any: JSON
    """The live version in names and values; `version` is None where nothing was published."""
    store = IndexStore(config.index_root)
    live = store.current_or_none()
    if live is None:
        return {"version": None, "store": str(store.root), "versions": len(store.versions())}
    manifest = store.manifest(live)
    try:
        check_compatible(manifest, config)
        mismatch = ""
    except IndexMismatch as error:
        mismatch = str(error)
    return {
        "version": live,
        "created": manifest.created_at.isoformat(timespec="seconds"),
        "documents": manifest.counts.documents,
        "chunks": manifest.counts.chunks,
        "shards": manifest.num_shards,
        "encoder": f"{manifest.encoder.model}, {manifest.encoder.dim} dimensions",
        "parent": manifest.parent,
        "versions": len(store.versions()),
        "store": str(store.root),
        **({"mismatch": mismatch} if mismatch else {}),
    }


def print_versions(config: RagConfig, *, as_json: bool) -> None:
    """Every committed version, newest first."""
    store = IndexStore(config.index_root)
    live = store.current_or_none()
    manifests = [store.manifest(version) for version in store.versions()]
    if as_json:
        print_json(
            [
                {
                    "version": manifest.version,
                    "live": manifest.version == live,
                    "parent": manifest.parent,
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
            manifest.parent or "",
        )
        for manifest in manifests
    ]
    columns = ("live", "version", "created", "documents", "chunks", "tombstones", "parent")
    print_rows(f"Versions in {store.root}", columns, rows)


def publish_version(config: RagConfig, version: str) -> VersionId:
    """Make the version live. Raises NotFound, and IndexMismatch for one that this configuration can't serve."""
    store = IndexStore(config.index_root)
    try:
        manifest = store.manifest(VersionId(version))
    except NotFound as error:
        raise NotFound(f"{error}; `quire versions` lists them") from error
    check_compatible(manifest, config)
    store.publish(manifest.version)
    return manifest.version


def roll_back(config: RagConfig) -> VersionId:
    """Make the parent of the live version live."""
    return IndexStore(config.index_root).rollback()
