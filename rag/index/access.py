"""Who may read which row of a segment, and which rows a filter on metadata leaves."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from rag.data import NO_FILTER, Chunk, MetadataFilter, Principal
from rag.ids import DocumentId
from rag.index.revocations import NOTHING_REVOKED, Revocations
from rag.index.row_flags import row_flags
from rag.index.selection import Rows

_MAGIC = b"QUIREAC2"
_COLUMNS = ("groups", "tenants", "days", "types", "flags")
_EPOCH = date(1970, 1, 1)


class RowMask:
    """A set of a segment's rows, one bit a row: the form that both legs filter with. Nobody writes into it."""

    __slots__ = ("_counts", "_rows", "bits", "count", "num_rows")

    def __init__(self, flags: npt.NDArray[np.bool_]) -> None:
        self.bits: npt.NDArray[np.uint8] = np.packbits(flags, bitorder="little")  # as faiss' IDSelectorBitmap reads it
        self.count, self.num_rows = int(flags.sum()), len(flags)
        self._rows: Rows | None = None
        self._counts: npt.NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        return f"RowMask({self.count} of {self.num_rows} rows)"

    @property
    def everything(self) -> bool:
        """Whether every row is in the set."""
        return self.count == self.num_rows

    @property
    def size_bytes(self) -> int:
        """What the set may come to hold in memory, its list of rows included."""
        return len(self.bits) + 8 * self.count

    def contains(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Whether each row is in the set."""
        found: npt.NDArray[np.bool_] = (self.bits[rows >> 3] >> (rows & 7).astype(np.uint8) & 1).astype(np.bool_)
        return found

    def rows(self) -> Rows:
        """The rows of the set, ascending."""
        if self._rows is None:
            self._rows = np.flatnonzero(np.unpackbits(self.bits, count=self.num_rows, bitorder="little"))
        return self._rows

    def counts_by(self, labels: npt.NDArray[np.int32], num_labels: int) -> npt.NDArray[np.int64]:
        """How many rows of the set have each label; `labels` are those of the segment, the same in every call."""
        if self._counts is None:
            self._counts = np.bincount(labels[self.rows()], minlength=num_labels)
        return self._counts


def row_mask(rows: BitMap, num_rows: int) -> RowMask:
    """The rows of the bitmap as a mask over `num_rows` rows."""
    return RowMask(row_flags(rows, num_rows))


class AccessTable:
    """The columns of one segment, value -> rows: groups, tenants, days of the last change, media types, flags."""

    def __init__(self, columns: Mapping[str, Mapping[str, BitMap]]) -> None:
        self._columns = {name: columns.get(name, {}) for name in _COLUMNS}
        self._days = sorted((int(day), rows) for day, rows in self._columns["days"].items())

    def allowed_rows(self, principal: Principal) -> BitMap:
        """The rows inside the principal's tenant that at least one of its groups may read; a new bitmap.

        Tombstones are not known here. A principal without groups may read nothing.
        """
        tenant = self._columns["tenants"].get(principal.tenant)
        if tenant is None:
            return BitMap()
        return self._any_of("groups", principal.groups) & tenant

    def matching_rows(self, filter_: MetadataFilter) -> BitMap | None:
        """The rows of documents that the filter lets through, whoever may read them; None where it asks nothing."""
        kept: list[BitMap] = []
        if filter_.updated_from is not None or filter_.updated_before is not None:
            first = None if filter_.updated_from is None else _day(filter_.updated_from)
            end = None if filter_.updated_before is None else _day(filter_.updated_before)
            inside = [
                rows for day, rows in self._days if (first is None or day >= first) and (end is None or day < end)
            ]
            kept.append(_union(inside))
        if filter_.media_types:
            kept.append(self._any_of("types", filter_.media_types))
        if filter_.without_flags:
            kept.append(_union(self._columns["tenants"].values()) - self._any_of("flags", filter_.without_flags))
        return BitMap.intersection(*kept) if kept else None

    def to_bytes(self) -> bytes:
        """The table as a file: magic, length of the header, JSON header of names and sizes, then the bitmaps."""
        header: dict[str, list[tuple[str, int]]] = {}
        bitmaps: list[bytes] = []
        for kind, table in self._columns.items():
            header[kind] = []
            for name, rows in sorted(table.items()):
                bitmaps.append(rows.serialize())
                header[kind].append((name, len(bitmaps[-1])))
        head = json.dumps(header).encode()
        return b"".join([_MAGIC, len(head).to_bytes(8, "little"), head, *bitmaps])

    def _any_of(self, column: str, values: Iterable[str]) -> BitMap:
        table = self._columns[column]
        return _union(table[value] for value in values if value in table)


def build_access_table(chunks: Sequence[Chunk]) -> AccessTable:
    """The table of a segment whose row i is chunks[i]."""
    columns: dict[str, dict[str, list[int]]] = {name: {} for name in _COLUMNS}
    for row, chunk in enumerate(chunks):
        metadata = chunk.metadata
        columns["tenants"].setdefault(metadata.access.tenant, []).append(row)
        columns["types"].setdefault(metadata.media_type, []).append(row)
        if metadata.updated_at is not None:
            columns["days"].setdefault(str(_day(metadata.updated_at)), []).append(row)
        for name, values in (("groups", metadata.access.groups), ("flags", chunk.flags)):
            for value in values:
                columns[name].setdefault(value, []).append(row)
    return AccessTable({name: _bitmaps(table) for name, table in columns.items()})


def read_access_table(content: bytes) -> AccessTable:
    """The table that `to_bytes` wrote. Raises ValueError for anything else."""
    start = len(_MAGIC) + 8
    if content[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not an access table")
    end = start + int.from_bytes(content[len(_MAGIC) : start], "little")
    header = json.loads(content[start:end])
    columns: dict[str, dict[str, BitMap]] = {}
    for kind in _COLUMNS:
        columns[kind] = {}
        for name, size in header[kind]:
            columns[kind][name] = BitMap.deserialize(content[end : end + size])
            end += size
    return AccessTable(columns)


@dataclass(frozen=True, slots=True)
class SegmentAccess:
    """What decides who reads a row of one segment."""

    table: AccessTable
    tombstones: BitMap
    num_rows: int
    rows_of: Callable[[Collection[DocumentId]], BitMap]  # the rows of documents


class ShardAccess:
    """Resolves who asks, and for what, to a mask a segment, under one version and one set of revocations.

    Masks are kept by tenant, groups and filter; the least recently used go when they hold more than `limit_bytes`.
    Safe to use from several threads at once. Another set of revocations makes another object, and with it an empty
    cache: no mask outlives the permission that it was made of.
    """

    def __init__(
        self, segments: Sequence[SegmentAccess], limit_bytes: int, revocations: Revocations = NOTHING_REVOKED
    ) -> None:
        self._segments, self._limit_bytes, self._revocations = tuple(segments), limit_bytes, revocations
        self._dead = [segment.tombstones | segment.rows_of(revocations.documents) for segment in segments]
        self._masks: OrderedDict[object, tuple[RowMask, ...]] = OrderedDict()
        self._held_bytes, self._lock = 0, threading.Lock()

    @property
    def revocations(self) -> Revocations:
        """Those that the masks leave out."""
        return self._revocations

    def revoke(self, revocations: Revocations) -> "ShardAccess":
        """The same rows under another set of revocations."""
        return ShardAccess(self._segments, self._limit_bytes, revocations)

    def masks(self, principal: Principal, filter_: MetadataFilter = NO_FILTER) -> tuple[RowMask, ...]:
        """The rows that the principal may read and that the filter lets through, a mask a segment."""
        key = (principal.tenant, principal.groups, filter_)
        with self._lock:
            if (found := self._masks.get(key)) is not None:
                self._masks.move_to_end(key)
                return found
        made = tuple(
            self._mask(segment, dead, principal, filter_)
            for segment, dead in zip(self._segments, self._dead, strict=True)
        )
        with self._lock:
            if key not in self._masks:
                self._masks[key] = made
                self._held_bytes += _size(made)
                while self._held_bytes > self._limit_bytes and len(self._masks) > 1:
                    self._held_bytes -= _size(self._masks.popitem(last=False)[1])
        return made

    def _mask(self, segment: SegmentAccess, dead: BitMap, principal: Principal, filter_: MetadataFilter) -> RowMask:
        groups = self._revocations.groups_left(principal.tenant, principal.groups)
        rows = segment.table.allowed_rows(Principal(principal.subject, principal.tenant, groups)) - dead
        matching = segment.table.matching_rows(filter_)
        return row_mask(rows if matching is None else rows & matching, segment.num_rows)


def _size(masks: Sequence[RowMask]) -> int:
    return sum(mask.size_bytes for mask in masks)


def _union(bitmaps: Iterable[BitMap]) -> BitMap:
    """A new bitmap of the rows in any of them."""
    return BitMap.union(BitMap(), *bitmaps)


def _bitmaps(table: Mapping[str, Sequence[int]]) -> dict[str, BitMap]:
    bitmaps = {name: BitMap(rows) for name, rows in table.items()}
    for rows in bitmaps.values():
        rows.run_optimize()  # rows of one group often follow each other; also makes the bytes depend on the set alone
    return bitmaps


def _day(moment: datetime | date) -> int:
    """Days since 1970 of a date, or of a moment in UTC."""
    if isinstance(moment, datetime):
        moment = moment.astimezone(UTC).date()
    return (moment - _EPOCH) // timedelta(days=1)
