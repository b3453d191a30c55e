"""A shard's deployment: one disjoint part of the corpus, in up to two versions."""

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from cluster.memory import freeze_loaded
from rag.config import load_config
from rag.data import Chunk, EncodedQuery, ShardCandidates
from rag.errors import RagError
from rag.ids import ChunkId, VersionId
from rag.index.manifest import with_encoder_of
from rag.index.reclaim import RENEW_S, renew_lease
from rag.index.shard import LocalShard, open_shard
from rag.index.store import open_store
from rag.pipeline import Timed

logger = logging.getLogger(__name__)

MAX_OPEN_VERSIONS = 2  # the live one and the one before it: requests that pinned it are still under way


class ShardDeployment:
    """Answers queries over one shard; the searching is `rag.index.shard`, which also takes out what is revoked."""

    def __init__(self, config_path: Path, shard: int) -> None:
        self._config, self._shard = load_config(config_path), shard
        self._store = open_store(self._config)
        self._open: dict[VersionId, LocalShard] = {}  # oldest use first
        self._opening = asyncio.Lock()
        self._holder = f"shard-{shard}-{uuid4().hex}"
        version = self._store.current()
        renew_lease(self._store, self._holder, [version])
        self._open[version] = self._load(version)
        self._leasing = asyncio.get_running_loop().create_task(self._renew_leases())

    async def open_version(self, version: VersionId) -> int:
        """Loads the version beside those already open; the number of its chunks here."""
        return (await self._opened(version)).num_chunks

    async def search(self, query: EncodedQuery, k_dense: int, k_bm25: int, k_read: int) -> ShardCandidates:
        shard = await self._opened(query.version)
        return await asyncio.to_thread(shard.search, query, k_dense, k_bm25, k_read)

    async def fetch(self, query: EncodedQuery, chunk_ids: Sequence[ChunkId], neighbours: int) -> Timed[list[Chunk]]:
        shard = await self._opened(query.version)
        started = time.perf_counter()
        chunks = await asyncio.to_thread(shard.fetch, query, chunk_ids, neighbours)
        return Timed(chunks, (time.perf_counter() - started) * 1e3)

    async def _renew_leases(self) -> None:
        """Keeps the open versions from being reclaimed. Never returns."""
        while True:
            try:
                await asyncio.to_thread(renew_lease, self._store, self._holder, list(self._open))
            except (RagError, OSError) as error:
                logger.error("shard %d can't renew its lease: %s", self._shard, error)
            await asyncio.sleep(RENEW_S)

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
                # Before loading, which may take longer than the grace that a version has without a lease.
                await asyncio.to_thread(renew_lease, self._store, self._holder, [*self._open, version])
                shard = await asyncio.to_thread(self._load, version)
                while len(self._open) >= MAX_OPEN_VERSIONS:
                    self._open.pop(next(iter(self._open)))
                self._open[version] = shard
                await asyncio.to_thread(renew_lease, self._store, self._holder, list(self._open))
                logger.info(
                    "shard %d opened %s: %d chunks in %.2f s",
                    self._shard,
                    version,
                    shard.num_chunks,
                    time.perf_counter() - started,
                )
        return self._open[version]

    def _load(self, version: VersionId) -> LocalShard:
        config = with_encoder_of(self._config, self._store.manifest(version))
        shard = open_shard(config.index_root, version, self._shard, config)
        freeze_loaded()
        return shard
