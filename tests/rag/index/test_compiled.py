import numba
import numpy as np
import numpy.typing as npt
import pytest

from rag.index.compiled import compiled

VALUES: npt.NDArray[np.float64] = np.arange(5, dtype=np.float64)


def total(values: npt.NDArray[np.float64]) -> float:
    found = 0.0
    for value in values:
        found += value
    return found


def test_compiled_code_computes_what_the_source_says() -> None:
    assert compiled()(total)(VALUES) == 10.0


def test_where_code_can_be_kept_nowhere_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    njit = numba.njit

    def without_a_folder(*, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", without_a_folder)
    assert compiled(fastmath=("reassoc",))(total)(VALUES) == 10.0
