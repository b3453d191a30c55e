"""One holder at a time, on one machine."""

import threading
from pathlib import Path

import pytest

from rag.errors import RagError
from rag.index.locks import holding


def test_who_comes_second_is_refused_in_words(tmp_path: Path) -> None:
    lock = tmp_path / "locks" / "one"
    with holding(lock), pytest.raises(RagError, match="somebody is at it"), holding(lock, "somebody is at it"):
        pass
    with holding(lock, "somebody is at it"):
        pass


def test_who_has_nothing_to_say_waits(tmp_path: Path) -> None:
    lock, order = tmp_path / "one", ["first"]

    def come_second() -> None:
        with holding(lock):
            order.append("second")

    with holding(lock):
        thread = threading.Thread(target=come_second)
        thread.start()
        thread.join(0.05)
        order.append("first, still")
    thread.join()
    assert order == ["first", "first, still", "second"]
