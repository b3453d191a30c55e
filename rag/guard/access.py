"""Who may read what: the one definition."""

from rag.data import Access, Principal
from rag.ids import digest


def may_read(access: Access, principal: Principal) -> bool:
    """Whether the principal is in the document's tenant and in one of its groups. Without groups nobody may."""
    return access.tenant == principal.tenant and not principal.groups.isdisjoint(access.groups)


def permission_scope(principal: Principal) -> str:
    """A name for what the principal may read: equal for equal tenants and groups, whoever asks."""
    return digest("scope", principal.tenant, *sorted(principal.groups))
