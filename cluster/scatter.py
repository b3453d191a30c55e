"""The stages of the pipeline as seen from the gateway: handles with deadlines in place of objects."""

from collections.abc import Callable, Sequence
from typing import cast

from ray.serve.handle import DeploymentHandle

from cluster.deadlines import call
from rag.config import EmbedConfig, LimitsConfig
from rag.data import Chunk, EncodedQuery, Reading, ReadSpan, ShardCandidates, Vector
from rag.errors import DeadlineExceeded, ShardUnavailable
from rag.ids import ChunkId, VersionId
from rag.pipeline import AsyncShard, Timed
from rag.protocols import Generator, Rewriter


class RemoteShard:
    """One shard's deployment; late, dead or full means ShardUnavailable, and the search goes on without it."""

    def __init__(self, shard: int, handle: DeploymentHandle, limits: LimitsConfig) -> None:
        self._shard, self._handle, self._limits = shard, handle, limits

    async def search(self, query: EncodedQuery, k_dense: int, k_bm25: int, k_read: int) -> ShardCandidates:
        try:
            found = await call(
                self._handle.search, query, k_dense, k_bm25, k_read, stage="search", deadline_s=self._limits.search_s
            )
        except DeadlineExceeded as error:
            raise ShardUnavailable(self._shard, self._limits.search_s * 1e3) from error
        return cast(ShardCandidates, found)

    async def fetch(self, query: EncodedQuery, chunk_ids: Sequence[ChunkId], neighbours: int = 0) -> Timed[list[Chunk]]:
        try:
            chunks = await call(
                self._handle.fetch, query, tuple(chunk_ids), neighbours, stage="fetch", deadline_s=self._limits.fetch_s
            )
        except DeadlineExceeded as error:
            raise ShardUnavailable(self._shard, self._limits.fetch_s * 1e3) from error
        return cast("Timed[list[Chunk]]", chunks)


class RemoteStages:
    """Implements `rag.pipeline.Stages` over deployment handles, for one version and the encoder that made it."""

    def __init__(
        self,
        embedder: DeploymentHandle,
        shards: Sequence[DeploymentHandle],
        reranker: DeploymentHandle,
        rewriter: Rewriter,
        generator: Generator,
        count_tokens: Callable[[Sequence[str]], list[int]],
        version: VersionId,
        embed: EmbedConfig,
        limits: LimitsConfig,
    ) -> None:
        self.shards: Sequence[AsyncShard] = [RemoteShard(n, handle, limits) for n, handle in enumerate(shards)]
        self.rewriter, self.generator = rewriter, generator
        self.count_tokens = count_tokens
        self._version, self._embed = version, embed
        self._embedder, self._reranker, self._limits = embedder, reranker, limits

    def current_version(self) -> VersionId:
        return self._version

    async def encode(self, text: str) -> Timed[Vector]:
        return cast(
            "Timed[Vector]",
            await call(self._embedder.encode, text, self._embed, stage="embed", deadline_s=self._limits.encode_s),
        )

    async def rerank(self, query: str, passages: Sequence[str]) -> Timed[list[float]]:
        return cast(
            "Timed[list[float]]",
            await call(self._reranker.score, query, tuple(passages), stage="rerank", deadline_s=self._limits.rerank_s),
        )

    async def read(self, query: str, passages: Sequence[Reading]) -> Timed[list[list[ReadSpan]]]:
        return cast(
            "Timed[list[list[ReadSpan]]]",
            await call(self._reranker.read, query, tuple(passages), stage="read", deadline_s=self._limits.rerank_s),
        )
