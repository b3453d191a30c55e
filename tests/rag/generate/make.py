"""Passages for tests, from a few words each."""

from datetime import datetime

from rag.data import Access, Box, Chunk, DocumentMetadata, Passage, Principal, Region
from rag.ids import ChunkId, DocumentId

PRINCIPAL = Principal(subject="ada", tenant="acme", groups=frozenset({"staff"}))


def make_chunk(
    text: str,
    name: str = "c1",
    *,
    document: str = "d1",
    ordinal: int = 0,
    section: int = 0,
    start: int = 0,
    title: str = "Handbook",
    headings: tuple[str, ...] = (),
    page: int | None = None,
    updated_at: datetime | None = None,
    access: Access | None = None,
    context: str = "",
    parent: tuple[int, int] | None = None,
) -> Chunk:
    """A chunk of a document that readers in the group "staff" of "acme" may see, unless said otherwise."""
    return Chunk(
        id=ChunkId(name),
        document_id=DocumentId(document),
        ordinal=ordinal,
        section=section,
        text=text,
        start=start,
        end=start + len(text),
        headings=headings,
        regions=() if page is None else (Region(page, Box(0, 0, 10, 10)),),
        num_tokens=len(text.split()),
        metadata=DocumentMetadata(
            uri=f"{document}.md", title=title, access=access or Access("acme", ("staff",)), updated_at=updated_at
        ),
        context=context,
        parent=parent,
    )


def make_passage(number: int, text: str, *, title: str = "Handbook", chunk: Chunk | None = None) -> Passage:
    """Passage `number` with a chunk of its own document."""
    chunk = chunk or make_chunk(text, f"c{number}", document=f"d{number}", title=title)
    return Passage(number=number, chunk=chunk, text=text, score=1.0 / number)
