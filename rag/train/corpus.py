"""Where training reads chunks from: a version of an index, or the corpus of a test collection."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rag.data import Access, Chunk, DocumentMetadata
from rag.evaluate.beir import read_documents
from rag.ids import ChunkId, chunk_id, document_id
from rag.index.contents import live_rows
from rag.index.manifest import Manifest
from rag.index.segment import open_chunks
from rag.index.store import IndexStore
from rag.tables import table_to_chunks
from rag.train.synthesize import sample_key

_ROWS_AT_ONCE = 256
_CORPUS_ACCESS = Access("corpus", ("everyone",))  # of a test collection, whose documents name no readers


class VersionChunks:
    """The live chunks of a version, read from its segments without opening it for search."""

    def __init__(self, store: IndexStore, manifest: Manifest) -> None:
        self._tables = [open_chunks(store.segment(entry.info)) for entry in manifest.segments]
        self._live = [live_rows(store, manifest, entry) for entry in manifest.segments]

    def sampled(self, seed: int) -> Iterator[Chunk]:
        """Every live chunk in the random order of the seed; only ids are held in memory."""
        keys = [
            (sample_key(ChunkId(name), seed), owner, row)
            for owner, (table, live) in enumerate(zip(self._tables, self._live, strict=True))
            for name, row in zip(table.column("id").take(pa.array(live)).to_pylist(), live.tolist(), strict=True)
        ]
        keys.sort()
        for start in range(0, len(keys), _ROWS_AT_ONCE):
            for _, owner, row in keys[start : start + _ROWS_AT_ONCE]:
                yield from table_to_chunks(self._tables[owner].slice(row, 1))

    def tenant_groups(self) -> Mapping[str, frozenset[str]]:
        """All groups that may read anything, by tenant: who is in all of them may read the whole tenant."""
        found: dict[str, set[str]] = {}
        for table in self._tables:
            groups = table.column("groups").combine_chunks()
            tenants = table.column("tenant").combine_chunks().take(pc.list_parent_indices(groups))
            pairs = pa.table({"tenant": tenants, "group": pc.list_flatten(groups)})
            for pair in pairs.group_by(["tenant", "group"]).aggregate([]).to_pylist():
                found.setdefault(pair["tenant"], set()).add(pair["group"])
        return {tenant: frozenset(groups) for tenant, groups in found.items()}


def read_collection_chunks(folder: Path) -> list[Chunk]:
    """The documents of a test collection, each as one chunk; its queries are not opened. Raises InputError.

    A title like "Leave > Types > Court leave" is a title with headings below it.
    """
    return [_chunk(document.id, document.title, document.text) for document in read_documents(folder)]


def _chunk(name: str, title: str, text: str) -> Chunk:
    document = document_id(_CORPUS_ACCESS.tenant, name)
    first, *headings = title.split(" > ")
    return Chunk(
        id=chunk_id(document, f"{title}\n{text}", 0),
        document_id=document,
        ordinal=0,
        section=0,
        text=text,
        start=0,
        end=len(text),
        headings=tuple(headings),
        regions=(),
        num_tokens=0,
        metadata=DocumentMetadata(uri=name, title=first, access=_CORPUS_ACCESS),
    )
