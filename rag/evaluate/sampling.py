"""A part of a list that is the same at every call."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def sample(items: Sequence[T], limit: int | None, seed: int = 0) -> list[T]:
    """At most `limit` of the items in their order, the same ones at every call; all of them without a limit."""
    if limit is None or len(items) <= limit:
        return list(items)
    return [items[place] for place in sorted(random.Random(seed).sample(range(len(items)), limit))]
