"""Near duplicates among ranked chunks."""

from datetime import UTC, datetime

import pytest

from rag.assemble.dedupe import jaccard, without_near_duplicates
from rag.data import Chunk
from tests.rag.generate.make import make_chunk

FEE = "Employees who park in the covered zone near the main building pay a monthly parking fee of 12 CHF"
FEE_AGAIN = "Employees who park in the covered zone near the main building pay the monthly parking fee of 12 CHF."
OLD, NEW = datetime(2023, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)


def kept(*chunks: Chunk, max_similarity: float = 0.85) -> list[str]:
    ranked = [(chunk, 1.0 - place / 10) for place, chunk in enumerate(chunks)]
    return [chunk.id for chunk, _ in without_near_duplicates(ranked, max_similarity)]


def test_the_better_of_two_near_duplicates_stays() -> None:
    assert kept(make_chunk(FEE, "a"), make_chunk("Lunch is free.", "b"), make_chunk(FEE_AGAIN, "c")) == ["a", "b"]


def test_less_overlap_than_the_limit_is_no_duplicate() -> None:
    assert kept(make_chunk(FEE, "a"), make_chunk(FEE_AGAIN, "b"), max_similarity=1.0) == ["a", "b"]


def test_sources_of_different_dates_are_both_shown() -> None:
    chunks = make_chunk(FEE, "a", updated_at=OLD), make_chunk(FEE, "b", document="d2", updated_at=NEW)
    assert kept(*chunks) == ["a", "b"]


def test_a_different_number_is_not_a_duplicate() -> None:
    assert kept(make_chunk(FEE, "a"), make_chunk(FEE.replace("12", "15"), "b")) == ["a", "b"]


def test_one_chunk_listed_twice_is_kept_once() -> None:
    assert kept(make_chunk("Short.", "a"), make_chunk("Short.", "a")) == ["a"]


@pytest.mark.parametrize(
    ("a", "b", "similarity"), [({"x", "y"}, {"y", "z"}, 1 / 3), ({"x"}, {"x"}, 1.0), (set(), {"x"}, 0.0)]
)
def test_jaccard_of_worked_examples(a: set[str], b: set[str], similarity: float) -> None:
    assert jaccard(a, b) == similarity


def test_two_empty_sets_are_equal() -> None:
    assert jaccard(set(), set()) == 1.0
