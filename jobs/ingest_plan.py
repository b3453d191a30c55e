"""What a run has to do: the listed sources against what the live version knows. Nothing is read here."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rag.config import SourcesConfig
from rag.data import DocumentMetadata, ErrorRow, SourceObject
from rag.ids import DocumentId, digest
from rag.index.registry import DocumentRecord
from rag.read.rows import database_name
from rag.read.sources import UNSUPPORTED, list_sources, source_metadata


@dataclass(frozen=True, slots=True)
class ReadTask:
    """One source object that a worker has to read, with what is known of it."""

    source: SourceObject
    root: str
    metadata_hash: str
    known: DocumentRecord | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The work of one run. Every listed object is in exactly one of the first four."""

    to_read: tuple[ReadTask, ...]
    unchanged: tuple[DocumentRecord, ...]
    failed: tuple[ErrorRow, ...]
    skipped: tuple[ErrorRow, ...]
    deleted: tuple[DocumentId, ...]  # known under one of these roots, and no longer there

    @property
    def num_listed(self) -> int:
        return len(self.to_read) + len(self.unchanged) + len(self.failed) + len(self.skipped)

    @property
    def listed_uris(self) -> frozenset[str]:
        """Of the documents that are read or unchanged."""
        return frozenset([*(task.source.uri for task in self.to_read), *(record.uri for record in self.unchanged)])


@dataclass(frozen=True, slots=True)
class _Listed:
    root: str
    is_folder: bool
    objects: tuple[SourceObject | ErrorRow, ...]


def make_plan(roots: Sequence[Path], config: SourcesConfig, known: Iterable[DocumentRecord]) -> Plan:
    """Compare what the roots hold with the known documents. Raises InputError for a root that does not exist.

    A single file as root deletes nothing: its folder holds more
    than was listed. What could not be listed keeps its document, unless its readers changed meanwhile.
    """
    records = list(known)
    by_uri = {record.uri: record for record in records}
    seen: dict[str, str] = {}
    to_read: list[ReadTask] = []
    unchanged: list[DocumentRecord] = []
    failed: list[ErrorRow] = []
    skipped: list[ErrorRow] = []
    deleted: list[DocumentId] = []
    listings = [_list(root, config) for root in roots]
    for listed in listings:
        for found in listed.objects:
            if isinstance(found, ErrorRow):
                (skipped if found.error == UNSUPPORTED else failed).append(found)
                continue
            record = by_uri.get(found.uri)
            elsewhere = seen.get(found.uri) or (record.root if record and record.root != listed.root else None)
            if elsewhere is not None:
                failed.append(_taken(found.uri, elsewhere))
                continue
            seen[found.uri] = listed.root
            hashed = metadata_hash(found.metadata, config)
            if record and (record.watermark, record.metadata_hash) == (found.watermark, hashed):
                unchanged.append(record)
            else:
                to_read.append(ReadTask(found, listed.root, hashed, record))
        if listed.is_folder:
            deleted += _deleted(listed, records, config)
    return Plan(tuple(to_read), tuple(unchanged), tuple(failed), tuple(skipped), tuple(sorted(set(deleted))))


def tasks_to_read_again(
    records: Sequence[DocumentRecord], config: SourcesConfig
) -> tuple[list[ReadTask], list[ErrorRow]]:
    """Tasks that read the documents whatever is known of them, and the documents that their roots no longer list."""
    tasks: list[ReadTask] = []
    gone: list[ErrorRow] = []
    for root in sorted({record.root for record in records}):
        wanted = {record.uri for record in records if record.root == root}
        there = database_name(Path(root)) is not None or Path(root).exists()
        listed = list_sources(Path(root), config) if there else ()
        found = {one.uri: one for one in listed if isinstance(one, SourceObject) and one.uri in wanted}
        tasks += [
            ReadTask(source, root, metadata_hash(source.metadata, config), None) for _, source in sorted(found.items())
        ]
        gone += [
            ErrorRow(uri, "list", "NotFound", f"not found under {root}, and nothing stands in for it any longer")
            for uri in sorted(wanted - found.keys())
        ]
    return tasks, gone


def metadata_hash(metadata: DocumentMetadata, config: SourcesConfig) -> str:
    """A hash of what a source says of a document beside its content, and of whether its own groups are believed."""
    return digest(json.dumps([asdict(metadata), config.trust_document_groups], sort_keys=True, default=str))


def _list(root: Path, config: SourcesConfig) -> _Listed:
    """One file is listed under its folder, so that it stays the same document when the folder is listed."""
    objects = tuple(list_sources(root, config))
    if database_name(root) is not None:
        return _Listed(str(root), True, objects)  # like a folder, all that is there was listed
    folder = root if root.is_dir() else root.parent
    return _Listed(str(folder.resolve()), root.is_dir(), objects)


def _taken(uri: str, root: str) -> ErrorRow:
    message = (
        f"this uri is already used by a document under {root}; index the folder above both, or rename one "
        "(was the folder moved? then run with --full)"
    )
    return ErrorRow(uri, "list", "InputError", message)


def _deleted(listed: _Listed, records: Sequence[DocumentRecord], config: SourcesConfig) -> Iterator[DocumentId]:
    there = {found.uri for found in listed.objects if isinstance(found, SourceObject)}
    broken = {found.uri for found in listed.objects if isinstance(found, ErrorRow) and found.error != UNSUPPORTED}
    for record in records:
        if record.root != listed.root or record.uri in there:
            continue
        unlisted = bool(broken) and any(above in broken for above in _above(record.uri))
        if not unlisted or metadata_hash(source_metadata(record.uri, config), config) != record.metadata_hash:
            yield record.document_id


def _above(uri: str) -> Iterator[str]:
    """The uri, the export that holds it, and every folder above it up to the root."""
    yield uri
    path = uri.partition("#")[0]
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""
