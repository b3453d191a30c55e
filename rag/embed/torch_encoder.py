"""An encoder in torch: on a GPU, and on a CPU for what can't run in 8 bits."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoModel

from rag.embed.forward import length_batches, padded, use_threads

Pooling: TypeAlias = Literal["mean", "cls"]
Floats: TypeAlias = npt.NDArray[np.float32]


class TorchEncoder:
    """States of rows of token ids, from padded batches of similar length; equal up to float noise in any company."""

    def __init__(self, directory: Path, device: torch.device, num_threads: int, batch_tokens: int) -> None:
        use_threads(num_threads)
        # float32 also where bfloat16 would run: queries and passages are embedded on different machines, and the scores
        # of a shard must compare with those of another.
        model = AutoModel.from_pretrained(directory, local_files_only=True, dtype=torch.float32)
        self._model = model.eval().to(device)
        self._device, self._batch_tokens = device, batch_tokens

    def pooled(self, rows: Sequence[Sequence[int]], pooling: Pooling) -> Floats:
        """The mean of each row's states, or the first of them, (n, dim)."""
        vectors = np.empty((len(rows), self._model.config.hidden_size), dtype=np.float32)
        for places, states, mask in self._batches(rows):
            if pooling == "cls":
                pooled = states[:, 0]
            else:
                weights = mask.unsqueeze(-1).to(states.dtype)
                pooled = (states * weights).sum(dim=1) / weights.sum(dim=1)
            vectors[places] = pooled.cpu().numpy()
        return vectors

    def states(self, rows: Sequence[Sequence[int]]) -> list[Floats]:
        """The states of each row's tokens, (tokens, dim) each."""
        found: dict[int, Floats] = {}
        for places, states, _ in self._batches(rows):
            for place, padded_states in zip(places, states.cpu().numpy(), strict=True):
                found[place] = padded_states[: len(rows[place])]
        return [found[place] for place in range(len(rows))]

    def _batches(self, rows: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], torch.Tensor, torch.Tensor]]:
        """The places of each batch, its states (n, longest, dim) and its mask (n, longest)."""
        for places in length_batches([len(row) for row in rows], self._batch_tokens):
            ids = padded([rows[place] for place in places], self._model.config.pad_token_id or 0).to(self._device)
            mask = padded([[1] * len(rows[place]) for place in places], 0).to(self._device)
            with torch.inference_mode():
                yield places, self._model(input_ids=ids, attention_mask=mask).last_hidden_state, mask
