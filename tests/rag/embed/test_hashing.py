import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.embed.hashing import HashingEmbedder

PASSAGES = [
    "Employees receive twenty days of annual leave each year.",
    "Invoices are paid within thirty days of receipt.",
    "The backup job of the database runs every night at two.",
    "Visitors must sign in at the reception desk.",
]


@given(texts=st.lists(st.text(max_size=40), max_size=8))
def test_every_text_gets_a_unit_vector(texts: list[str]) -> None:
    vectors = HashingEmbedder(dim=64).embed_passages(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(texts), 64)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=6))
def test_a_row_does_not_depend_on_the_other_texts(texts: list[str]) -> None:
    embedder = HashingEmbedder(dim=64)
    together = embedder.embed_passages(texts)
    alone = np.concatenate([embedder.embed_queries([text]) for text in texts])
    assert np.array_equal(together, alone)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How many days of annual leave do employees get?", 0),
        ("When is an invoice paid?", 1),
        ("At what time does the database backup run?", 2),
        ("Where do visitors sign in?", 3),
    ],
)
def test_a_question_is_closest_to_the_passage_that_shares_its_words(question: str, expected: int) -> None:
    embedder = HashingEmbedder()
    similarities = embedder.embed_passages(PASSAGES) @ embedder.embed_queries([question])[0]
    assert int(similarities.argmax()) == expected


def test_another_process_gets_the_same_bytes() -> None:
    code = "import sys; from rag.embed.hashing import HashingEmbedder as E; "
    code += "sys.stdout.buffer.write(E().embed_passages(['annual leave']).tobytes())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert other == HashingEmbedder().embed_passages(["annual leave"]).tobytes()


def test_too_few_buckets_are_refused() -> None:
    with pytest.raises(ValueError, match="dim is 8"):
        HashingEmbedder(dim=8)
