from rag.data import Access, Block, Document, DocumentMetadata
from rag.ids import DocumentId
from rag.parse.render import document_markdown


def document(*blocks: Block) -> Document:
    metadata = DocumentMetadata("a.pdf", "A", Access("acme", ("staff",)))
    return Document(DocumentId("d"), "hash", metadata, blocks)


def test_headings_get_their_level_and_tables_and_lists_stay_as_they_are() -> None:
    table = "| a | b |\n| --- | --- |\n| 1 | 2 |"
    text = document_markdown(
        document(
            Block("title", "The Report", level=1),
            Block("heading", "Scope\nand aims", level=2),
            Block("paragraph", "Some text."),
            Block("table", table),
            Block("list", "- one\n- two"),
        )
    )
    assert text == f"# The Report\n\n## Scope and aims\n\nSome text.\n\n{table}\n\n- one\n- two"


def test_page_headers_and_footers_are_left_out() -> None:
    assert document_markdown(document(Block("header", "ACME"), Block("paragraph", "Text."), Block("footer", "3"))) == (
        "Text."
    )
