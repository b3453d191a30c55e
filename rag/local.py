"""The pipeline in one process: every stage an object, no cluster. The cluster must give the same answers."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from functools import cached_property

from rag.config import RagConfig
from rag.data import Chunk, EncodedQuery, Prompt, Reading, ReadSpan, ShardCandidates, Vector
from rag.errors import ModelError
from rag.ids import ChunkId, VersionId
from rag.index.manifest import check_compatible, with_encoder_of
from rag.index.shard import LocalShard, open_shard
from rag.index.store import open_store
from rag.parts import (
    build_embedder,
    build_generator,
    build_generator_token_counter,
    build_reader,
    build_reranker,
)
from rag.pipeline import Pipeline, Timed, ms_since
from rag.protocols import Embedder, Generator, Reader, Reranker, Shard, TokenCounter
from rag.rewrite.follow_up import QuestionRewriter


class InProcessShard:
    """A shard object behind the interface of one that may be far away."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    async def search(self, query: EncodedQuery, k_dense: int, k_bm25: int, k_read: int) -> ShardCandidates:
        return await asyncio.to_thread(self._shard.search, query, k_dense, k_bm25, k_read)

    async def fetch(self, query: EncodedQuery, chunk_ids: Sequence[ChunkId], neighbours: int = 0) -> Timed[list[Chunk]]:
        started = time.perf_counter()
        chunks = await asyncio.to_thread(self._shard.fetch, query, chunk_ids, neighbours)
        return Timed(chunks, ms_since(started))


class NoGenerator:
    """Stands where a pipeline ends with the prompt."""

    def generate(self, prompt: Prompt) -> AsyncIterator[str]:
        raise ModelError("this pipeline was opened without a generator: it ends with the prompt")


class LocalStages:
    """Implements `rag.pipeline.Stages` with the parts that the configuration names.

    Without a generator, follow-ups are rewritten by rules, and asking for an answer raises ModelError.
    """

    def __init__(
        self,
        config: RagConfig,
        version: VersionId,
        shards: Sequence[Shard],
        embedder: Embedder,
        reranker: Reranker,
        generator: Generator | None = None,
        reader: Reader | None = None,
    ) -> None:
        self.shards = [InProcessShard(shard) for shard in shards]
        self.generator = generator or NoGenerator()
        self.rewriter = QuestionRewriter(config.rewrite, generator)
        self._config, self._version, self._embedder, self._reranker = config, version, embedder, reranker
        self._reader = reader

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Counts as the generator will; its tokenizer is loaded at the first call, which a search never makes."""
        return self._counter.count(texts)

    @cached_property
    def _counter(self) -> TokenCounter:
        return build_generator_token_counter(self._config)

    def current_version(self) -> VersionId:
        return self._version

    async def encode(self, text: str) -> Timed[Vector]:
        started = time.perf_counter()
        vectors = await asyncio.to_thread(self._embedder.embed_queries, [text])
        return Timed(vectors[0], ms_since(started))

    async def rerank(self, query: str, passages: Sequence[str]) -> Timed[list[float]]:
        started = time.perf_counter()
        logits = await asyncio.to_thread(self._reranker.score, query, passages)
        return Timed(logits, ms_since(started))

    async def read(self, query: str, passages: Sequence[Reading]) -> Timed[list[list[ReadSpan]]]:
        started = time.perf_counter()
        if self._reader is None:
            raise ModelError("these stages were opened without a reader, and generate.reader names one")
        spans = await asyncio.to_thread(self._reader.read, query, passages)
        return Timed(spans, ms_since(started))


def local_pipeline(config: RagConfig) -> Pipeline:
    """A pipeline over the live version. Raises what opening it raises: NotFound, IndexMismatch, IndexDamaged."""
    version = open_store(config).current()
    config = config_of_version(config, version)
    shards = open_shards(config, version)
    embedder, reranker, generator = build_embedder(config), build_reranker(config), build_generator(config)
    stages = LocalStages(config, version, shards, embedder, reranker, generator, build_reader(config))
    return Pipeline(config, stages)


def retrieval_pipeline(config: RagConfig, embedder: Embedder, reranker: Reranker, version: VersionId) -> Pipeline:
    """A pipeline over a version, live or not, that ends with the prompt: no generator is built. Raises what opening the
    shards raises."""
    shards, reader = open_shards(config, version), build_reader(config)
    return Pipeline(config, LocalStages(config, version, shards, embedder, reranker, reader=reader))


def config_of_version(config: RagConfig, version: VersionId) -> RagConfig:
    """The configuration with the encoder that the version was made by. Raises NotFound."""
    return with_encoder_of(config, open_store(config).manifest(version))


def open_shards(config: RagConfig, version: VersionId) -> list[LocalShard]:
    """Every shard of a version, live or not. Raises NotFound, IndexMismatch and IndexDamaged."""
    manifest = open_store(config).manifest(version)
    check_compatible(manifest, config)
    return [open_shard(config.index_root, version, shard, config) for shard in range(manifest.num_shards)]
