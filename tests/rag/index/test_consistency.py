from pathlib import Path

import pytest

from rag.errors import IndexDamaged
from rag.evaluate.collection_index import records_of
from rag.index.consistency import check_version
from rag.index.files import checksum
from rag.index.manifest import Manifest, NamedFile
from rag.index.registry import DocumentRecord, records_to_table, table_to_bytes
from rag.index.store import IndexStore
from tests.rag.index.factories import commit, make_chunk, make_config, unit_vectors

CHUNKS = [make_chunk(f"page {n}", uri=f"{n}.md") for n in range(3)]


def with_registry(store: IndexStore, manifest: Manifest, records: list[DocumentRecord]) -> Manifest:
    """The version as if these were its documents."""
    content = table_to_bytes(records_to_table(records))
    file = NamedFile(name="other.parquet", info=checksum(content))
    store.write_registry(file.name, content)
    return manifest.model_copy(update={"content": manifest.content.model_copy(update={"registry": file})})


def test_a_version_whose_registry_says_otherwise_is_damaged(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    store = IndexStore(config.index_root)
    manifest = commit(store, CHUNKS, unit_vectors(3), config)
    check_version(store, manifest)
    check_version(store, with_registry(store, manifest, records_of(CHUNKS, 1)))
    with pytest.raises(IndexDamaged, match=rf"{CHUNKS[2].id} is live 1 times .* lists it 0 times \(one of 1 such"):
        check_version(store, with_registry(store, manifest, records_of(CHUNKS[:2], 1)))
    more = records_of([*CHUNKS, make_chunk("page 9", uri="9.md")], 1)
    with pytest.raises(IndexDamaged, match="is live 0 times in shard 0, and the registry lists it 1 times"):
        check_version(store, with_registry(store, manifest, more))
    with pytest.raises(IndexDamaged, match=r"documents in shards \[[1-9]\d*\], but the index has 1"):
        check_version(store, with_registry(store, manifest, [*records_of(CHUNKS, 1), elsewhere()]))


def elsewhere() -> DocumentRecord:
    """A document without chunks in a shard that the version does not have."""
    return DocumentRecord(CHUNKS[0].document_id, "x.md", "", "", "", "", shard=7, chunk_ids=())
