"""Revocations: what nobody may read any longer, at once, whatever the live version says of it.

An overlay beside the versions. It takes a document from everybody, or its effect from a group, until a version is built
that says the same by itself. A version from before that stays covered, so that a rollback opens nothing again.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rag.data import Access, Principal
from rag.errors import RagError
from rag.ids import DocumentId, digest
from rag.index.files import Record

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 1.0


class Revocation(Record):
    """One document or group that was revoked."""

    kind: Literal["document", "group"]
    name: str  # the document's id, or the group
    label: str  # the document's uri, or the group: for people
    tenant: str | None = None  # of the group; None: in every tenant
    revoked_at: datetime
    readers: str = ""  # digests, joined by spaces, of who could read the document in versions from before
    absorbed_at: datetime | None = None  # when the first version was made that needs it no longer

    @property
    def known_readers(self) -> frozenset[str]:
        """Readers that are no answer to the revocation, as `readers_digest` tells them apart."""
        return frozenset(self.readers.split())

    def covers(self, created_at: datetime) -> bool:
        """Whether a version that was made at this time needs it."""
        return self.absorbed_at is None or created_at < self.absorbed_at


class RevocationList(Record):
    """Every revocation of an index, oldest first."""

    revocations: tuple[Revocation, ...] = ()

    def for_version(self, created_at: datetime) -> "Revocations":
        """What is revoked in a version that was made at this time."""
        needed = [entry for entry in self.revocations if entry.covers(created_at)]
        return Revocations(
            documents=frozenset(DocumentId(entry.name) for entry in needed if entry.kind == "document"),
            groups=frozenset((entry.tenant, entry.name) for entry in needed if entry.kind == "group"),
        )

    def with_one(self, revocation: Revocation) -> "RevocationList":
        """The list with this one, in place of an earlier one of the same thing."""
        return RevocationList(revocations=(*self.without(revocation).revocations, revocation))

    def without(self, revocation: Revocation) -> "RevocationList":
        """The list without those of the same thing."""
        kept = [entry for entry in self.revocations if _thing(entry) != _thing(revocation)]
        return RevocationList(revocations=tuple(kept))


@dataclass(frozen=True, slots=True)
class Revocations:
    """What is revoked in one version."""

    documents: frozenset[DocumentId] = frozenset()
    groups: frozenset[tuple[str | None, str]] = frozenset()  # (tenant or None for every one, group)

    def __bool__(self) -> bool:
        return bool(self.documents or self.groups)

    def groups_left(self, tenant: str, groups: Collection[str]) -> frozenset[str]:
        """Those of the groups that still open something in the tenant."""
        if not self.groups:
            return frozenset(groups)
        return frozenset(name for name in groups if not {(None, name), (tenant, name)} & self.groups)

    def allows(self, document: DocumentId, access: Access, principal: Principal) -> bool:
        """Whether the principal may still read a document with these readers."""
        if document in self.documents or access.tenant != principal.tenant:
            return False
        return not self.groups_left(principal.tenant, principal.groups).isdisjoint(access.groups)


NOTHING_REVOKED = Revocations()


def readers_digest(accesses: Iterable[Access]) -> str:
    """Equal for equal sets of readers: of all chunks of a document together."""
    return digest(*sorted({digest(access.tenant, *access.groups) for access in accesses}))


class RevocationFeed:
    """The revocations of an index as they are now, read anew at most once an interval by whoever asks.

    The first read has to succeed. When a later one fails, what was known stays in force and the failure is logged. Safe
    to ask from several threads: one reads, the others take what is known meanwhile.
    """

    def __init__(
        self,
        read: Callable[[], RevocationList],
        interval_s: float = POLL_INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._interval_s, self._clock = read, interval_s, clock
        self._reading = threading.Lock()
        self._known = read()
        self._read_at = clock()

    @property
    def known(self) -> RevocationList:
        """The last list that was read."""
        return self._known

    def current(self) -> RevocationList:
        """The list, at most an interval old; the same object while nothing changes."""
        if self._clock() - self._read_at < self._interval_s or not self._reading.acquire(blocking=False):
            return self._known
        try:
            found = self._read()
            if found != self._known:
                logger.info("%d revocations are in force", len(found.revocations))
                self._known = found
        except (RagError, OSError) as error:
            logger.error("revocations can't be read, those known stay in force: %s", error)
        finally:
            self._read_at = self._clock()
            self._reading.release()
        return self._known


def _thing(entry: Revocation) -> tuple[str, str, str | None]:
    return entry.kind, entry.name, entry.tenant
