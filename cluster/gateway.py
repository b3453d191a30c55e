"""The gateway: who asks, which version answers, and the trace that is kept, around `rag.pipeline`."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import ray
from fastapi import FastAPI
from ray.serve.handle import DeploymentHandle

from cluster.identity import Authenticator
from cluster.ingress import build_api
from cluster.language_model import RemoteGenerator
from cluster.memory import freeze_loaded
from cluster.messages import IndexMessage, SearchMessage, index_message, search_message
from cluster.metrics import QueryMetrics
from cluster.scatter import RemoteStages
from cluster.versions import remote_versions
from rag.config import RagConfig, load_config
from rag.data import Principal, Question
from rag.errors import ModelError, RagError
from rag.guard.revoked import without_revoked
from rag.ids import TraceId, VersionId
from rag.index.store import open_store
from rag.live import VersionFollower
from rag.parts import build_generator_token_counter
from rag.pipeline import DoneEvent, Event, Pipeline
from rag.rewrite.follow_up import QuestionRewriter
from rag.trace import SpanRecorder, Trace, TraceKind, TraceStore, new_trace_id

REWRITE_TOKENS = 48  # a stand-alone question is one sentence


class GatewayDeployment:
    """Authenticates, runs the pipeline over the other deployments, and keeps the trace of every question."""

    def __init__(
        self,
        config_path: Path,
        embedder: DeploymentHandle,
        reranker: DeploymentHandle,
        generator: DeploymentHandle,
        *shards: DeploymentHandle,
    ) -> None:
        self._config = config = load_config(config_path)
        self._authenticator = Authenticator(config.auth)
        self._store = open_store(config)
        self._traces = TraceStore(config.trace.url.format(var=config.var))
        self._metrics = QueryMetrics()
        greedy = config.generate.model_copy(update={"temperature": 0.0, "max_output_tokens": REWRITE_TOKENS})
        rewriter = QuestionRewriter(config.rewrite, RemoteGenerator(generator, greedy))
        count_tokens = build_generator_token_counter(config).count

        def pipeline_of(config: RagConfig, version: VersionId) -> Pipeline:
            stages = RemoteStages(
                embedder=embedder,
                shards=shards,
                reranker=reranker,
                rewriter=rewriter,
                generator=RemoteGenerator(generator, config.generate),
                count_tokens=count_tokens,
                version=version,
                embed=config.embed,
                limits=config.limits,
            )
            return Pipeline(config, stages)

        self._versions = VersionFollower(config, remote_versions(shards, embedder), pipeline_of)
        self._following = asyncio.get_running_loop().create_task(self._versions.follow())

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Called by Serve after the constructor."""
        api = build_api(self, self._config.limits)
        freeze_loaded()
        return api

    async def check_health(self) -> None:
        """Unhealthy when it no longer follows the index's versions."""
        if self._following.done():
            raise ModelError("the gateway no longer follows the live version")

    def authenticate(self, authorization: str | None) -> Principal:
        return self._authenticator.principal(authorization)

    def version(self) -> VersionId:
        return self._versions.serving().version

    async def answer(self, question: Question) -> AsyncGenerator[Event]:
        """The pipeline's events; before the last one the trace is stored and the metrics are counted."""
        trace_id, recorder = new_trace_id(), SpanRecorder()
        pipeline = self._versions.serving().pipeline
        async with (
            self._failures_kept(pipeline, trace_id, question, recorder, "answer"),
            aclosing(pipeline.answer(question, trace_id, recorder)) as events,
        ):
            async for event in events:
                if isinstance(event, DoneEvent):
                    event = replace(event, trace=await self._keep(event.trace, recorder))
                    self._metrics.observe_answer(event)
                yield event

    async def search(self, question: Question, k: int) -> SearchMessage:
        """The best chunks; their trace is stored first, so that a search can be explained and repeated too."""
        trace_id, recorder = new_trace_id(), SpanRecorder()
        pipeline = self._versions.serving().pipeline
        async with self._failures_kept(pipeline, trace_id, question, recorder, "search"):
            retrieval = await pipeline.retrieve(question, recorder)
            trace = await self._keep(pipeline.search_trace(trace_id, question, retrieval, recorder), recorder)
            self._metrics.observe_spans(trace.spans)
            return search_message(retrieval, trace, k)

    async def _keep(self, trace: Trace, recorder: SpanRecorder) -> Trace:
        """Stores the trace; then it also says how long that took."""
        with recorder.span("keep_trace"):
            await asyncio.to_thread(self._traces.save, trace)
        return replace(trace, spans=recorder.spans)

    @asynccontextmanager
    async def _failures_kept(
        self, pipeline: Pipeline, trace_id: TraceId, question: Question, recorder: SpanRecorder, kind: TraceKind
    ) -> AsyncGenerator[None]:
        """An error that ends the question is counted, and leaves a trace whose id it carries."""
        try:
            yield
        except RagError as error:
            self._metrics.observe_failure(type(error).__name__)
            trace = pipeline.failed_trace(trace_id, question, error, recorder, kind)
            await asyncio.to_thread(self._traces.save, trace)
            error.trace_id = trace_id
            raise

    async def index(self) -> IndexMessage:
        manifest = await asyncio.to_thread(self._store.manifest, self.version())
        return index_message(manifest)

    async def trace(self, trace_id: TraceId, principal: Principal) -> Trace:
        """Without what was revoked since."""

        def load() -> Trace:
            return without_revoked(self._traces.load(trace_id, principal), self._store)

        return await asyncio.to_thread(load)

    async def metrics(self) -> str:
        """What this node exports, in Prometheus' text format."""
        node = next(node for node in ray.nodes() if node["NodeID"] == ray.get_runtime_context().get_node_id())
        url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        async with httpx.AsyncClient(timeout=10) as client:
            return (await client.get(url)).text
