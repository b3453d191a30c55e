"""A small index with the whole pipeline over it in one process, for tests of traces."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

from rag.config import EmbedConfig, GenerateConfig, IndexConfig, RagConfig, RerankConfig
from rag.data import Chunk, EncodedQuery, Prompt, Question
from rag.ids import VersionId
from rag.index.shard import LocalShard, open_shard
from rag.index.store import IndexStore
from rag.local import LocalStages
from rag.parts import build_embedder, build_generator, build_reranker
from rag.pipeline import DoneEvent, Pipeline
from rag.protocols import Generator
from rag.trace import SpanRecorder, Trace, new_trace_id
from tests.rag.index.factories import EVERYONE, commit


class Says:
    """A model that writes the same to every prompt, and counts them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.num_prompts = 0

    async def generate(self, prompt: Prompt) -> AsyncIterator[str]:
        self.num_prompts += 1
        yield self._text


def cheap_config(root: Path, **sections: dict[str, Any]) -> RagConfig:  # Any: settings
    """The cheap parts under `root`; `sections` replaces settings, as in `rerank={"k_passages": 1}`."""
    config = RagConfig(
        store=root,
        var=root,
        models=root,
        embed=EmbedConfig(embedder="hashing"),
        index=IndexConfig(num_shards=2),
        rerank=RerankConfig(reranker="overlap"),
        generate=GenerateConfig(generator="extractive", min_evidence=0.0),
    )
    return with_settings(config, **sections)


def with_settings(config: RagConfig, **sections: dict[str, Any]) -> RagConfig:  # Any: settings
    """The configuration with other values of some settings."""
    changed = {name: getattr(config, name).model_copy(update=values) for name, values in sections.items()}
    return config.model_copy(update=changed)


class Library:
    """Chunks, indexed and published."""

    def __init__(self, config: RagConfig, chunks: Sequence[Chunk]) -> None:
        self.config, self.chunks = config, tuple(chunks)
        self.store = IndexStore(config.index_root)
        vectors = build_embedder(config).embed_passages([chunk.embedded_text for chunk in chunks])
        self.version: VersionId = commit(self.store, chunks, vectors, config).version
        self.store.publish(self.version)

    def shards(self) -> list[LocalShard]:
        """Its shards, opened anew."""
        num_shards = self.config.index.num_shards
        return [open_shard(self.config.index_root, self.version, n, self.config) for n in range(num_shards)]

    def stages(self, config: RagConfig, generator: Generator | None = None) -> LocalStages:
        """Its stages, opened anew."""
        parts = (build_embedder(config), build_reranker(config), generator or build_generator(config))
        return LocalStages(config, self.version, self.shards(), *parts)

    def pipeline(self, config: RagConfig | None = None) -> Pipeline:
        """The pipeline up to the prompt: no generator is there to be used."""
        config = config or self.config
        parts = (build_embedder(config), build_reranker(config))
        return Pipeline(config, LocalStages(config, self.version, self.shards(), *parts))

    def encoded(self, trace: Trace) -> EncodedQuery:
        """The query of a trace as its shards got it."""
        vector = build_embedder(self.config).embed_queries([trace.query])[0]
        return EncodedQuery(trace.query, vector, replace(EVERYONE, groups=frozenset(trace.groups)), self.version)

    async def ask(self, question: Question, config: RagConfig | None = None, says: str = "") -> Trace:
        """The trace of an answer, which is the model's words where they are given."""
        config = config or self.config
        pipeline = Pipeline(config, self.stages(config, Says(says) if says else None))
        async with aclosing(pipeline.answer(question, new_trace_id())) as events:
            last = [event async for event in events][-1]
        assert isinstance(last, DoneEvent)
        return last.trace

    async def search(self, question: Question, config: RagConfig | None = None) -> Trace:
        """The trace of a search."""
        config = config or self.config
        pipeline, recorder = Pipeline(config, self.stages(config)), SpanRecorder()
        retrieval = await pipeline.retrieve(question, recorder)
        return pipeline.search_trace(new_trace_id(), question, retrieval, recorder)
