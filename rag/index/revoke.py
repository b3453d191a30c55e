"""Revoking a document or a group, taking that back, and forgetting it once the index says it by itself."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from rag.data import Access
from rag.errors import InputError, NotFound
from rag.index.contents import live_flags, read_chunks
from rag.index.manifest import Manifest
from rag.index.revocations import Revocation, RevocationList, readers_digest
from rag.index.segment import open_chunks
from rag.index.store import IndexStore

Kind = Literal["document", "group"]


def revoke(store: IndexStore, name: str, kind: Kind | None = None, tenant: str | None = None) -> Revocation:
    """Takes a document (its uri or id) from every reader, or its effect from a group, at once.

    Raises NotFound for a name that the live version does not know, InputError for one that is both or not unique.
    """
    manifest = store.manifest(store.current())
    documents = [] if kind == "group" else _documents(store, manifest, name, tenant)
    is_group = kind != "document" and _is_group(store, manifest, name, tenant)
    if documents and is_group:
        raise InputError(f"{name!r} is a document and a group; say which with --document or --group")
    if len(documents) > 1:
        raise InputError(f"{name!r} is a document of several tenants; say which with --tenant")
    now = datetime.now(UTC)
    if documents:
        ((document, uri),) = documents
        accesses = _readers(store, manifest, document, uri)
        found = Revocation(kind="document", name=document, label=uri, revoked_at=now, readers=readers_digest(accesses))
    elif is_group:
        found = Revocation(kind="group", name=name, label=name, tenant=tenant, revoked_at=now)
    else:
        raise NotFound(f"the live version {manifest.version} knows no document and no group {name!r}")
    with store.changing_revocations():
        store.write_revocations(store.revocations().with_one(found))
    return found


def unrevoke(store: IndexStore, name: str, kind: Kind | None = None, tenant: str | None = None) -> Revocation:
    """Takes a revocation back, by the name that it was made under. Raises NotFound and InputError."""
    with store.changing_revocations():
        revoked = store.revocations()
        found = [
            entry
            for entry in revoked.revocations
            if name in (entry.name, entry.label) and kind in (None, entry.kind) and tenant in (None, entry.tenant)
        ]
        if not found:
            raise NotFound(f"{name!r} is not revoked; `quire revoke --list` shows what is")
        if len(found) > 1:
            raise InputError(f"{name!r} is revoked more than once; say which with --document, --group or --tenant")
        store.write_revocations(revoked.without(found[0]))
    return found[0]


def absorb_revocations(store: IndexStore, manifest: Manifest) -> list[Revocation]:
    """Ends, for this version and those after it, the revocations that its own content has made needless; these.

    A document's is, when the version does not hold it or has other readers for it; a group's, when it opens nothing any
    longer. Only a version that was made after the revocation can tell.
    """
    done: list[Revocation] = []
    with store.changing_revocations():
        revoked = store.revocations()
        entries = []
        for entry in revoked.revocations:
            open_ = entry.absorbed_at is None and entry.revoked_at < manifest.created_at
            if open_ and _is_needless(store, manifest, entry):
                entry = entry.model_copy(update={"absorbed_at": manifest.created_at})
                done.append(entry)
            entries.append(entry)
        if done:
            store.write_revocations(RevocationList(revocations=tuple(entries)))
    return done


def forget_absorbed(store: IndexStore, oldest_kept: datetime) -> None:
    """Drops the revocations that no version made at this time or later needs."""
    with store.changing_revocations():
        revoked = store.revocations()
        kept = tuple(entry for entry in revoked.revocations if entry.covers(oldest_kept))
        if kept != revoked.revocations:
            store.write_revocations(RevocationList(revocations=kept))


def _is_needless(store: IndexStore, manifest: Manifest, entry: Revocation) -> bool:
    if entry.kind == "group":
        return not _is_group(store, manifest, entry.name, entry.tenant)
    accesses = _readers(store, manifest, entry.name, entry.label)
    return not accesses or readers_digest(accesses) != entry.readers


def _documents(store: IndexStore, manifest: Manifest, name: str, tenant: str | None) -> list[tuple[str, str]]:
    """(id, uri) of the documents that the name means."""
    table = store.registry_table(manifest).select(["document_id", "uri"])
    named = pc.or_(pc.equal(table.column("uri"), name), pc.equal(table.column("document_id"), name))
    found = [(row["document_id"], row["uri"]) for row in table.filter(named).to_pylist()]
    if tenant is None:
        return found
    return [
        pair for pair in found if any(access.tenant == tenant for access in _readers(store, manifest, pair[0], pair[1]))
    ]


def _readers(store: IndexStore, manifest: Manifest, document: str, uri: str) -> list[Access]:
    """Who may read the document's live chunks; empty where the version does not hold it."""
    chunks = read_chunks(store, manifest.version, uris=[uri])
    return [chunk.metadata.access for chunk in chunks if chunk.document_id == document]


def _is_group(store: IndexStore, manifest: Manifest, name: str, tenant: str | None) -> bool:
    """Whether the group opens a live chunk, in the tenant where one is named."""
    return any(_opens(table, name, tenant) for table in _live_access(store, manifest))


def _live_access(store: IndexStore, manifest: Manifest) -> Iterator[pa.Table]:
    for entry in manifest.segments:
        live = pa.array(live_flags(store, manifest, entry))
        yield open_chunks(store.segment(entry.info)).select(["tenant", "groups"]).filter(live)


def _opens(table: pa.Table, name: str, tenant: str | None) -> bool:
    if tenant is not None:
        table = table.filter(pc.equal(table.column("tenant"), tenant))
    names: Iterable[pa.Array] = (pc.list_flatten(chunk) for chunk in table.column("groups").chunks)
    return any(pc.any(pc.equal(flat, name)).as_py() for flat in names)
