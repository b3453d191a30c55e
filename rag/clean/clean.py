"""Document -> Document: what is not content is left out, and personal data is treated as the policy says."""

from dataclasses import replace

from rag.clean.pii import KINDS, find_pii, mask_pii
from rag.clean.repeated import drop_repeated
from rag.config import CleanConfig
from rag.data import Access, Document


def clean_document(document: Document, config: CleanConfig) -> Document:
    """The document without boilerplate; masked, and narrowed to fewer readers, where it holds what `clean.pii` names.

    Narrowing never adds a reader: groups that could not read the document before can't afterwards.
    """
    blocks = drop_repeated(document.blocks, document.num_pages, config.max_repeated_share)
    metadata = document.metadata
    narrowing = frozenset(kind for kind in KINDS if config.policy(kind) == "narrow")
    if narrowing and any(find_pii(block.text, narrowing, config.phone_region) for block in blocks):
        kept = tuple(group for group in metadata.access.groups if group in config.narrow_groups)
        metadata = replace(metadata, access=Access(metadata.access.tenant, kept))
    if masked := frozenset(kind for kind in KINDS if config.policy(kind) == "mask"):
        region = config.phone_region
        blocks = tuple(replace(block, text=mask_pii(block.text, masked, region)) for block in blocks)
        metadata = replace(metadata, title=mask_pii(metadata.title, masked, region))
    return replace(document, blocks=blocks, metadata=metadata)
