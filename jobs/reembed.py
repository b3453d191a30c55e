"""The live index by another encoder: `python -m jobs.reembed --config FILE --encoder NAME`, or `quire reembed`.

Stored chunks in, a new version out, beside the live one and without parsing anything: embed -> stage, then each segment
written anew, the version committed, compared with the live one and, unless it is worse, published. Documents that are
changed, deleted or closed to somebody meanwhile are as the live version has them at the end.

A run that is killed leaves what it staged; the next one towards the same encoder goes on from there.
"""

import argparse
import asyncio
import logging
import pickle
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from jobs.printing import (
    IngestProgress,
    ingest_progress,
    print_error,
    print_failure,
    print_json,
    print_pairs,
    print_rows,
    say,
)
from jobs.ray_session import RayFailure, cluster_shape, ray_session
from rag.config import EmbedConfig, RagConfig, load_config
from rag.errors import RagError
from rag.evaluate.encoders import EncoderComparison, compare_encoders
from rag.evaluate.metrics import mean
from rag.evaluate.observe import Stage
from rag.evaluate.smoke import read_smoke_tasks
from rag.index.commit import commit_version
from rag.index.manifest import Manifest, SegmentEntry, check_compatible, with_encoder_of
from rag.index.reclaim import reclaim
from rag.index.reembed import BATCH_CHUNKS, Embedded, EmbedTask, Reembedding, StagedVectors, embed_task
from rag.index.revoke import absorb_revocations
from rag.index.segment import SegmentInfo
from rag.index.store import IndexStore, open_store
from rag.parts import build_embedder, check_encoder

logger = logging.getLogger(__name__)

MAX_PASSES = 3  # over a live version that keeps changing, before the rest is done with other runs kept out
_STAGES: tuple[Stage, ...] = ("chunks", "dense", "bm25", "fused")
_METRICS = ("recall", "ndcg@10")


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """The outcome of one run."""

    encoder: str
    dim: int
    chunks: int  # live in the new version
    batches: int  # embedded by this run
    embedded: int  # chunks; the others were staged by a run before, or built
    truncated: int  # texts that the encoder's window cut
    version: str  # made by this run, or live before where that is the same encoder's
    published: bool
    before: str  # live when the run ended
    reasons: tuple[str, ...] = ()  # why it was not published
    recall_before: float | None = None
    recall_after: float | None = None
    overlap: float | None = None
    questions: int = 0
    golden: tuple[tuple[str, str, float, float], ...] = ()  # stage, metric, before, after
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """1 when the new version was refused."""
        return 1 if self.reasons else 0

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        return asdict(self)

    def rows(self) -> dict[str, object]:
        """The summary as names and values for a table."""
        exact = "exact"
        recalls = [exact if value is None else f"{value:.4f}" for value in (self.recall_before, self.recall_after)]
        compared = (
            {}
            if self.overlap is None
            else {
                "recall@10 of the dense index": f"{recalls[0]} before, {recalls[1]} after",
                "same dense candidates": f"{self.overlap:.1%} of ten, over {self.questions} questions",
            }
        )
        return {
            "encoder": f"{self.encoder}, {self.dim} dimensions",
            "version": f"{self.version} ({'published' if self.published else 'not published'})",
            "before": self.before,
            "chunks": f"{self.chunks} live, {self.embedded} embedded in {self.batches} batches",
            "cut at the encoder's window": self.truncated,
            **compared,
            **{f"{stage} s": f"{value:.1f}" for stage, value in self.seconds.items()},
        }


def target_embed(
    embed: EmbedConfig,
    encoder: str | None,
    query_prefix: str | None = None,
    passage_prefix: str | None = None,
    max_tokens: int | None = None,
) -> EmbedConfig:
    """The section `embed` with another encoder; `hashing` is the one without weights. Prefixes are not taken over from
    one encoder to another."""
    if encoder is None or encoder == (embed.model if embed.embedder == "sentence" else embed.embedder):
        chosen: dict[str, object] = {}
    elif encoder == "hashing":
        chosen = {"embedder": "hashing", "query_prefix": "", "passage_prefix": ""}
    else:
        chosen = {"embedder": "sentence", "model": encoder, "query_prefix": "", "passage_prefix": ""}
    given = {"query_prefix": query_prefix, "passage_prefix": passage_prefix, "max_tokens": max_tokens}
    chosen |= {name: value for name, value in given.items() if value is not None}
    return EmbedConfig.model_validate({**embed.model_dump(), **chosen})


