"""Files of the index, read by several threads."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag.errors import IndexDamaged
from rag.index.files import mapped_array


def test_threads_take_turns_to_parse_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, stored = tmp_path / "vectors.npy", np.arange(12, dtype=np.float16).reshape(3, 4)
    np.save(path, stored)
    load, reading, alone = np.load, threading.Lock(), []

    def watched(*args: Any, **options: Any) -> Any:
        alone.append(reading.acquire(blocking=False))
        try:
            time.sleep(0.005)
            return load(*args, **options)
        finally:
            if alone[-1]:
                reading.release()

    monkeypatch.setattr(np, "load", watched)
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: mapped_array(path), range(12)))
    assert all(np.array_equal(array, stored) for array in opened)
    assert alone == [True] * 12


def test_a_file_that_holds_no_array_is_named(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npy"
    path.write_bytes(b"not an array")
    with pytest.raises(IndexDamaged, match=r"vectors\.npy"):
        mapped_array(path)
