"""Who may read what."""

import pytest

from rag.data import Access, Principal
from rag.guard.access import may_read, permission_scope

ADA = Principal("ada", "acme", frozenset({"staff", "hr"}))


@pytest.mark.parametrize(
    ("access", "readable"),
    [
        (Access("acme", ("hr",)), True),
        (Access("acme", ("board", "staff")), True),
        (Access("acme", ("board",)), False),
        (Access("other", ("hr", "staff")), False),
        (Access("acme", ()), False),
    ],
)
def test_a_reader_shares_the_tenant_and_a_group(access: Access, readable: bool) -> None:
    assert may_read(access, ADA) is readable


def test_an_operator_reads_no_more_documents() -> None:
    assert not may_read(Access("acme", ("board",)), Principal("op", "acme", frozenset({"staff"}), operator=True))


def test_nobody_without_groups_reads() -> None:
    assert not may_read(Access("acme", ()), Principal("ada", "acme", frozenset()))


def test_a_scope_is_what_may_be_read_and_not_who_asks() -> None:
    same = Principal("bob", "acme", frozenset({"hr", "staff"}), operator=True)
    assert permission_scope(same) == permission_scope(ADA)
    others = (
        Principal("ada", "acme", frozenset({"staff"})),
        Principal("ada", "other", frozenset({"staff", "hr"})),
        Principal("ada", "acme", frozenset({"staff,hr"})),
    )
    assert permission_scope(ADA) not in {permission_scope(other) for other in others}
