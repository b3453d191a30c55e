"""Who may read what: the one definition."""

from rag.data import Access, Principal


def may_read(access: Access, principal: Principal) -> bool:
    """Whether the principal is in the document's tenant and in one of its groups. Without groups nobody may."""
    return access.tenant == principal.tenant and not principal.groups.isdisjoint(access.groups)
