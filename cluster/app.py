"""The graph: what calls what. `serve run serve_configs/local/serve.yaml` builds it.

No `from __future__ import annotations` here: Ray Serve would see a string in place of AppArgs, skip the validation and
pass a dict.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve import Application
from ray.serve.handle import DeploymentHandle

from cluster.embedder import EmbedderDeployment
from cluster.gateway import GatewayDeployment
from cluster.places import ENGINE_APP, GENERATOR, place_path
from cluster.reranker import RerankerDeployment
from cluster.shard import ShardDeployment
from rag.config import load_config


class AppArgs(BaseModel):
    """The `args` of the application in serve.yaml."""

    model_config = ConfigDict(extra="forbid")

    config: Path = Field(description="rag.yaml; a relative path starts at the project's folder.")


def build_app(args: AppArgs) -> Application:
    """gateway -> embedder, shards 0..n-1, reranker, and the generator of the application `engine`."""
    config_path = place_path(args.config)
    config = load_config(config_path)
    shards = [
        serve.deployment(ShardDeployment, name=f"shard-{shard}").bind(config_path, shard)
        for shard in range(config.index.num_shards)
    ]
    gateway = serve.deployment(serve.ingress()(GatewayDeployment), name="gateway")
    return gateway.bind(
        config_path,
        serve.deployment(EmbedderDeployment, name="embedder").bind(config_path),
        serve.deployment(RerankerDeployment, name="reranker").bind(config_path),
        DeploymentHandle(GENERATOR, ENGINE_APP),
        *shards,
    )
