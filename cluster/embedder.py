"""The query encoder's deployment."""

import asyncio
import time
from pathlib import Path
from typing import cast

import numpy as np
from ray import serve

from cluster.memory import freeze_loaded
from rag.config import EmbedConfig, load_config
from rag.data import Vector
from rag.errors import ModelError
from rag.index.manifest import with_encoder_of
from rag.index.store import open_store
from rag.parts import build_embedder
from rag.pipeline import Timed
from rag.protocols import Embedder

MAX_OPEN_ENCODERS = 2  # the live version's and the one's before it: requests that pinned that are still under way


class EmbedderDeployment:
    """Encodes questions, several at a time; the encoding is `rag.embed`.

    Every version is asked with the encoder that made it. The one of the live version is loaded at once, another when a
    version with it is about to go live.
    """

    def __init__(self, config_path: Path) -> None:
        self._config = config = load_config(config_path)
        store = open_store(config)
        live = store.current_or_none()
        own = with_encoder_of(config, store.manifest(live)) if live else config
        self._embedders: dict[EmbedConfig, Embedder] = {}  # oldest first
        self._opening = asyncio.Lock()
        self._embedders[own.embed] = self._load(own.embed)
        freeze_loaded()

    async def open_encoder(self, embed: EmbedConfig) -> int:
        """Loads the encoder beside those already open; its dimension. Raises ModelError."""
        return (await self._opened(embed)).dim

    def open_encoders(self) -> list[EmbedConfig]:
        """The encoders that are loaded, oldest first."""
        return list(self._embedders)

    async def encode(self, text: str, embed: EmbedConfig) -> Timed[Vector]:
        """The question's vector by this encoder."""
        return cast("Timed[Vector]", await self._encode_batch((text, embed)))

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.0)  # type: ignore[untyped-decorator]  # Ray is untyped
    async def _encode_batch(self, asked: list[tuple[str, EmbedConfig]]) -> list[Timed[Vector]]:
        return await self.encode_all(asked)

    async def encode_all(self, asked: list[tuple[str, EmbedConfig]]) -> list[Timed[Vector]]:
        """The vector of each question by its encoder, in order."""
        vectors: list[Timed[Vector]] = [Timed(np.empty(0, np.float32), 0.0)] * len(asked)
        for embed in dict.fromkeys(embed for _, embed in asked):
            embedder = await self._opened(embed)
            places = [place for place, (_, wanted) in enumerate(asked) if wanted == embed]
            started = time.perf_counter()
            found = await asyncio.to_thread(embedder.embed_queries, [asked[place][0] for place in places])
            compute_ms = (time.perf_counter() - started) * 1e3
            for place, vector in zip(places, found, strict=True):
                vectors[place] = Timed(vector, compute_ms)
        return vectors

    async def _opened(self, embed: EmbedConfig) -> Embedder:
        if embed not in self._embedders:
            async with self._opening:
                if embed not in self._embedders:
                    embedder = await asyncio.to_thread(self._load, embed)
                    while len(self._embedders) >= MAX_OPEN_ENCODERS:
                        self._embedders.pop(next(iter(self._embedders)))
                    self._embedders[embed] = embedder
        return self._embedders[embed]

    def _load(self, embed: EmbedConfig) -> Embedder:
        embedder = build_embedder(self._config.model_copy(update={"embed": embed}))
        embedder.embed_queries(["warm up"])
        return embedder

    def check_health(self) -> None:
        """Encodes for real: a replica whose model broke is replaced."""
        vector = next(reversed(self._embedders.values())).embed_queries(["health"])[0]
        if not np.isclose(float(vector @ vector), 1.0, atol=1e-3):
            raise ModelError(
                f"the encoder returned a vector of squared length {float(vector @ vector):.3f}, expected 1"
            )
