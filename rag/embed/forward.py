"""What every model that reads text shares: where it runs, and how rows of token ids become batches."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

from rag.config import EmbedConfig, RerankConfig
from rag.embed.bert_int8 import Floats, Int8Bert, can_run_in_int8

_GPU_DEVICES = ("nvidiactl", "dxg", "kfd")  # of the drivers of NVIDIA, of Windows below Linux, of AMD


def pick_device(device: str) -> str:
    """The device of that name; `auto` is the GPU where there is one, else the CPU."""
    if device != "auto":
        return device
    if sys.platform == "linux" and not any(Path("/dev", name).exists() for name in _GPU_DEVICES):
        return "cpu"  # without the seconds that torch takes to say so
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def pick_engine(engine: Literal["auto", "torch", "int8"], device: str, directory: Path) -> str:
    """`torch` or `int8`; `auto` takes 8 bits on a CPU, for models that can run in them."""
    if engine == "auto":
        return "int8" if device == "cpu" and can_run_in_int8(directory) else "torch"
    return engine


class EncoderPass(Protocol):
    """A forward pass of an encoder."""

    dim: int
    max_positions: int | None  # None: as many as one likes

    def run(self, rows: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None) -> list[Floats]:
        """The mean or the first of the states of each row's tokens, (dim,), or all of them, (tokens, dim).

        `types` tells the two texts of a pair apart, token by token; 0 where not given.
        """
        ...


def open_encoder(
    directory: Path, head: Literal["mean", "cls", "states"], config: EmbedConfig | RerankConfig
) -> tuple[EncoderPass, str]:
    """The encoder in the directory and the name of its engine. Raises ModelError for one that can't be loaded."""
    device = pick_device(config.device)
    engine = pick_engine(config.engine, device, directory)
    if engine == "int8":
        return Int8Bert(directory, head, config.num_threads), engine
    from rag.embed.torch_encoder import TorchEncoder

    return TorchEncoder(directory, head, device, config.num_threads, config.batch_tokens), engine


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
