import pytest

from rag.ids import ChunkId, DocumentId
from rag.index.registry import DocumentRecord, records_from_bytes, records_to_table, table_to_bytes

RECORDS = [
    DocumentRecord(DocumentId("b"), "b.md", "folder", "c1", "m1", "w1", 1, (ChunkId("2"), ChunkId("1"))),
    DocumentRecord(DocumentId("a"), "a.md", "folder", "c2", "m2", "w2", 0, ()),
]


@pytest.mark.parametrize("records", [RECORDS, []])
def test_records_come_back_by_document(records: list[DocumentRecord]) -> None:
    assert records_from_bytes(table_to_bytes(records_to_table(records))) == sorted(
        records, key=lambda record: record.document_id
    )


def test_the_order_of_records_changes_no_byte() -> None:
    assert table_to_bytes(records_to_table(RECORDS)) == table_to_bytes(records_to_table(RECORDS[::-1]))
