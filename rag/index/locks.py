"""Locks between the processes of one machine."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag.errors import RagError


@contextmanager
def holding(lock: Path, refusal: str = "") -> Iterator[None]:
    """Holds the lock, which ends with the process, however it ends.

    Who comes second waits, or gets a RagError that says the refusal, where there is one.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
        except BlockingIOError as error:
            raise RagError(refusal) from error
        yield
