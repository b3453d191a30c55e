"""What models in torch share: their threads, and rows of token ids as one padded tensor."""

import os
from collections.abc import Sequence

import numpy as np
import torch


def use_threads(num_threads: int) -> None:
    """Let torch compute on so many CPU threads in this process; 0 takes every core that the process may use.

    Called when a model is built and never when a module is imported: a worker that vLLM spawns imports the main
    module again, and a thread count set there makes its generation about twenty times slower.
    """
    torch.set_num_threads(num_threads or len(os.sched_getaffinity(0)))


def padded(rows: Sequence[Sequence[int]], fill: int) -> torch.Tensor:
    """The rows as one int64 tensor (n, longest), filled up on the right."""
    longest = max(map(len, rows))
    values = np.full((len(rows), longest), fill, dtype=np.int64)
    for place, row in enumerate(rows):
        values[place, : len(row)] = row
    return torch.from_numpy(values)
