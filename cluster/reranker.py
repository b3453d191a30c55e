"""The reranker's deployment, which also reads passages for answers."""

import asyncio
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ray import serve

from cluster.memory import freeze_loaded
from rag.config import load_config
from rag.data import Reading, ReadSpan
from rag.errors import ModelError
from rag.parts import build_reader, build_reranker
from rag.pipeline import Timed

_HEALTHY = Reading("", "a healthy passage", ((0, 17),))


def _num_pairs(requests: list[tuple[str, tuple[str, ...]]]) -> int:
    return sum(len(passages) for _, passages in requests)


class RerankerDeployment:
    """Scores the candidates of questions, requests that wait together in one call, and reads the best of them."""

    def __init__(self, config_path: Path) -> None:
        config = load_config(config_path)
        self._reranker, self._reader = build_reranker(config), build_reader(config)
        self._reranker.score("warm up", ["a passage"])
        if self._reader is not None:
            self._reader.read("warm up", [_HEALTHY])
        freeze_loaded()

    async def score(self, query: str, passages: Sequence[str]) -> Timed[list[float]]:
        return cast("Timed[list[float]]", await self._score_batch((query, tuple(passages))))

    # Pairs, not requests, fill a batch: a request of 50 pairs costs 50 times one of a single pair.
    @serve.batch(  # type: ignore[untyped-decorator]  # Ray is untyped
        max_batch_size=200, batch_wait_timeout_s=0.0, batch_size_fn=_num_pairs
    )
    async def _score_batch(self, requests: list[tuple[str, tuple[str, ...]]]) -> list[Timed[list[float]]]:
        started = time.perf_counter()
        scores = await asyncio.to_thread(self._reranker.score_many, requests)
        compute_ms = (time.perf_counter() - started) * 1e3
        return [Timed(logits, compute_ms) for logits in scores]

    async def read(self, query: str, passages: Sequence[Reading]) -> Timed[list[list[ReadSpan]]]:
        started = time.perf_counter()
        if self._reader is None:
            raise ModelError("generate.reader names no model")
        spans = await asyncio.to_thread(self._reader.read, query, passages)
        return Timed(spans, (time.perf_counter() - started) * 1e3)

    def check_health(self) -> None:
        """Scores and reads for real: a replica whose model broke is replaced."""
        (logit,) = self._reranker.score("health", [_HEALTHY.text])
        if not math.isfinite(logit):
            raise ModelError(f"the reranker returned {logit}, expected a finite number")
        if self._reader is not None:
            ((span,),) = self._reader.read("health", [_HEALTHY])
            if not math.isfinite(span.score):
                raise ModelError(f"the reader returned {span.score}, expected a finite number")
