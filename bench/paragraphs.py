"""Where do benchmarks of the index take chunks from that need no parser? Each paragraph of a folder of pages is one."""

from pathlib import Path

from rag.data import Access, Chunk, DocumentMetadata
from rag.evaluate.collection_index import READERS, TENANT
from rag.ids import chunk_id, document_id


def read_paragraphs(pages: Path, max_chunks: int) -> list[tuple[str, str]]:
    """(page, paragraph) of an even sample of the pages, in order."""
    found: list[tuple[str, str]] = []
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text(encoding="utf-8", errors="replace")
        parts = [" ".join(part.split()) for part in text.split("\n\n")]
        found += [(page.relative_to(pages).as_posix(), part) for part in parts if 80 <= len(part) <= 1_200]
    return found[:: max(1, len(found) // max_chunks)][:max_chunks]


def paragraph_chunks(paragraphs: list[tuple[str, str]]) -> list[Chunk]:
    """Each paragraph as a chunk of its page, which `collection_index.READER` may read."""
    chunks = []
    for place, (uri, text) in enumerate(paragraphs):
        document = document_id(TENANT, uri)
        chunks.append(
            Chunk(
                id=chunk_id(document, text, place),
                document_id=document,
                ordinal=place,
                section=place,
                text=text,
                start=0,
                end=len(text),
                headings=(),
                regions=(),
                num_tokens=len(text.split()),
                metadata=DocumentMetadata(uri=uri, title=uri, access=Access(TENANT, READERS)),
            )
        )
    return chunks
