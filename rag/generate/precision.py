"""The number format in which a language model runs best on this machine."""

from typing import Literal

import torch


def fast_dtype() -> Literal["bfloat16", "float32"]:
    """`bfloat16` where the hardware multiplies in it, else `float32`.

    A CPU without the instructions emulates them: reading a prompt took five times as long as in float32.
    """
    if torch.cuda.is_available() or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported():
        return "bfloat16"
    return "float32"
