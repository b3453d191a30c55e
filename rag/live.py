"""Following the live version: everything of a new one is loaded before the first question is pinned to it.

The gateway follows CURRENT with this, its parts far away; `LocalVersions` are the parts of one process.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rag.config import EmbedConfig, RagConfig
from rag.errors import RagError
from rag.ids import VersionId
from rag.index.manifest import check_compatible, with_encoder_of
from rag.index.shard import LocalShard
from rag.index.store import IndexStore, open_store
from rag.local import LocalStages, open_shards
from rag.parts import build_embedder, build_generator, build_reader, build_reranker
from rag.pipeline import Pipeline
from rag.protocols import Embedder

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 1.0
MAX_OPEN_VERSIONS = 2  # the live one and the one before it: questions that pinned it are still under way

Prepare = Callable[[RagConfig, VersionId], Awaitable[None]]
PipelineOf = Callable[[RagConfig, VersionId], Pipeline]


@dataclass(frozen=True, slots=True)
class Serving:
    """A version with the pipeline over it: who took it keeps both to the end of the question."""

    version: VersionId
    pipeline: Pipeline


class VersionFollower:
    """Knows what new questions are answered from.

    `prepare` loads all that a version needs, `pipeline_of` puts a pipeline over it; both get the configuration with the
    version's own encoder.
    """

    def __init__(self, config: RagConfig, prepare: Prepare, pipeline_of: PipelineOf) -> None:
        """Raises NotFound where nothing is live, IndexMismatch for a live version of other settings."""
        self._config, self._prepare, self._pipeline_of = config, prepare, pipeline_of
        self._store: IndexStore = open_store(config)
        version = self._store.current()
        self._serving = Serving(version, pipeline_of(self._config_of(version), version))

    def serving(self) -> Serving:
        """What new questions are answered from."""
        return self._serving

    async def follow(self, interval_s: float = POLL_INTERVAL_S) -> None:
        """Never returns; a version that can't be loaded is logged, and the one before it stays."""
        said = ""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.catch_up()
                said = ""
            except RagError as error:
                if str(error) != said:  # once, not every second until somebody repairs it
                    said = str(error)
                    logger.error("staying on %s: %s", self._serving.version, said)

    async def catch_up(self) -> None:
        """Switches to the live version, if it is another one. Raises what loading it raises."""
        version = await asyncio.to_thread(self._store.current)
        if version == self._serving.version:
            return
        config = await asyncio.to_thread(self._config_of, version)
        await self._prepare(config, version)
        pipeline = await asyncio.to_thread(self._pipeline_of, config, version)
        logger.info("switched from %s to %s", self._serving.version, version)
        self._serving = Serving(version, pipeline)

    def _config_of(self, version: VersionId) -> RagConfig:
        """The configuration with the version's encoder. Raises IndexMismatch where anything else differs."""
        manifest = self._store.manifest(version)
        config = with_encoder_of(self._config, manifest)
        check_compatible(manifest, config)
        return config


class LocalVersions:
    """The parts of one process, for up to two versions at once."""

    def __init__(self, config: RagConfig) -> None:
        self._reranker, self._generator = build_reranker(config), build_generator(config)
        self._reader = build_reader(config)
        self._embedders: dict[EmbedConfig, Embedder] = {}
        self._shards: dict[VersionId, list[LocalShard]] = {}  # oldest first

    async def prepare(self, config: RagConfig, version: VersionId) -> None:
        """Opens the version's shards and loads its encoder, where they are not open yet."""
        await asyncio.to_thread(self._open, config, version)

    def pipeline_of(self, config: RagConfig, version: VersionId) -> Pipeline:
        """A pipeline over the version."""
        self._open(config, version)
        parts = (self._embedders[config.embed], self._reranker, self._generator, self._reader)
        return Pipeline(config, LocalStages(config, version, self._shards[version], *parts))

    def _open(self, config: RagConfig, version: VersionId) -> None:
        if config.embed not in self._embedders:
            self._embedders[config.embed] = build_embedder(config)
        if version not in self._shards:
            shards = open_shards(config, version)
            while len(self._shards) >= MAX_OPEN_VERSIONS:
                self._shards.pop(next(iter(self._shards)))
            self._shards[version] = shards
