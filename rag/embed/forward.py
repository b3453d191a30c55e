"""What the encoder and the cross-encoder share: where a model runs, and how token ids become padded batches."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from rag.embed.bert_int8 import can_run_in_int8


def use_threads(num_threads: int) -> None:
    """Let torch compute on so many CPU threads in this process; 0 takes every core that the process may use.

    Called when a model is built and never when a module is imported: a worker that vLLM spawns imports the main
    module again, and a thread count set there makes its generation about twenty times slower.
    """
    torch.set_num_threads(num_threads or len(os.sched_getaffinity(0)))


def pick_device(device: str) -> torch.device:
    """The device of that name; `auto` is the GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def pick_engine(engine: Literal["auto", "torch", "int8"], device: torch.device, directory: Path) -> str:
    """`torch` or `int8`; `auto` takes 8 bits on a CPU, for models that can run in them."""
    if engine == "auto":
        return "int8" if device.type == "cpu" and can_run_in_int8(directory) else "torch"
    return engine


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Keep transformers' progress bars and loading reports out of the log."""
    from transformers.utils import logging

    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()


def length_batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """The places of the texts in batches of similar length, longest first, each place once.

    A batch is padded to its longest text and holds at most `batch_tokens` tokens with the padding; a text that is
    longer than that is a batch of its own.
    """
    longest_first = sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))
    start = 0
    while start < len(longest_first):
        size = max(1, batch_tokens // max(1, lengths[longest_first[start]]))
        yield longest_first[start : start + size]
        start += size


def padded(rows: Sequence[Sequence[int]], fill: int) -> torch.Tensor:
    """The rows as one int64 tensor (n, longest), filled up on the right."""
    longest = max(map(len, rows))
    values = np.full((len(rows), longest), fill, dtype=np.int64)
    for place, row in enumerate(rows):
        values[place, : len(row)] = row
    return torch.from_numpy(values)
