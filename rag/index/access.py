"""Who may read which row of a segment."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from rag.data import Access, Principal
from rag.index.selection import Rows

_MAGIC = b"QUIREAC1"


@dataclass(frozen=True, slots=True)
class RowMask:
    """A set of a segment's rows, one bit a row: the form that both legs filter with."""

    bits: npt.NDArray[np.uint8]  # row r is bit r % 8 of byte r // 8, as faiss' IDSelectorBitmap reads it
    count: int

    def contains(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Whether each row is in the set."""
        found: npt.NDArray[np.bool_] = (self.bits[rows >> 3] >> (rows & 7).astype(np.uint8) & 1).astype(np.bool_)
        return found

    def rows(self) -> Rows:
        """The rows of the set, ascending."""
        return np.flatnonzero(np.unpackbits(self.bits, bitorder="little"))


def row_mask(rows: BitMap, num_rows: int) -> RowMask:
    """The rows of the bitmap as a mask over `num_rows` rows."""
    flags = np.zeros(num_rows, np.bool_)
    flags[np.asarray(rows.to_array(), np.int64)] = True
    return RowMask(np.packbits(flags, bitorder="little"), len(rows))


class AccessTable:
    """Group -> rows and tenant -> rows of one segment."""

    def __init__(self, groups: dict[str, BitMap], tenants: dict[str, BitMap]) -> None:
        self._groups, self._tenants = groups, tenants

    def allowed_rows(self, principal: Principal) -> BitMap:
        """The rows inside the principal's tenant that at least one of its groups may read; a new bitmap.

        Tombstones are not known here. A principal without groups may read nothing.
        """
        tenant = self._tenants.get(principal.tenant)
        readable = [self._groups[group] for group in principal.groups if group in self._groups]
        if tenant is None or not readable:
            return BitMap()
        return reduce(BitMap.union, readable) & tenant

    def to_bytes(self) -> bytes:
        """The table as a file: magic, length of the header, JSON header of names and sizes, then the bitmaps."""
        header: dict[str, list[tuple[str, int]]] = {}
        bitmaps: list[bytes] = []
        for kind, table in (("groups", self._groups), ("tenants", self._tenants)):
            header[kind] = []
            for name, rows in sorted(table.items()):
                bitmaps.append(rows.serialize())
                header[kind].append((name, len(bitmaps[-1])))
        head = json.dumps(header).encode()
        return b"".join([_MAGIC, len(head).to_bytes(8, "little"), head, *bitmaps])


def build_access_table(accesses: Sequence[Access]) -> AccessTable:
    """The table of a segment whose row i is readable as accesses[i] says."""
    groups: dict[str, list[int]] = {}
    tenants: dict[str, list[int]] = {}
    for row, access in enumerate(accesses):
        tenants.setdefault(access.tenant, []).append(row)
        for group in access.groups:
            groups.setdefault(group, []).append(row)
    return AccessTable(_bitmaps(groups), _bitmaps(tenants))


def read_access_table(content: bytes) -> AccessTable:
    """The table that `to_bytes` wrote. Raises ValueError for anything else."""
    start = len(_MAGIC) + 8
    if content[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not an access table")
    end = start + int.from_bytes(content[len(_MAGIC) : start], "little")
    header = json.loads(content[start:end])
    tables: dict[str, dict[str, BitMap]] = {"groups": {}, "tenants": {}}
    for kind, table in tables.items():
        for name, size in header[kind]:
            table[name] = BitMap.deserialize(content[end : end + size])
            end += size
    return AccessTable(tables["groups"], tables["tenants"])


def _bitmaps(table: dict[str, list[int]]) -> dict[str, BitMap]:
    bitmaps = {name: BitMap(rows) for name, rows in table.items()}
    for rows in bitmaps.values():
        rows.run_optimize()  # rows of one group often follow each other; also makes the bytes depend on the set alone
    return bitmaps
