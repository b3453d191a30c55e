from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from rag.data import Access, Chunk, MetadataFilter, Principal
from rag.ids import DocumentId
from rag.index.access import (
    AccessTable,
    RowMask,
    SegmentAccess,
    ShardAccess,
    build_access_table,
    read_access_table,
    row_mask,
)
from rag.index.revocations import Revocations
from tests.rag.index.factories import make_chunk

groups = st.lists(st.sampled_from("abc"), max_size=3, unique=True)
accesses = st.builds(lambda tenant, names: Access(tenant, tuple(sorted(names))), st.sampled_from("xy"), groups)
days = st.dates(date(2023, 12, 28), date(2024, 1, 4))


def chunk_of(access: Access) -> Chunk:
    return make_chunk("text", groups=access.groups, tenant=access.tenant)


@given(rows=st.lists(accesses, max_size=20), tenant=st.sampled_from("xyz"), names=groups)
def test_a_row_is_allowed_exactly_for_its_tenant_and_one_of_its_groups(
    rows: list[Access], tenant: str, names: list[str]
) -> None:
    principal = Principal("ann", tenant, frozenset(names), operator=True)
    table = build_access_table([chunk_of(access) for access in rows])
    expected = [i for i, access in enumerate(rows) if access.tenant == tenant and set(access.groups) & set(names)]
    assert list(table.allowed_rows(principal)) == expected
    assert list(read_access_table(table.to_bytes()).allowed_rows(principal)) == expected


def test_what_the_caller_does_to_the_rows_changes_no_permission() -> None:
    table = build_access_table([chunk_of(Access("x", ("a",)))] * 3)
    ann = Principal("ann", "x", frozenset("a"))
    table.allowed_rows(ann).clear()
    assert list(table.allowed_rows(ann)) == [0, 1, 2]


@given(
    moments=st.lists(st.none() | st.datetimes(datetime(2023, 12, 28), datetime(2024, 1, 4)), min_size=1, max_size=12),
    first=st.none() | days,
    end=st.none() | days,
)
def test_a_range_of_days_holds_its_first_day_and_not_its_last_in_utc(
    moments: list[datetime | None], first: date | None, end: date | None
) -> None:
    dated = [moment and moment.replace(tzinfo=UTC) for moment in moments]
    table = build_access_table([make_chunk("text", updated_at=moment) for moment in dated])
    found = read_access_table(table.to_bytes()).matching_rows(MetadataFilter(updated_from=first, updated_before=end))
    if first is None and end is None:
        assert found is None
        return
    assert found is not None
    assert list(found) == [
        row
        for row, moment in enumerate(dated)
        if moment is not None and (first is None or moment.date() >= first) and (end is None or moment.date() < end)
    ]


def test_a_day_is_that_of_utc_wherever_the_source_is() -> None:
    evening = datetime.fromisoformat("2023-12-31T23:30:00-05:00")
    table = build_access_table([make_chunk("text", updated_at=evening)])
    assert table.matching_rows(MetadataFilter(updated_from=date(2024, 1, 1))) == BitMap([0])


def test_types_and_flags_are_columns_too() -> None:
    table = build_access_table([make_chunk("a"), make_chunk("b", flags=("instruction_like",))])
    assert table.matching_rows(MetadataFilter(without_flags=frozenset({"instruction_like"}))) == BitMap([0])
    assert table.matching_rows(MetadataFilter(media_types=frozenset({"text/plain"}))) == BitMap([0, 1])
    assert table.matching_rows(MetadataFilter(media_types=frozenset({"application/pdf"}))) == BitMap()
    assert table.matching_rows(MetadataFilter()) is None


def test_foreign_bytes_are_refused() -> None:
    content = build_access_table([chunk_of(Access("x", ("a",)))]).to_bytes()
    for broken in (b"", content[:-1], b"x" * 40):
        with pytest.raises((ValueError, IndexError)):
            read_access_table(broken)


@given(st.sets(st.integers(0, 40)))
def test_a_mask_holds_the_rows_of_its_bitmap(rows: set[int]) -> None:
    mask = row_mask(BitMap(rows), 41)
    assert mask.count == len(rows)
    assert mask.everything == (len(rows) == 41)
    assert mask.rows().tolist() == sorted(rows)
    assert mask.contains(np.arange(41)).tolist() == [row in rows for row in range(41)]
    labels = np.arange(41, dtype=np.int32) % 5
    assert mask.counts_by(labels, 5).tolist() == [sum(row % 5 == label for row in rows) for label in range(5)]


DOCUMENTS = [DocumentId(f"d{n}") for n in range(6)]
TABLE = build_access_table([make_chunk("text", groups=("ab"[n % 2], "c")) for n in range(6)])


def shard_access(limit_bytes: int = 1 << 20, tombstones: Sequence[int] = ()) -> ShardAccess:
    def rows_of(documents: Collection[DocumentId]) -> BitMap:
        return BitMap([row for row, name in enumerate(DOCUMENTS) if name in documents])

    return ShardAccess([SegmentAccess(TABLE, BitMap(tombstones), 6, rows_of)], limit_bytes)


def rows_for(access: ShardAccess, names: str, tenant: str = "acme") -> list[int]:
    (mask,) = access.masks(Principal("ann", tenant, frozenset(names)))
    found: list[int] = mask.rows().tolist()
    return found


def test_tombstones_and_revocations_take_rows_from_everyone() -> None:
    access = shard_access(tombstones=[0])
    assert rows_for(access, "c") == [1, 2, 3, 4, 5]
    revoked = access.revoke(Revocations(documents=frozenset({DOCUMENTS[3]})))
    assert rows_for(revoked, "c") == [1, 2, 4, 5]
    assert rows_for(access, "c") == [1, 2, 3, 4, 5]


def test_a_revoked_group_opens_nothing_and_the_others_what_they_did() -> None:
    access = shard_access()
    assert rows_for(access, "ab") == [0, 1, 2, 3, 4, 5]
    revoked = access.revoke(Revocations(groups=frozenset({("acme", "a")})))
    assert rows_for(revoked, "ab") == [1, 3, 5]
    assert rows_for(revoked, "a") == []
    elsewhere = access.revoke(Revocations(groups=frozenset({("rival", "a")})))
    assert rows_for(elsewhere, "a") == [0, 2, 4]


def test_masks_are_kept_by_permission_set_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved: list[frozenset[str]] = []
    resolve = AccessTable.allowed_rows

    def counted(self: AccessTable, principal: Principal) -> BitMap:
        resolved.append(principal.groups)
        return resolve(self, principal)

    monkeypatch.setattr(AccessTable, "allowed_rows", counted)
    one_mask = row_mask(BitMap([0, 2, 4]), 6).size_bytes
    access = shard_access(limit_bytes=2 * one_mask)
    for names in ("a", "b", "a"):
        rows_for(access, names)
    assert [sorted(names) for names in resolved] == [["a"], ["b"]]
    rows_for(access, "c")  # six rows: larger than what is left
    rows_for(access, "b")
    assert [sorted(names) for names in resolved] == [["a"], ["b"], ["c"], ["b"]]


def test_a_filter_has_masks_of_its_own() -> None:
    access = shard_access()
    ann = Principal("ann", "acme", frozenset("c"))
    (everything,) = access.masks(ann)
    (none,) = access.masks(ann, MetadataFilter(updated_from=date.today() + timedelta(days=1)))
    assert (everything.count, none.count) == (6, 0)


def test_a_mask_says_what_it_holds_and_not_which() -> None:
    assert repr(RowMask(np.array([True, False]))) == "RowMask(1 of 2 rows)"
