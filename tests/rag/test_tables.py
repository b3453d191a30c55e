from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.data import Access, Box, Chunk, DocumentMetadata, ErrorRow, Region
from rag.ids import ChunkId, DocumentId
from rag.tables import CHUNK_SCHEMA, ERROR_SCHEMA, chunks_to_table, errors_to_table, table_to_chunks, table_to_errors
from tests.rag.index.factories import make_chunk

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.integers(0, 2**31 - 1)
points = st.floats(allow_nan=False, width=64)
boxes = st.builds(Box, points, points, points, points)
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=zones)
metadata = st.builds(
    DocumentMetadata,
    uri=words,
    title=words,
    access=st.builds(Access, words, st.lists(words, max_size=3, unique=True).map(lambda names: tuple(sorted(names)))),
    owner=words,
    updated_at=st.none() | moments,
    authority=st.sampled_from(["policy", "reference", "note"]),
    language=words,
    media_type=words,
)
chunks = st.builds(
    Chunk,
    id=words.map(ChunkId),
    document_id=words.map(DocumentId),
    ordinal=numbers,
    section=numbers,
    text=words,
    start=numbers,
    end=numbers,
    headings=st.lists(words, max_size=3).map(tuple),
    regions=st.lists(st.builds(Region, st.integers(1, 9), boxes), max_size=3).map(tuple),
    num_tokens=numbers,
    metadata=metadata,
    flags=st.lists(words, max_size=2).map(tuple),
    context=words,
    parent=st.none() | st.tuples(numbers, numbers),
)


@settings(deadline=None)  # the first table of a process loads arrow
@given(st.lists(chunks, max_size=4))
def test_chunks_come_back_from_a_table_as_they_went_in(rows: list[Chunk]) -> None:
    table = chunks_to_table(rows)
    assert table.schema == CHUNK_SCHEMA
    assert table_to_chunks(table) == rows


def test_dates_come_back_in_utc() -> None:
    noon_in_berlin = datetime(2024, 7, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    (chunk,) = table_to_chunks(chunks_to_table([make_chunk("x", updated_at=noon_in_berlin)]))
    assert chunk.metadata.updated_at == datetime(2024, 7, 1, 10, 0, 0, 123456, tzinfo=UTC)
    assert chunk.metadata.updated_at.tzinfo is UTC


def test_a_date_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match=r"leave\.md: updated_at 2024-07-01T00:00:00 has no time zone"):
        chunks_to_table([make_chunk("x", updated_at=datetime(2024, 7, 1))])


def test_errors_come_back_from_a_table_as_they_went_in() -> None:
    errors = [ErrorRow("a.pdf", "parse", "ParseError", "encrypted"), ErrorRow("b", "read", "OSError", "")]
    table = errors_to_table(errors)
    assert table.schema == ERROR_SCHEMA
    assert table_to_errors(table) == errors
    assert table_to_errors(errors_to_table([])) == []
