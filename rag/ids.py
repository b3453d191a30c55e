"""Ids: opaque strings made from content, so that the same input always gets the same id."""

import hashlib
from typing import NewType

DocumentId = NewType("DocumentId", str)
ChunkId = NewType("ChunkId", str)
SegmentId = NewType("SegmentId", str)
VersionId = NewType("VersionId", str)
TraceId = NewType("TraceId", str)

_SEPARATOR = b"\x1f"  # ASCII unit separator: no part can be confused with two shorter ones


def digest(*parts: str | bytes, size_bytes: int = 16) -> str:
    """The hex BLAKE2b digest of the parts in order; ("ab", "c") and ("a", "bc") differ."""
    hasher = hashlib.blake2b(digest_size=size_bytes)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(str(len(data)).encode())
        hasher.update(_SEPARATOR)
        hasher.update(data)
    return hasher.hexdigest()


def document_id(tenant: str, uri: str) -> DocumentId:
    """The id of the document at `uri`: stable while its content changes, different for every tenant."""
    return DocumentId(digest(tenant, uri))


def chunk_id(document: DocumentId, embedded_text: str, occurrence: int) -> ChunkId:
    """The id of a chunk: its document, the text that is embedded, and which repetition of that text it is.

    The place of the chunk in the document is left out, so an edit elsewhere keeps the id, and an equal id means that
    a stored vector can be used again.
    """
    return ChunkId(digest(document, embedded_text, str(occurrence)))


def shard_of(document: DocumentId, num_shards: int) -> int:
    """The shard in which every chunk of the document lives, in [0, num_shards)."""
    return int(document[:15], 16) % num_shards
