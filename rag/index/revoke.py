"""Revoking a document or a group, taking that back, and forgetting it once the index says it by itself.

A revocation ends with the first version that gives its document readers which no version from before the revocation
gave it, or none; of a group, with the first that it opens nothing in. What was read before somebody revoked is no
answer to it, and a version that was made after a rollback carries over what its parent needed.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from rag.data import Access
from rag.errors import InputError, NotFound
from rag.index.contents import live_flags
from rag.index.manifest import Manifest
from rag.index.revocations import Revocation, RevocationList, readers_digest
from rag.index.segment import open_chunks
from rag.index.store import IndexStore

Kind = Literal["document", "group"]

_NOBODY = readers_digest(())


def revoke(store: IndexStore, name: str, kind: Kind | None = None, tenant: str | None = None) -> Revocation:
    """Takes a document (its uri or id) from every reader, or its effect from a group, at once.

    Raises NotFound for a name that the live version does not know, InputError for one that is both or not unique.
    """
    readers = _Readers(store, store.manifest(store.current()))
    documents = [] if kind == "group" else readers.named(name, tenant)
    is_group = kind != "document" and readers.opens(name, tenant)
    if documents and is_group:
        raise InputError(f"{name!r} is a document and a group; say which with --document or --group")
    if len(documents) > 1:
        raise InputError(f"{name!r} is a document of several tenants; say which with --tenant")
    if not documents and not is_group:
        raise NotFound(f"the live version {readers.manifest.version} knows no document and no group {name!r}")
    with store.changing_revocations() as revoked:
        now = datetime.now(UTC)  # in here: a version that does not know of it is older, see `carry_revocations`
        if documents:
            ((document, uri),) = documents
            found = Revocation(kind="document", name=document, label=uri, revoked_at=now)
            found = found.model_copy(update={"readers": readers.digest_for(found)})
        else:
            found = Revocation(kind="group", name=name, label=name, tenant=tenant, revoked_at=now)
        store.write_revocations(revoked.with_one(found))
    return found


def unrevoke(store: IndexStore, name: str, kind: Kind | None = None, tenant: str | None = None) -> Revocation:
    """Takes a revocation back, by the name that it was made under. Raises NotFound and InputError."""
    with store.changing_revocations() as revoked:
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


def carry_revocations(store: IndexStore, parent: Manifest | None, manifest: Manifest, begun_at: datetime) -> None:
    """Keeps in force, before a version is written, what its content is no answer to; its other files are there.

    What its parent needed and another version ended begins again. And the readers that its parent has from before a
    revocation, and those that its own run read before one, will not end that one. `begun_at` is when the run began.
    """
    with store.changing_revocations() as revoked:
        pass  # whoever revokes from here on does so after `manifest.created_at`
    readers = _Readers(store, manifest)
    before = _Readers(store, parent) if parent is not None else None
    changes: dict[Revocation, Revocation] = {}
    for entry in revoked.revocations:
        carried = entry
        if parent is not None and entry.covers(parent.created_at) and not entry.covers(manifest.created_at):
            carried = carried.model_copy(update={"absorbed_at": None})
        if carried.absorbed_at is None:
            known = set(carried.known_readers)
            if before is not None and before.manifest.created_at <= entry.revoked_at:
                known.add(before.digest_for(entry))
            if begun_at <= entry.revoked_at and (found := readers.digest_for(entry)) != _NOBODY:
                known.add(found)
            carried = carried.model_copy(update={"readers": " ".join(sorted(known - {""}))})
        if carried != entry:
            changes[entry] = carried
    _change(store, changes)


def absorb_revocations(store: IndexStore, manifest: Manifest) -> list[Revocation]:
    """Ends, for this version and those after it, the revocations that its own content has made needless; these.

    Only a version that was made after the revocation can tell.
    """
    readers = _Readers(store, manifest)
    changes = {
        entry: entry.model_copy(update={"absorbed_at": manifest.created_at})
        for entry in store.revocations().revocations
        if entry.absorbed_at is None and entry.revoked_at < manifest.created_at and _is_needless(entry, readers)
    }
    _change(store, changes)
    return list(changes.values())


def forget_absorbed(store: IndexStore, oldest_kept: datetime) -> None:
    """Drops the revocations that no version made at this time or later needs."""
    with store.changing_revocations() as revoked:
        kept = tuple(entry for entry in revoked.revocations if entry.covers(oldest_kept))
        if kept != revoked.revocations:
            store.write_revocations(RevocationList(revocations=kept))


def _change(store: IndexStore, changes: Mapping[Revocation, Revocation]) -> None:
    """Puts other entries in the place of those; one that somebody changed meanwhile stays as it is."""
    if not changes:
        return
    with store.changing_revocations() as revoked:
        entries = tuple(changes.get(entry, entry) for entry in revoked.revocations)
        store.write_revocations(RevocationList(revocations=entries))


def _is_needless(entry: Revocation, readers: "_Readers") -> bool:
    found = readers.digest_for(entry)
    return bool(found) and found not in entry.known_readers


class _Readers:
    """Who may read what in one version."""

    def __init__(self, store: IndexStore, manifest: Manifest) -> None:
        self.manifest = manifest
        self._store = store

    def named(self, name: str, tenant: str | None) -> list[tuple[str, str]]:
        """(id, uri) of the documents that the name means, in the tenant where one is named."""
        named = pc.or_(
            pc.equal(self._registry.column("uri"), name), pc.equal(self._registry.column("document_id"), name)
        )
        found = [(row["document_id"], row["uri"]) for row in self._registry.filter(named).to_pylist()]
        if tenant is None:
            return found
        return [pair for pair in found if any(access.tenant == tenant for access in self._of(pair[0]))]

    def opens(self, group: str, tenant: str | None) -> bool:
        """Whether the group opens a live chunk, in the tenant where one is named."""
        return any(_opens(table.filter(live), group, tenant) for table, live in self._segments)

    def digest_for(self, entry: Revocation) -> str:
        """Who may read the document: equal for equal readers. Of a group that opens something ""."""
        if entry.kind == "document":
            return readers_digest(self._of(entry.name))
        return "" if self.opens(entry.name, entry.tenant) else _NOBODY

    def _of(self, document: str) -> list[Access]:
        """The readers of the document's live chunks; of one that another stands in for, those of the other, which are
        the same."""
        listed = self._registry.filter(pc.equal(self._registry.column("document_id"), document)).to_pylist()
        if not listed:
            return []
        holder = listed[0]["duplicate_of"] or document
        accesses: list[Access] = []
        for table, live in self._segments:
            of_holder = pc.equal(table.column("document_id").combine_chunks(), holder)
            rows = table.filter(pc.and_(live, of_holder)).to_pylist()
            accesses += [Access(row["tenant"], tuple(row["groups"])) for row in rows]
        return accesses

    @cached_property
    def _registry(self) -> pa.Table:
        return self._store.registry_table(self.manifest).select(["document_id", "uri", "duplicate_of"])

    @cached_property
    def _segments(self) -> list[tuple[pa.Table, pa.Array]]:
        """Document, tenant and groups of each segment's chunks, memory-mapped, and which of them live."""
        columns = ["document_id", "tenant", "groups"]
        return [
            (
                open_chunks(self._store.segment(entry.info)).select(columns),
                pa.array(live_flags(self._store, self.manifest, entry)),
            )
            for entry in self.manifest.segments
        ]


def _opens(table: pa.Table, name: str, tenant: str | None) -> bool:
    if tenant is not None:
        table = table.filter(pc.equal(table.column("tenant"), tenant))
    names: Iterable[pa.Array] = (pc.list_flatten(chunk) for chunk in table.column("groups").chunks)
    return any(pc.any(pc.equal(flat, name)).as_py() for flat in names)
