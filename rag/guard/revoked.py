"""A stored trace as it may be shown now: what was revoked since is taken out."""

from dataclasses import replace

from rag.data import Principal
from rag.errors import NotFound
from rag.ids import ChunkId
from rag.index.contents import read_chunks
from rag.index.store import IndexStore
from rag.trace import Scores, Trace

WITHHELD = "withheld: a passage was revoked"


def without_revoked(trace: Trace, store: IndexStore) -> Trace:
    """The trace without the chunks that are revoked in its version, for whoever asked it.

    When a passage of the prompt is among them, the prompt and the answer are withheld, and `partial` says so. A version
    that was reclaimed can't tell what its chunks were: then every passage counts as revoked, if anything is.
    """
    revoked = store.revocations()
    if not revoked.revocations:
        return trace
    named = {*trace.passages, *trace.citations}
    named |= {name for leg in (trace.dense, trace.bm25, trace.fused, trace.reranked) for name, _ in leg}
    asker = Principal("", trace.tenant, frozenset(trace.groups))
    try:
        manifest = store.manifest(trace.versions.index)
        needed = revoked.for_version(manifest.created_at)
        if not needed:
            return trace
        chunks = read_chunks(store, manifest.version, chunk_ids=named)
        shown = {c.id for c in chunks if needed.allows(c.document_id, c.metadata.access, asker)}
    except NotFound:
        shown = set()
    withheld = not shown.issuperset((*trace.passages, *trace.citations))
    left = replace(
        trace,
        dense=_shown(trace.dense, shown),
        bm25=_shown(trace.bm25, shown),
        fused=_shown(trace.fused, shown),
        reranked=_shown(trace.reranked, shown),
        passages=tuple(name for name in trace.passages if name in shown),
        citations=tuple(name for name in trace.citations if name in shown),
    )
    return replace(left, messages=(), answer="", partial=(*trace.partial, WITHHELD)) if withheld else left


def _shown(leg: Scores, shown: set[ChunkId]) -> Scores:
    return tuple((name, score) for name, score in leg if name in shown)
