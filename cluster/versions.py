"""Which index version new questions are pinned to."""

import asyncio
import logging
from collections.abc import Sequence

from ray.serve.handle import DeploymentHandle

from cluster.deadlines import call
from rag.config import RagConfig
from rag.errors import RagError
from rag.ids import VersionId
from rag.index.manifest import check_compatible
from rag.index.versions import IndexStore

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 1.0
OPEN_DEADLINE_S = 120.0


class VersionWatcher:
    """Follows CURRENT: a new version is loaded by every shard before the first question is pinned to it."""

    def __init__(self, config: RagConfig, shards: Sequence[DeploymentHandle]) -> None:
        self._config, self._shards = config, shards
        self._store = IndexStore(config.index_root)
        self._current = self._store.current()
        check_compatible(self._store.manifest(self._current), config)

    def current(self) -> VersionId:
        return self._current

    async def follow(self) -> None:
        """Never returns; a version that can't be loaded is logged, and the one before it stays."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            try:
                version = await asyncio.to_thread(self._store.current)
                if version != self._current:
                    await self._switch(version)
            except RagError as error:
                logger.error("staying on %s: %s", self._current, error)

    async def _switch(self, version: VersionId) -> None:
        check_compatible(await asyncio.to_thread(self._store.manifest, version), self._config)
        await asyncio.gather(
            *(
                call(shard.open_version, version, stage="open_version", deadline_s=OPEN_DEADLINE_S)
                for shard in self._shards
            )
        )
        logger.info("switched from %s to %s", self._current, version)
        self._current = version
