"""Short ways to a parsed document, for the tests of parsers."""

from rag.config import ParseConfig, SourcesConfig
from rag.data import Access, Document, DocumentMetadata, RawDocument
from rag.ids import digest
from rag.parse.media_type import ROW_MEDIA_TYPE, guess_media_type
from rag.parse.parser import DocumentParser

TRUSTING = SourcesConfig(trust_document_groups=True)


def raw_document(content: str | bytes, uri: str) -> RawDocument:
    data = content.encode() if isinstance(content, str) else content
    media_type = ROW_MEDIA_TYPE if ".jsonl#" in uri else guess_media_type(uri)
    return RawDocument(data, digest(data), DocumentMetadata(uri, "", Access("t", ("g",)), media_type=media_type))


def parse(content: str | bytes, uri: str = "folder/page.md", sources: SourcesConfig | None = None) -> Document:
    return DocumentParser(ParseConfig(), sources or SourcesConfig()).parse(raw_document(content, uri))


def shown(document: Document) -> list[tuple[str, str]]:
    """Kind (with the level of a heading) and text of every block."""
    return [(f"{block.kind}{block.level or ''}", block.text) for block in document.blocks]
