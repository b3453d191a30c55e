"""How a version gets ready in the cluster: every shard has it open, and the embedder its encoder."""

import asyncio
from collections.abc import Sequence

from ray.serve.handle import DeploymentHandle

from cluster.deadlines import call
from rag.config import RagConfig
from rag.ids import VersionId
from rag.live import Prepare

OPEN_DEADLINE_S = 120.0


def remote_versions(shards: Sequence[DeploymentHandle], embedder: DeploymentHandle) -> Prepare:
    """What a `VersionFollower` prepares a version with. It raises what a shard or the embedder raises."""

    async def prepare(config: RagConfig, version: VersionId) -> None:
        await asyncio.gather(
            call(embedder.open_encoder, config.embed, stage="open_encoder", deadline_s=OPEN_DEADLINE_S),
            *(call(shard.open_version, version, stage="open_version", deadline_s=OPEN_DEADLINE_S) for shard in shards),
        )

    return prepare
