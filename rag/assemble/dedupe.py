"""Near duplicates among ranked chunks."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from rag.data import Chunk
from rag.rewrite.words import exact_terms, words


def without_near_duplicates(ranked: Sequence[tuple[Chunk, float]], max_similarity: float) -> list[tuple[Chunk, float]]:
    """The ranked chunks, best first, without those that say again what a better one says.

    A chunk says again what another says when their sets of words overlap (Jaccard) more than `max_similarity` and it
    holds no number or identifier that the other lacks. Chunks of documents with different dates are both kept, so that
    a reader sees that sources disagree or have changed.
    """
    kept: list[tuple[Chunk, float]] = []
    kept_words: list[frozenset[str]] = []
    for chunk, score in ranked:
        word_set = frozenset(words(chunk.text))
        repeats = any(
            (chunk.id == better.id or jaccard(word_set, better_words) > max_similarity)
            and chunk.metadata.updated_at == better.metadata.updated_at
            and exact_terms(chunk.text) <= exact_terms(better.text)
            for (better, _), better_words in zip(kept, kept_words, strict=True)
        )
        if not repeats:
            kept.append((chunk, score))
            kept_words.append(word_set)
    return kept


def jaccard(a: AbstractSet[str], b: AbstractSet[str]) -> float:
    """The share of common words among all words of both sets; two empty sets are equal."""
    return len(a & b) / len(a | b) if a or b else 1.0
