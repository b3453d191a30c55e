"""An encoder in torch: on a GPU, and on a CPU for what can't run in 8 bits."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
from transformers import AutoModel

from rag.embed.bert_int8 import Floats
from rag.embed.forward import length_batches, quiet_loading
from rag.embed.torch_forward import padded, use_threads
from rag.errors import ModelError


class TorchEncoder:
    """States of rows of token ids, from padded batches of similar length; equal up to float noise in any company."""

    def __init__(
        self,
        directory: Path,
        head: Literal["mean", "cls", "states"],
        device: str,
        num_threads: int,
        batch_tokens: int,
    ) -> None:
        use_threads(num_threads)
        try:
            with quiet_loading():
                # float32 also where bfloat16 would run: queries and passages are embedded on different machines, and
                # the scores of a shard must compare with those of another.
                model = AutoModel.from_pretrained(directory, local_files_only=True, dtype=torch.float32)
        except (OSError, ValueError) as error:
            raise ModelError(f"{directory} holds no encoder that transformers can load: {error}") from error
        self.dim = int(model.config.hidden_size)
        self.max_positions: int | None = getattr(model.config, "max_position_embeddings", None)
        self._model = model.eval().to(device)
        self._head, self._device, self._batch_tokens = head, device, batch_tokens

    def run(self, rows: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None) -> list[Floats]:
        """The mean or the first of the states of each row's tokens, (dim,), or all of them, (tokens, dim)."""
        found: dict[int, Floats] = {}
        for places, states, mask in self._batches(rows, types):
            if self._head == "mean":
                weights = mask.unsqueeze(-1).to(states.dtype)
                states = (states * weights).sum(dim=1) / weights.sum(dim=1)
            elif self._head == "cls":
                states = states[:, 0]
            for place, of_row in zip(places, states.cpu().numpy(), strict=True):
                found[place] = of_row[: len(rows[place])] if self._head == "states" else of_row
        return [found[place] for place in range(len(rows))]

    def _batches(
        self, rows: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None
    ) -> Iterator[tuple[list[int], torch.Tensor, torch.Tensor]]:
        """The places of each batch, its states (n, longest, dim) and its mask (n, longest)."""
        for places in length_batches([len(row) for row in rows], self._batch_tokens):
            ids = padded([rows[place] for place in places], self._model.config.pad_token_id or 0).to(self._device)
            mask = padded([[1] * len(rows[place]) for place in places], 0).to(self._device)
            kinds = {} if types is None else {"token_type_ids": padded([types[p] for p in places], 0).to(self._device)}
            with torch.inference_mode():
                yield places, self._model(input_ids=ids, attention_mask=mask, **kinds).last_hidden_state, mask
