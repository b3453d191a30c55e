"""Loops over arrays as machine code, where numpy has no fast way to say them."""

from collections.abc import Callable, Collection
from typing import TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(fastmath: Collection[str] = ()) -> Callable[[F], F]:
    """Compiles a function at its first call, without the GIL while it runs.

    Compiled code is kept beside the source or in the user's cache, so that only the first process waits for it; where
    neither can be written, every process does. `fastmath` are the liberties with floats that LLVM may take.
    """

    def decorate(function: F) -> F:
        options = {"nogil": True, "fastmath": set(fastmath)}
        try:
            kept: F = numba.njit(cache=True, **options)(function)
            return kept
        except RuntimeError:  # numba finds no folder that it may write to
            fresh: F = numba.njit(**options)(function)
            return fresh

    return decorate
