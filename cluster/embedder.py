"""The query encoder's deployment."""

import asyncio
import time
from pathlib import Path
from typing import cast

import numpy as np
from ray import serve

from rag.config import load_config
from rag.data import Vector
from rag.errors import ModelError
from rag.parts import build_embedder
from rag.pipeline import Timed


class EmbedderDeployment:
    """Encodes questions, several at a time; the encoding is `rag.embed`."""

    def __init__(self, config_path: Path) -> None:
        self._embedder = build_embedder(load_config(config_path))
        self._embedder.embed_queries(["warm up"])

    async def encode(self, text: str) -> Timed[Vector]:
        return cast("Timed[Vector]", await self._encode_batch(text))

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.0)  # type: ignore[untyped-decorator]  # Ray is untyped
    async def _encode_batch(self, texts: list[str]) -> list[Timed[Vector]]:
        started = time.perf_counter()
        vectors = await asyncio.to_thread(self._embedder.embed_queries, texts)
        compute_ms = (time.perf_counter() - started) * 1e3
        return [Timed(vector, compute_ms) for vector in vectors]

    def check_health(self) -> None:
        """Encodes for real: a replica whose model broke is replaced."""
        vector = self._embedder.embed_queries(["health"])[0]
        if not np.isclose(float(vector @ vector), 1.0, atol=1e-3):
            raise ModelError(
                f"the encoder returned a vector of squared length {float(vector @ vector):.3f}, expected 1"
            )