# ---------------------------------------------------------------- where the work happens


@dataclass(frozen=True, slots=True)
class EmbedJob:
    """What embedding needs beside its tasks."""

    config: RagConfig  # names the new encoder
    staging: Path


class Engine(Protocol):
    def embed(self, tasks: Iterable[EmbedTask], job: EmbedJob) -> Iterator[Embedded]:
        """Embeds and stages every task; yields what became of each, in any order."""
        ...

    def build(self, manifest: Manifest, job: EmbedJob) -> list[tuple[int, SegmentInfo]]:
        """Writes every segment of the version that has a live row; shard and segment of each."""
        ...


class LocalEngine:
    """One task after the other, in this process."""

    def embed(self, tasks: Iterable[EmbedTask], job: EmbedJob) -> Iterator[Embedded]:
        worker: EmbedWorker | None = None
        for task in tasks:
            worker = worker or EmbedWorker(job)
            yield worker.embed(task)

    def build(self, manifest: Manifest, job: EmbedJob) -> list[tuple[int, SegmentInfo]]:
        return [(shard, build_segment(manifest, entry, job)) for shard, entry in _live_entries(manifest)]


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Embeds through Ray Data, one encoder a GPU or node; builds segments as Ray tasks. Ray has to be connected."""

    encoder_cpus: float = 1.0
    build_cpus: float = 1.0

    def embed(self, tasks: Iterable[EmbedTask], job: EmbedJob) -> Iterator[Embedded]:
        import ray.data

        blocks = [pa.table({"task": pa.array([pickle.dumps(task)], pa.binary())}) for task in tasks]
        if not blocks:
            return
        shape = cluster_shape(job.config.embed.device)
        rows = ray.data.from_arrow(blocks).map_batches(
            EmbedWorker,
            batch_size=None,
            batch_format="pyarrow",
            fn_constructor_args=(job,),
            num_cpus=self.encoder_cpus,
            num_gpus=shape.gpus_per_encoder,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=shape.num_encoders),
        )
        with RayFailure.translated("embedding"):
            for batch in rows.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
                yield from (Embedded(**row) for row in batch.to_pylist())

    def build(self, manifest: Manifest, job: EmbedJob) -> list[tuple[int, SegmentInfo]]:
        import ray

        task = ray.remote(build_segment).options(num_cpus=self.build_cpus)
        entries = list(_live_entries(manifest))
        with RayFailure.translated("building segments"):
            infos: list[SegmentInfo] = ray.get([task.remote(manifest, entry, job) for _, entry in entries])
        return [(shard, info) for (shard, _), info in zip(entries, infos, strict=True)]


class EmbedWorker:
    """The encoder of one process, loaded once."""

    def __init__(self, job: EmbedJob) -> None:
        self._embedder = build_embedder(job.config)
        self._store, self._staged = open_store(job.config), StagedVectors(job.staging)

    def embed(self, task: EmbedTask) -> Embedded:
        return embed_task(task, self._store, self._staged, self._embedder)

    def __call__(self, batch: pa.Table) -> pa.Table:
        done = [asdict(self.embed(pickle.loads(task))) for task in batch.column("task").to_pylist()]  # made above
        return pa.Table.from_pylist(done)


def build_segment(manifest: Manifest, entry: SegmentEntry, job: EmbedJob) -> SegmentInfo:
    """One segment of the version with the staged vectors."""
    return Reembedding(open_store(job.config), StagedVectors(job.staging), job.config).write_segment(manifest, entry)


def _live_entries(manifest: Manifest) -> Iterator[tuple[int, SegmentEntry]]:
    for shard in manifest.shards:
        yield from ((shard.shard, entry) for entry in shard.segments)


# ---------------------------------------------------------------- the run


def reembed(
    config: RagConfig,
    embed: EmbedConfig,
    *,
    progress: IngestProgress,
    engine: Engine | None = None,
    batch_chunks: int = BATCH_CHUNKS,
) -> ReembedReport:
    """Builds the live version once more with the encoder that `embed` names, and publishes it unless it is worse.

    Raises NotFound where nothing is live, ModelError when the encoder is not on this machine, IndexMismatch for a live
    version of other settings than the configuration's, its encoder apart, and RagError while another re-embedding runs.
    """
    store, target = open_store(config), config.model_copy(update={"embed": embed})
    check_encoder(target)
    with store.reembedding():
        return _Run(store, config, target, engine or RayEngine(), progress, batch_chunks).run()


class _Run:
    """One run, alone among re-embeddings; other runs may change the live version until the end."""

    def __init__(
        self,
        store: IndexStore,
        config: RagConfig,
        target: RagConfig,
        engine: Engine,
        progress: IngestProgress,
        batch_chunks: int,
    ) -> None:
        self._store, self._config, self._target = store, config, target
        self._engine, self._progress, self._batch_chunks = engine, progress, batch_chunks
        self._root = store.root / "reembed" / target.index_fingerprint()[:16]
        self._job = EmbedJob(target, self._root / "vectors")
        self._work = Reembedding(store, StagedVectors(self._job.staging), target)
        self._done: list[Embedded] = []
        self._batches = self._embedded = self._truncated = 0
        self._seconds: dict[str, float] = {}
        self._started = time.perf_counter()

    def run(self) -> ReembedReport:
        live = self._live()
        if live.fingerprint == self._target.index_fingerprint():
            return self._report(live, live, published=False)
        for _ in range(MAX_PASSES):
            live = self._live()
            self._embed(live)
            self._build(live)
            if self._store.current() == live.version:
                break
        with self._store.writing(wait=True):
            live = self._live()
            self._embed(live)
            built = self._build(live)
            manifest = self._commit(live, built)
            report = self._switch(live, manifest)
        shutil.rmtree(self._root, ignore_errors=True)
        return report

    def _live(self) -> Manifest:
        live = self._store.manifest(self._store.current())
        check_compatible(live, with_encoder_of(self._config, live))
        return live

    def _embed(self, live: Manifest) -> None:
        started = time.perf_counter()
        self._progress.stage(f"embedding {live.counts.chunks} chunks")
        for done in self._engine.embed(self._work.tasks(live, self._batch_chunks), self._job):
            self._batches, self._embedded = self._batches + 1, self._embedded + done.chunks
            self._truncated += done.truncated
            self._progress.advance(0, done.chunks)
        self._add("embed", started)

    def _build(self, live: Manifest) -> list[tuple[int, SegmentInfo]]:
        started = time.perf_counter()
        self._progress.stage("building segments")
        built = self._engine.build(live, self._job)
        self._add("build", started)
        return built

    def _commit(self, live: Manifest, built: Sequence[tuple[int, SegmentInfo]]) -> Manifest:
        started = time.perf_counter()
        segments: dict[int, list[SegmentInfo]] = {}
        for shard, info in built:
            segments.setdefault(shard, []).append(info)
        dim = built[0][1].dim if built else build_embedder(self._target).dim
        self._add("commit", started)
        return commit_version(
            self._store,
            segments,
            (),
            self._store.registry_table(live),
            self._target,
            dim,
            parent=live.version,
            timings=self._seconds,
            fresh=True,
            made_by="reembed",
        )

    def _switch(self, live: Manifest, manifest: Manifest) -> ReembedReport:
        started = time.perf_counter()
        self._progress.stage("comparing")
        tasks = read_smoke_tasks(self._config.smoke)
        compared = asyncio.run(compare_encoders(self._config, live.version, manifest.version, tasks))
        self._add("compare", started)
        if not compared.reasons:
            self._progress.stage("publishing")
            self._store.publish(manifest.version, {"reembed": manifest.encoder.name})
            absorb_revocations(self._store, manifest)
            reclaim(self._store, self._config.index)
        return self._report(live, manifest, published=not compared.reasons, compared=compared)

    def _report(
        self, live: Manifest, manifest: Manifest, *, published: bool, compared: EncoderComparison | None = None
    ) -> ReembedReport:
        self._seconds["wall"] = time.perf_counter() - self._started
        return ReembedReport(
            encoder=manifest.encoder.name,
            dim=manifest.encoder.dim,
            chunks=manifest.counts.chunks,
            batches=self._batches,
            embedded=self._embedded,
            truncated=self._truncated,
            version=manifest.version,
            published=published,
            before=live.version,
            reasons=compared.reasons if compared else (),
            recall_before=compared.recall_before if compared else live.recall,
            recall_after=compared.recall_after if compared else live.recall,
            overlap=compared.overlap if compared else None,
            questions=compared.num_questions if compared else 0,
            golden=_golden(compared),
            seconds={stage: round(value, 3) for stage, value in self._seconds.items()},
        )

    def _add(self, stage: str, started: float) -> None:
        self._seconds[stage] = self._seconds.get(stage, 0.0) + time.perf_counter() - started


def _golden(compared: EncoderComparison | None) -> tuple[tuple[str, str, float, float], ...]:
    """The means of the golden set, before and after."""
    if compared is None or compared.before is None or compared.after is None:
        return ()
    before, after = compared.before, compared.after
    return tuple(
        (stage, metric, mean(before.values(stage, metric)), mean(after.values(stage, metric)))
        for stage in _STAGES
        for metric in _METRICS
        if metric in before.scores.get(stage, {}) and metric in after.scores.get(stage, {})
    )


# ---------------------------------------------------------------- the command


def run(
    config_file: Path, embed: EmbedConfig, *, as_json: bool = False, address: str | None = None, local: bool = False
) -> int:
    """Re-embed and print the report; the exit code. Errors that quire raises on purpose pass through."""
    config = load_config(config_file)
    session = nullcontext() if local else ray_session(address)
    with session, ingest_progress() as progress:
        report = reembed(config, embed, progress=progress, engine=LocalEngine() if local else RayEngine())
    if as_json:
        print_json(report.to_json())
        return report.exit_code
    print_pairs("Re-embedding", report.rows())
    if report.golden:
        rows = [(stage, metric, f"{a:.4f}", f"{b:.4f}", f"{b - a:+.4f}") for stage, metric, a, b in report.golden]
        print_rows("Golden set", ("stage", "metric", "before", "after", "difference"), rows)
    if report.reasons:
        print_error(
            f"version {report.version} was not published: {'; '.join(report.reasons)}. "
            f"`quire publish {report.version}` makes it live all the same"
        )
    elif report.published:
        say(
            "questions follow the encoder of the live version. Before the next ingest, rag.yaml has to name it: "
            f"embed.embedder: {embed.embedder}, embed.model: {embed.model}"
        )
    else:
        say(f"{report.encoder} is the encoder of the live version; nothing to do")
    return report.exit_code


def add_encoder_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--encoder", help="registry name, hub id or local directory; `hashing`; left out: rag.yaml's")
    parser.add_argument("--query-prefix", help="put before every query")
    parser.add_argument("--passage-prefix", help="put before every passage")
    parser.add_argument("--max-tokens", type=int, help="window of the encoder")


def main() -> None:
    """Run `python -m jobs.reembed`. Exit codes: 0, 1 when the version was refused, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m jobs.reembed", description="Build the index by another encoder.")
    parser.add_argument("--config", type=Path, required=True, help="rag.yaml")
    add_encoder_arguments(parser)
    parser.add_argument("--local", action="store_true", help="in this process, without Ray")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print the report as JSON")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        embed = target_embed(
            load_config(given.config).embed, given.encoder, given.query_prefix, given.passage_prefix, given.max_tokens
        )
        code = run(given.config, embed, as_json=given.as_json, local=given.local)
    except RagError as error:
        code = print_failure(error)
    sys.exit(code)


if __name__ == "__main__":
    main()
