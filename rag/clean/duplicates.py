"""Documents that say the same: a signature of each, and of every group of them the one that is kept.

A copy stands in for another only where exactly the same people may read both, and where it holds the same figures,
names and negations: two reports on one form are alike in wording and differ in fact.
"""

import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

import numpy as np
import numpy.typing as npt
from datasketch import MinHash, MinHashLSH
from xxhash import xxh32_intdigest

from rag.config import CleanConfig
from rag.data import Document
from rag.ids import DocumentId, digest

NUM_PERMUTATIONS = 128  # the standard error of a similarity of 0.9 is then 0.027
_BANDS = (32, 4)  # bands and rows: 998 of 1,000 pairs of a similarity of 0.65 are candidates, and then compared
_SHINGLE_WORDS = 3
_HEAD = struct.Struct("<16s16s16sbq")
_MIN_WORDS = 20  # shorter texts are alike by chance
_SEED: Final = 1
_SCHEME: Final = "affine32"
_AUTHORITY = {"note": 0, "reference": 1, "policy": 2}
_WORDS = re.compile(r"\w+(?:[-'’.]\w+)*")
_TELLING = re.compile(  # what changes the meaning of a text that is otherwise the same
    r"\w*\d[\w.,:/-]*\w|\d|\b[A-Z][A-Z\d]+\b|(?<=[a-z,;:] )[A-Z]\w+|[<>=≤≥±]"
    r"|\b(?:not|no|never|none|nor|without|except|unless|only|cannot)\b|\w+n['’]t\b"
)


