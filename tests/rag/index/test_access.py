import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from rag.data import Access, Principal
from rag.index.access import build_access_table, read_access_table, row_mask

groups = st.lists(st.sampled_from("abc"), max_size=3, unique=True)
accesses = st.builds(lambda tenant, names: Access(tenant, tuple(sorted(names))), st.sampled_from("xy"), groups)


@given(rows=st.lists(accesses, max_size=20), tenant=st.sampled_from("xyz"), names=groups)
def test_a_row_is_allowed_exactly_for_its_tenant_and_one_of_its_groups(
    rows: list[Access], tenant: str, names: list[str]
) -> None:
    principal = Principal("ann", tenant, frozenset(names), operator=True)
    table = build_access_table(rows)
    expected = [i for i, access in enumerate(rows) if access.tenant == tenant and set(access.groups) & set(names)]
    assert list(table.allowed_rows(principal)) == expected
    assert list(read_access_table(table.to_bytes()).allowed_rows(principal)) == expected


def test_what_the_caller_does_to_the_rows_changes_no_permission() -> None:
    table = build_access_table([Access("x", ("a",))] * 3)
    ann = Principal("ann", "x", frozenset("a"))
    table.allowed_rows(ann).clear()
    assert list(table.allowed_rows(ann)) == [0, 1, 2]


def test_foreign_bytes_are_refused() -> None:
    content = build_access_table([Access("x", ("a",))]).to_bytes()
    for broken in (b"", content[:-1], b"x" * 40):
        with pytest.raises((ValueError, IndexError)):
            read_access_table(broken)


@given(st.sets(st.integers(0, 40)))
def test_a_mask_holds_the_rows_of_its_bitmap(rows: set[int]) -> None:
    mask = row_mask(BitMap(rows), 41)
    assert mask.count == len(rows)
    assert mask.rows().tolist() == sorted(rows)
    assert mask.contains(row_mask(BitMap(range(41)), 41).rows()).tolist() == [row in rows for row in range(41)]
