"""A shard's deployment: one disjoint part of the corpus, in up to two versions."""

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from rag.config import load_config
from rag.data import Chunk, EncodedQuery, ShardCandidates
from rag.ids import ChunkId, VersionId
from rag.index.shard import LocalShard, open_shard
from rag.index.versions import IndexStore
from rag.pipeline import Timed

logger = logging.getLogger(__name__)

MAX_OPEN_VERSIONS = 2  # the live one and the one before it: requests that pinned it are still under way


class ShardDeployment:
    """Answers queries over one shard; the searching is `rag.index.shard`."""

    def __init__(self, config_path: Path, shard: int) -> None:
        self._config, self._shard = load_config(config_path), shard
        self._open: dict[VersionId, LocalShard] = {}  # oldest use first
        self._opening = asyncio.Lock()
        version = IndexStore(self._config.index_root).current()
        self._open[version] = open_shard(self._config.index_root, version, shard, self._config)

    async def open_version(self, version: VersionId) -> int:
        """Loads the version beside those already open; the number of its chunks here."""
        return (await self._opened(version)).num_chunks

    async def search(self, query: EncodedQuery, k_dense: int, k_bm25: int) -> ShardCandidates:
        shard = await self._opened(query.version)
        return await asyncio.to_thread(shard.search, query, k_dense, k_bm25)

    async def fetch(self, query: EncodedQuery, chunk_ids: Sequence[ChunkId], neighbours: int) -> Timed[list[Chunk]]:
        shard = await self._opened(query.version)
        started = time.perf_counter()
        chunks = await asyncio.to_thread(shard.fetch, query, chunk_ids, neighbours)
        return Timed(chunks, (time.perf_counter() - started) * 1e3)

    async def check_health(self) -> None:
        """Searches for real: a replica that cannot find one of its own chunks is replaced."""
        shard = next(reversed(self._open.values()))
        await asyncio.to_thread(shard.probe)

    async def _opened(self, version: VersionId) -> LocalShard:
        if version in self._open:
            return self._open[version]
        async with self._opening:
            if version not in self._open:
                started = time.perf_counter()
                shard = await asyncio.to_thread(open_shard, self._config.index_root, version, self._shard, self._config)
                while len(self._open) >= MAX_OPEN_VERSIONS:
                    self._open.pop(next(iter(self._open)))
                self._open[version] = shard
                logger.info(
                    "shard %d opened %s: %d chunks in %.2f s",
                    self._shard,
                    version,
                    shard.num_chunks,
                    time.perf_counter() - started,
                )
        return self._open[version]
