"""Which documents of a version another one stands in for, and which have to be read because none does any longer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from rag.clean.duplicates import Duplicate, Signature, find_duplicates
from rag.config import CleanConfig
from rag.data import ErrorRow
from rag.ids import DocumentId
from rag.index.registry import DocumentRecord

Records = Mapping[DocumentId, DocumentRecord]


@dataclass(frozen=True, slots=True)
class Grouped:
    """The documents of a version, told apart by whether another one stands in for them."""

    duplicates: Mapping[DocumentId, Duplicate]
    waiting: tuple[DocumentRecord, ...]  # have no chunks, and nothing stands in for them any longer


def group_records(records: Records, config: CleanConfig) -> Grouped:
    """The duplicates among the records, by their signatures alone: the order of runs does not matter."""
    signatures = {name: Signature.from_bytes(record.signature) for name, record in records.items() if record.signature}
    uris = {name: record.uri for name, record in records.items()}
    found = find_duplicates(signatures, uris, config.min_similarity)
    waiting = [record for name, record in records.items() if record.duplicate_of and name not in found]
    return Grouped(found, tuple(sorted(waiting, key=lambda record: record.document_id)))


def stood_in_for(record: DocumentRecord, duplicate: Duplicate) -> DocumentRecord:
    """The record of a document that gets no chunks of its own."""
    return replace(record, chunk_ids=(), duplicate_of=duplicate.kept)


def duplicate_rows(grouped: Grouped, records: Records, listed: Collection[str]) -> Sequence[ErrorRow]:
    """Why each listed document that is stood in for is not indexed itself, by uri."""
    rows = [
        ErrorRow(records[name].uri, "clean", "Duplicate", _reason(duplicate, records[duplicate.kept].uri))
        for name, duplicate in grouped.duplicates.items()
        if records[name].uri in listed
    ]
    return sorted(rows, key=lambda row: row.uri)


def _reason(duplicate: Duplicate, kept: str) -> str:
    how = "the same text" if duplicate.similarity == 1.0 else f"{duplicate.similarity:.0%} of the wording"
    return f"{how} and the same readers as {kept}, which is indexed in its place"
