"""What counts as an answer from two versions, and what the second version holds."""

from bench.load import Ask, FoundPassage, Outcome
from bench.switching import MARK, Round, is_mixed, second_edition, summarize
from tests.rag.index.factories import make_chunk

CHUNKS = {"v1": frozenset({"a", "b"}), "v2": frozenset({"c", "d"})}


def make_outcome(version: str, *chunk_ids: str, status: int = 200, partial: tuple[str, ...] = ()) -> Outcome:
    passages = tuple(FoundPassage(name, "document", "uri", "text") for name in chunk_ids)
    return Outcome(
        Ask("x", "ann"), status, 0.0, 1_000.0, passages=passages, partial=partial, version=version, error="gone"
    )


def test_an_answer_is_mixed_where_a_chunk_is_of_the_other_version() -> None:
    assert not is_mixed(make_outcome("v1", "a", "b"), CHUNKS)
    assert is_mixed(make_outcome("v1", "a", "c"), CHUNKS)
    assert is_mixed(make_outcome("v2", "a"), CHUNKS)


def test_the_second_edition_has_the_same_documents_under_other_chunk_ids() -> None:
    first = [make_chunk(text="alpha"), make_chunk(text="beta", ordinal=1)]
    second = second_edition(first)
    assert [chunk.document_id for chunk in second] == [chunk.document_id for chunk in first]
    assert [chunk.text for chunk in second] == [f"alpha{MARK}", f"beta{MARK}"]
    assert not {chunk.id for chunk in first} & {chunk.id for chunk in second}


def test_failed_and_partial_answers_count_as_failed() -> None:
    outcomes = (make_outcome("v1", "a"), make_outcome("", status=503), make_outcome("v2", "c", partial=("shard 1",)))
    figures = summarize([Round(outcomes, 3)], CHUNKS)
    assert (figures["answers"], figures["failed"], figures["mixed"], figures["switches"]) == (3, 2, 0, 3)
    assert figures["versions_seen"] == 1
