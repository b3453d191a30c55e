"""Ids come from content, and only from the content that they stand for."""

from hypothesis import given
from hypothesis import strategies as st

from rag.ids import chunk_id, digest, document_id, shard_of

texts = st.text(max_size=20)


def test_parts_can_not_run_into_each_other() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a", "") != digest("a")
    assert digest("3", "abc") != digest("3\x1fabc")


@given(tenant=texts, uri=texts)
def test_the_same_document_has_the_same_id_and_another_tenants_has_not(tenant: str, uri: str) -> None:
    assert document_id(tenant, uri) == document_id(tenant, uri)
    assert document_id(tenant, uri) != document_id(tenant + "x", uri)


@given(uri=texts, text=texts)
def test_a_chunk_keeps_its_id_where_its_text_stays_and_repetitions_differ(uri: str, text: str) -> None:
    document = document_id("t", uri)
    assert chunk_id(document, text, 0) == chunk_id(document, text, 0)
    assert len({chunk_id(document, text, 0), chunk_id(document, text, 1), chunk_id(document, text + "x", 0)}) == 3


@given(st.integers(1, 9))
def test_every_shard_gets_documents(num_shards: int) -> None:
    shards = [shard_of(document_id("t", f"page-{number}"), num_shards) for number in range(500)]
    assert set(shards) == set(range(num_shards))
    assert max(shards.count(shard) for shard in range(num_shards)) < 2.0 * 500 / num_shards
