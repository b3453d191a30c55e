"""Whether a passage names what the question names: error codes, part numbers, versions."""

from collections.abc import Sequence

from rag.rewrite.words import identifiers, words


def identifier_shares(query: str, passages: Sequence[str]) -> list[float]:
    """For each passage, the share of the query's identifiers that it holds whole; zeros for a query without any."""
    wanted = identifiers(query)
    if not wanted:
        return [0.0] * len(passages)
    return [len(wanted & set(words(passage))) / len(wanted) for passage in passages]