@dataclass(frozen=True, slots=True)
class Signature:
    """What has to be known of a document to find those that say the same, without its text."""

    readers: str  # digest of tenant and groups
    text_hash: str  # digest of title and text, without layout
    facts_hash: str  # digest of title, headings, figures, names and negations; "" where only equal texts count
    minhash: bytes  # NUM_PERMUTATIONS uint32 of the words' shingles; empty where only equal texts count
    authority: int  # 0 note, 1 reference, 2 policy
    updated_at: int  # microseconds since 1970; 0 where unknown

    def to_bytes(self) -> bytes:
        """The signature in 57 or 569 bytes."""
        hashes = (bytes.fromhex(value) for value in (self.readers, self.text_hash, self.facts_hash))
        return _HEAD.pack(*hashes, self.authority, self.updated_at) + self.minhash

    @classmethod
    def from_bytes(cls, packed: bytes) -> "Signature":
        """The signature that `to_bytes` packed."""
        *hashes, authority, updated_at = _HEAD.unpack_from(packed)
        minhash = packed[_HEAD.size :]
        readers, text_hash, facts_hash = (value.hex() for value in hashes)
        return cls(readers, text_hash, facts_hash if minhash else "", minhash, authority, updated_at)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A document that another one stands in for."""

    document_id: DocumentId
    kept: DocumentId
    similarity: float  # estimated share of common wording; 1.0 for the same words


def sign(document: Document, config: CleanConfig) -> Signature | None:
    """The signature of a document; None where duplicates are not looked for, or where it has no words."""
    if config.duplicates == "off":
        return None
    words = [word.lower() for word in _WORDS.findall(document.text)]
    if not words:
        return None
    metadata = document.metadata
    near = config.duplicates == "near" and len(words) >= _MIN_WORDS
    moment = metadata.updated_at
    return Signature(
        readers=digest(metadata.access.tenant, *metadata.access.groups),
        text_hash=digest(_stated_title(document), " ".join(document.text.split())),
        facts_hash=_facts_hash(document) if near else "",
        minhash=_minhash(words).tobytes() if near else b"",
        authority=_AUTHORITY[metadata.authority],
        updated_at=0 if moment is None else int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6),
    )


def find_duplicates(
    signatures: Mapping[DocumentId, Signature], uris: Mapping[DocumentId, str], min_similarity: float
) -> dict[DocumentId, Duplicate]:
    """The documents that a better copy stands in for, by id; it depends on the signatures alone, not on their order.

    The best copy is the most authoritative, then the newest, then the first by uri. Each of the others is compared with
    copies that are kept, so that similarity is not handed on from one to the next.
    """
    best_first = sorted(signatures, key=lambda name: (*_worst_last(signatures[name]), uris[name]))
    exact: dict[tuple[str, str], DocumentId] = {}
    found: dict[DocumentId, Duplicate] = {}
    groups: dict[tuple[str, str], list[DocumentId]] = defaultdict(list)
    for name in best_first:
        signature = signatures[name]
        kept = exact.setdefault((signature.readers, signature.text_hash), name)
        if kept != name:
            found[name] = Duplicate(name, kept, 1.0)
        elif signature.minhash:
            groups[signature.readers, signature.facts_hash].append(name)
    for members in groups.values():
        if len(members) > 1:
            found |= {near.document_id: near for near in _near(members, signatures, min_similarity)}
    return {name: _resolved(duplicate, found) for name, duplicate in found.items()}


def _near(
    best_first: Sequence[DocumentId], signatures: Mapping[DocumentId, Signature], min_similarity: float
) -> Iterator[Duplicate]:
    """Among documents with the same readers and facts, those that are like a better one that is kept."""
    index = MinHashLSH(num_perm=NUM_PERMUTATIONS, params=_BANDS)
    hashes = {name: np.frombuffer(signatures[name].minhash, np.uint32) for name in best_first}
    for name in best_first:
        probe = MinHash(num_perm=NUM_PERMUTATIONS, seed=_SEED, scheme=_SCHEME, hashvalues=hashes[name])
        candidates = [(float(np.mean(hashes[name] == hashes[kept])), kept) for kept in index.query(probe)]
        similarity, kept = max(candidates, default=(0.0, name))
        if similarity >= min_similarity:
            yield Duplicate(name, kept, similarity)
        else:
            index.insert(name, probe)


def _resolved(duplicate: Duplicate, found: Mapping[DocumentId, Duplicate]) -> Duplicate:
    """An equal text of a copy that is itself not kept is a copy of what stands in for that one."""
    above = found.get(duplicate.kept)
    if above is None:
        return duplicate
    return Duplicate(duplicate.document_id, above.kept, min(duplicate.similarity, above.similarity))


def _worst_last(signature: Signature) -> tuple[int, int]:
    return -signature.authority, -signature.updated_at


def _stated_title(document: Document) -> str:
    """The title, unless it is only the file's name: copies of a file are named differently."""
    title, name = document.metadata.title, PurePosixPath(document.metadata.uri)
    return "" if _name_words(title) in (_name_words(name.stem), _name_words(name.name)) else title


def _name_words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.lower())


def _facts_hash(document: Document) -> str:
    headings = (block.text for block in document.blocks if block.kind in ("heading", "title"))
    named = [word.lower() for text in (_stated_title(document), *headings) for word in _WORDS.findall(text)]
    # In their order: two rows that swap their figures hold the same ones, and a page has many a "not".
    return digest(*named, *_telling(document.text))


def _telling(text: str) -> Iterable[str]:
    return (match.strip(".,:/-").lower() for match in _TELLING.findall(text))


def _minhash(words: Sequence[str]) -> npt.NDArray[np.uint32]:
    shingles = {" ".join(words[at : at + _SHINGLE_WORDS]) for at in range(max(len(words) - _SHINGLE_WORDS + 1, 1))}
    made = MinHash(num_perm=NUM_PERMUTATIONS, seed=_SEED, scheme=_SCHEME, hashfunc=xxh32_intdigest)
    made.update_batch([shingle.encode("utf-8", "surrogatepass") for shingle in sorted(shingles)])
    hashes: npt.NDArray[np.uint32] = made.hashvalues.astype(np.uint32)
    return hashes
