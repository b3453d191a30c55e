"""Office files in memory, as their programs would save them."""

import io
from typing import Any, Protocol


class Savable(Protocol):
    def save(self, target: Any) -> None: ...  # Any: each library has its own type for a file


def saved(made: Savable) -> bytes:
    """The file's bytes."""
    target = io.BytesIO()
    made.save(target)
    return target.getvalue()
