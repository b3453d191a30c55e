"""What a document itself says about who may read it; only for sources that are trusted to say so."""

from collections.abc import Mapping
from dataclasses import replace

from rag.data import Access, DocumentMetadata


def declared_access(metadata: DocumentMetadata, fields: Mapping[str, object]) -> DocumentMetadata:
    """The metadata under the `groups` and `tenant` of the fields, where they are there.

    Raises ValueError for groups or a tenant of another shape: a misspelt restriction must not open a document.
    """
    tenant, groups = metadata.access.tenant, metadata.access.groups
    if "groups" in fields:
        listed = fields["groups"]
        named = [listed] if isinstance(listed, str) else listed
        if not isinstance(named, list) or not all(isinstance(name, str) and name.strip() for name in named):
            raise ValueError(f"groups: expected a list of group names, found {listed!r}")
        groups = tuple(sorted({name.strip() for name in named}))
    if "tenant" in fields:
        named_tenant = fields["tenant"]
        if not isinstance(named_tenant, str) or not named_tenant.strip():
            raise ValueError(f"tenant: expected a name, found {named_tenant!r}")
        tenant = named_tenant.strip()
    return replace(metadata, access=Access(tenant, groups))
