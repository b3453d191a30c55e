"""Where the work of a run happens: on Ray, or in this process under a debugger. Both give the same index."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from jobs.ingest_tasks import BuiltShard, EmbedBatches, build_shard, parse_batch, stage_batch
from jobs.ray_session import RayFailure, cluster_shape
from rag.config import RagConfig
from rag.ids import VersionId
from rag.index.registry import DocumentRecord


@dataclass(frozen=True, slots=True)
class StreamJob:
    """Everything that the stream of one run needs beside its blocks."""

    config: RagConfig
    staging: Path
    live: VersionId | None  # whose vectors may be used again
    leftovers: tuple[Path, ...]  # staging folders of runs that were killed


@dataclass(frozen=True, slots=True)
class BuildJob:
    """The segments of one shard that have to be built."""

    config: RagConfig
    staging: Path
    shard: int
    records: tuple[DocumentRecord, ...]
    max_chunks: int


class Engine(Protocol):
    def stream(self, blocks: Sequence[pa.Table], job: StreamJob) -> Iterator[pa.Table]:
        """Parse, embed and stage every block; yields what `stage_batch` reports."""
        ...

    def build(self, jobs: Sequence[BuildJob]) -> list[BuiltShard]:
        """Build the segments of every job, in order."""
        ...


class LocalEngine:
    """One block after the other, in this process."""

    def stream(self, blocks: Iterable[pa.Table], job: StreamJob) -> Iterator[pa.Table]:
        embed = EmbedBatches(job.config, job.live, job.leftovers)
        for block in blocks:
            yield stage_batch(embed(parse_batch(block, job.config)), job.staging)

    def build(self, jobs: Sequence[BuildJob]) -> list[BuiltShard]:
        return [_build(job) for job in jobs]


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Streams through Ray Data and builds shards as Ray tasks. Ray has to be connected.

    What a piece of work asks of Ray has to fit beside whatever else runs on the cluster. Parsing and encoding ask for
    different shares: Ray Data would fuse equal ones into one operator, which parses and embeds in turn.
    """

    parse_cpus: float = 0.5
    encoder_cpus: float = 1.0  # what Ray books; the encoder's threads are `embed.num_threads`
    stage_cpus: float = 0.25
    build_cpus: float = 1.0

    def stream(self, blocks: Sequence[pa.Table], job: StreamJob) -> Iterator[pa.Table]:
        import ray.data

        shape = cluster_shape(job.config.embed.device)
        rows = ray.data.from_arrow(list(blocks)).map_batches(
            parse_batch,
            batch_size=None,
            batch_format="pyarrow",
            fn_kwargs={"config": job.config},
            num_cpus=self.parse_cpus,
        )
        # A batch is a block: who is embedded with whom, and so the last bits of a vector, does not depend on timing.
        rows = rows.map_batches(
            EmbedBatches,
            batch_size=None,
            batch_format="pyarrow",
            fn_constructor_args=(job.config, job.live, job.leftovers),
            num_cpus=self.encoder_cpus,
            num_gpus=shape.gpus_per_encoder,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=shape.num_encoders),
        )
        rows = rows.map_batches(
            stage_batch,
            batch_size=None,
            batch_format="pyarrow",
            fn_kwargs={"directory": job.staging},
            num_cpus=self.stage_cpus,
        )
        with RayFailure.translated("parsing and embedding"):
            yield from rows.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)

    def build(self, jobs: Sequence[BuildJob]) -> list[BuiltShard]:
        import ray

        task = ray.remote(_build).options(num_cpus=self.build_cpus)
        with RayFailure.translated("building segments"):
            built: list[BuiltShard] = ray.get([task.remote(job) for job in jobs])
            return built


def _build(job: BuildJob) -> BuiltShard:
    return build_shard(job.staging, job.shard, job.records, job.config, job.max_chunks)
