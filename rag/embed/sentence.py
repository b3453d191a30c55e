"""A sentence encoder: one forward pass of a BERT-like model, pooled to one unit vector a text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from rag.config import EmbedConfig
from rag.data import Vectors
from rag.embed.forward import open_encoder
from rag.embed.tokenizer import WindowTokenizer
from rag.errors import ModelError


class SentenceEncoder:
    """Embeds texts with the encoder in a directory, as sentence-transformers would.

    On a CPU a BERT runs in 8 bits (`rag.embed.bert_int8`), anything else and everything on a GPU in torch.
    `num_truncated` counts the texts that were cut at the window since the encoder was built. Only the tokens up to the
    window shape the vector.
    """

    def __init__(self, model_directory: Path, config: EmbedConfig) -> None:
        self._config = config
        self._model, self._engine = open_encoder(model_directory, pooling_of(model_directory), config)
        self._tokenizer = WindowTokenizer(model_directory, config.max_tokens, self._model.max_positions)

    def __repr__(self) -> str:
        return f"SentenceEncoder(dim={self.dim}, max_tokens={self._tokenizer.max_tokens}, engine={self._engine})"

    @property
    def num_truncated(self) -> int:
        return self._tokenizer.num_truncated

    @property
    def dim(self) -> int:
        return self._model.dim

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dim), row i for texts[i]; in torch equal up to float noise however the texts are batched."""
        return self._encode(self._tokenizer.rows([self._config.passage_prefix + text for text in texts]))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dim), row i for texts[i]; bit-identical whichever other texts come along.

        Each distinct query is a forward pass of its own: matrix kernels sum in another order for another batch size,
        even at equal lengths, and a trace must replay to the same vector.
        """
        rows = self._tokenizer.rows([self._config.query_prefix + text for text in texts])
        distinct = {tuple(row): self._encode([row])[0] for row in rows}
        return np.stack([distinct[tuple(row)] for row in rows]) if rows else self._encode([])

    def _encode(self, rows: list[list[int]]) -> Vectors:
        if not rows:
            return np.empty((0, self.dim), dtype=np.float32)
        vectors: Vectors = np.stack(self._model.run(rows))
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        if not np.isfinite(vectors).all():
            raise ModelError(f"the encoder gave a vector that is not finite for one of {len(rows)} texts")
        return vectors


class _Module(BaseModel):
    type: str


class _PoolingConfig(BaseModel):
    """`1_Pooling/config.json`: one name, or one flag a mode in files older than sentence-transformers 5."""

    pooling_mode: str = ""
    pooling_mode_mean_tokens: bool = False
    pooling_mode_cls_token: bool = False
    pooling_mode_max_tokens: bool = False
    pooling_mode_mean_sqrt_len_tokens: bool = False
    pooling_mode_weightedmean_tokens: bool = False
    pooling_mode_lasttoken: bool = False

    @property
    def mode(self) -> str:
        flags = [name.split("_")[2] for name, value in self if value and name != "pooling_mode"]
        return self.pooling_mode or "+".join(flags)


def pooling_of(directory: Path) -> Literal["mean", "cls"]:
    """How token states become one vector: "mean" or "cls"; mean where the directory does not say."""
    modules, pooling = directory / "modules.json", directory / "1_Pooling" / "config.json"
    try:
        if modules.is_file():
            kinds = [part.type.rsplit(".", 1)[-1] for part in _MODULES.validate_json(modules.read_bytes())]
            if set(kinds) - {"Transformer", "Pooling", "Normalize"}:
                raise ModelError(f"{directory} chains {kinds}; only Transformer, Pooling and Normalize are known")
        mode = _PoolingConfig.model_validate_json(pooling.read_bytes()).mode if pooling.is_file() else "mean"
    except ValidationError as error:
        raise ModelError(f"{directory}: {modules.name} or {pooling.name} is not readable: {error}") from error
    match mode:
        case "mean" | "cls":
            return mode
        case _:
            raise ModelError(f"{directory} pools by {mode!r}; expected mean or cls")


_MODULES = TypeAdapter(list[_Module])
