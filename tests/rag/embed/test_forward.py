import torch
from hypothesis import given
from hypothesis import strategies as st

from rag.embed.forward import length_batches
from rag.embed.torch_forward import padded

lengths_of_texts = st.lists(st.integers(0, 300), max_size=60)


@given(lengths=lengths_of_texts, batch_tokens=st.integers(1, 500))
def test_batches_hold_every_place_once(lengths: list[int], batch_tokens: int) -> None:
    places = [place for batch in length_batches(lengths, batch_tokens) for place in batch]
    assert sorted(places) == list(range(len(lengths)))


@given(lengths=lengths_of_texts, batch_tokens=st.integers(1, 500))
def test_a_batch_of_several_texts_keeps_within_its_padded_tokens(lengths: list[int], batch_tokens: int) -> None:
    for batch in length_batches(lengths, batch_tokens):
        assert len(batch) == 1 or max(1, *(lengths[place] for place in batch)) * len(batch) <= batch_tokens


@given(lengths=lengths_of_texts, batch_tokens=st.integers(1, 500))
def test_batches_come_longest_first(lengths: list[int], batch_tokens: int) -> None:
    ordered = [lengths[place] for batch in length_batches(lengths, batch_tokens) for place in batch]
    assert ordered == sorted(lengths, reverse=True)


def test_rows_are_filled_up_on_the_right() -> None:
    assert torch.equal(padded([[7, 8, 9], [], [5]], fill=1), torch.tensor([[7, 8, 9], [1, 1, 1], [5, 1, 1]]))
