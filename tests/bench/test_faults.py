"""What counts as a wrong answer when a shard is gone, and when everything is whole again."""

import pytest

from bench.faults import kept_share, missing_shards, seconds_until_whole, wrong
from bench.load import Ask, FoundPassage, Outcome
from rag.ids import DocumentId, document_id, shard_of

ASK = Ask("x", "ann")
DOCUMENTS = [document_id("t", f"{number}.md") for number in range(40)]
IN_0 = [name for name in DOCUMENTS if shard_of(name, 2) == 0]
IN_1 = [name for name in DOCUMENTS if shard_of(name, 2) == 1]


def make_outcome(
    documents: list[DocumentId], partial: tuple[str, ...] = (), status: int = 200, due_s: float = 0.0
) -> Outcome:
    passages = tuple(FoundPassage(f"chunk-{name}", name, "uri", "text") for name in documents)
    return Outcome(ASK, status, due_s, 1_000.0, passages=passages, partial=partial)


MIXED = [IN_0[0], IN_1[0], IN_0[1], IN_1[1], IN_0[2]]


def test_a_whole_answer_must_have_the_undisturbed_passages() -> None:
    assert wrong(make_outcome(MIXED), make_outcome(MIXED), 2) == ""
    assert "whole" in wrong(make_outcome([*MIXED[:4], IN_0[5]]), make_outcome(MIXED), 2)


def test_a_silently_missing_shard_is_wrong() -> None:
    assert wrong(make_outcome(IN_0[:5]), make_outcome(MIXED), 2)


def test_a_partial_answer_may_differ_but_holds_nothing_new_of_the_missing_shard() -> None:
    assert wrong(make_outcome(IN_0[:5], partial=("shard 1",)), make_outcome(MIXED), 2) == ""
    # What the undisturbed run has too was found before the shard died.
    assert wrong(make_outcome(MIXED, partial=("shard 1",)), make_outcome(MIXED), 2) == ""
    assert "missing" in wrong(make_outcome(MIXED, partial=("shard 1",)), make_outcome(IN_0[:5]), 2)


def test_an_error_is_no_wrong_answer() -> None:
    assert wrong(make_outcome([], status=503), make_outcome(MIXED), 2) == ""


def test_missing_shards_are_read_from_the_words() -> None:
    assert missing_shards(("shard 1", "rerank", "shard 12")) == {1, 12}


def test_the_kept_share_counts_only_shards_that_answered() -> None:
    half = make_outcome([IN_0[0], IN_0[9]], partial=("shard 1",))
    assert kept_share(half, make_outcome(MIXED), 2) == pytest.approx(1 / 3)
    assert kept_share(half, make_outcome(IN_1[:5]), 2) is None


def test_it_is_whole_again_after_the_last_answer_with_trouble() -> None:
    outcomes = [
        make_outcome([], status=503, due_s=5.0),  # before the kill
        make_outcome(IN_0[:1], partial=("shard 1",), due_s=10.0),
        make_outcome(MIXED, due_s=20.0),
    ]
    assert seconds_until_whole(outcomes, killed_s=8.0) == pytest.approx(3.0)
    assert seconds_until_whole(outcomes, killed_s=12.0) == 0.0
