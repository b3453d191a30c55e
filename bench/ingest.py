"""How close does a whole ingest come to the speed of the encoder alone, and does its memory stay flat?

python -m bench.ingest --data ../shared/data/wiki-sourcegraph/pages

In one run: the encoder alone over the texts of all chunks, in the batches in which the ingest embeds them; the whole
ingest into an empty index, on a Ray of its own with two CPUs; the encoder alone once more. Each is a process of its
own with the same number of threads. The ingest's time is from listing to publishing, with loading the encoder; the
encoder's is embedding alone, warm. Shared memory (Ray's object store) does not count as a process' memory.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.memory import MemorySampler, Trend
from bench.report import PROJECT, RESULTS, Run, need, out, print_table, verdict
from jobs.ingest import ingest
from jobs.ingest_engine import BuildJob, StreamJob
from jobs.ingest_tasks import BuiltShard, parse_batch
from jobs.printing import LineProgress
from jobs.ray_session import quiet_ray_data
from rag.config import RagConfig, SourcesConfig, load_config
from rag.parts import build_embedder

RATIO = 0.9
NUM_CPUS = 2
SETTLED_S = 60.0  # or a third of a run that is shorter than three times that
FLAT_SHARE, FLAT_MIB = 0.10, 32.0  # growth over the settled part that still counts as flat: the larger of the two

Figures = dict[str, Any]  # Any: numbers by name, as JSON


def benchmark_config(path: Path, store: Path, threads: int) -> RagConfig:
    """The configuration of the file with an empty store, readers for everything, and the real encoder."""
    config = load_config(path)
    if config.embed.embedder == "hashing":
        raise SystemExit("embed.embedder is hashing: this benchmark is about the real encoder")
    return config.model_copy(
        update={
            "store": store,
            "sources": SourcesConfig(default_groups=("everyone",)),
            "embed": config.embed.model_copy(update={"num_threads": threads, "device": "cpu"}),
        }
    )


# ---------------------------------------------------------------- in processes of their own


class BatchesKept(Exception):
    """The batches are in their file; nothing further is to be done."""


class BatchKeeper:
    """An engine of the ingest that parses, keeps the texts of each batch as a JSON list a line, and stops."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def stream(self, blocks: Sequence[pa.Table], job: StreamJob) -> Iterator[pa.Table]:
        with self._target.open("w", encoding="utf-8") as file:
            for block in blocks:
                parsed = parse_batch(block, job.config)
                file.write(json.dumps(parsed.column("embedded_text").drop_null().to_pylist()) + "\n")
        raise BatchesKept

    def build(self, jobs: Sequence[BuildJob]) -> list[BuiltShard]:
        raise NotImplementedError("an engine that keeps batches builds nothing")


def keep_batches(config: RagConfig, pages: Path, target: Path) -> None:
    """Write the texts that an ingest of the pages embeds, in its batches."""
    with suppress(BatchesKept):
        ingest(config, [pages], full=True, progress=LineProgress(), engine=BatchKeeper(target))


def encoder_alone(config: RagConfig, batches: Path) -> Figures:
    """Embed every batch; loading and the first batch's warm-up are timed apart."""
    lines = batches.read_text(encoding="utf-8").splitlines()
    texts: list[list[str]] = [batch for line in lines if (batch := json.loads(line))]
    started = time.perf_counter()
    embedder = build_embedder(config)
    loading_s = time.perf_counter() - started
    embedder.embed_passages(texts[0][:16])
    started = time.perf_counter()
    for batch in texts:
        embedder.embed_passages(batch)
    seconds = time.perf_counter() - started
    count = sum(map(len, texts))
    return {"chunks": count, "seconds": seconds, "chunks_per_s": count / seconds, "loading_s": loading_s}


def whole_ingest(config: RagConfig, pages: Path) -> Figures:
    """The ingest, with the memory of the driver and of each worker sampled meanwhile."""
    import ray

    ray.init(num_cpus=NUM_CPUS, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    quiet_ray_data()
    with MemorySampler() as sampler:
        report = ingest(config, [pages], full=True, progress=LineProgress())
    ray.shutdown()
    settled_s = min(SETTLED_S, sampler.duration_s / 3)
    wall_s = report.seconds["wall"]
    return {
        "documents": report.documents,
        "failed": report.failed,
        "chunks": report.embedded,
        "seconds": wall_s,
        "chunks_per_s": report.embedded / wall_s,
        "stages_s": dict(report.seconds),
        "settled_s": settled_s,
        "memory": [asdict(trend) for trend in sampler.trends(settled_s)],
    }


def in_a_process(part: str, args: argparse.Namespace, folder: Path) -> Figures:
    """The figures of one part, run in a fresh process."""
    target = folder / f"{part}.json"
    command = [sys.executable, "-m", "bench.ingest", "--part", part, "--folder", str(folder), "--data", str(args.data)]
    command += ["--config", str(args.config), "--threads", str(args.threads)]
    subprocess.run(command, cwd=PROJECT, check=True)
    loaded: Figures = json.loads(target.read_text(encoding="utf-8"))
    return loaded


def run_part(args: argparse.Namespace) -> None:
    """What a child process does: one part, its figures into a file."""
    folder: Path = args.folder
    config = benchmark_config(args.config, folder / "store", args.threads)
    match args.part:
        case "batches":
            keep_batches(config, args.data, folder / "batches.jsonl")
            figures: Figures = {}
        case "alone":
            figures = encoder_alone(config, folder / "batches.jsonl")
        case _:
            figures = whole_ingest(config, args.data)
    (folder / f"{args.part}.json").write_text(json.dumps(figures), encoding="utf-8")


# ---------------------------------------------------------------- the command


def is_flat(trend: Trend) -> bool:
    """Whether the growth after settling is within a tenth of the level, or too small to matter."""
    return trend.growth_mib <= max(FLAT_MIB, FLAT_SHARE * trend.median_mib)


def show_memory(trends: Sequence[Trend]) -> None:
    columns = ("process", "samples", "median MiB", "peak MiB", "MiB a minute", "growth MiB", "flat")
    rows = [
        (t.name, t.num_samples, t.median_mib, t.peak_mib, t.slope_mib_per_min, t.growth_mib, is_flat(t)) for t in trends
    ]
    print_table("memory after settling", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.ingest", description=(__doc__ or "").splitlines()[0])
    pages = PROJECT.parent / "shared" / "data" / "wiki-sourcegraph" / "pages"
    parser.add_argument("--data", type=Path, default=pages, help="folder of the documents")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--threads", type=int, default=NUM_CPUS, help="of the encoder, alone and inside the ingest")
    parser.add_argument("--part", choices=("batches", "alone", "whole"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    args.data, args.config = need(args.data, "the documents").resolve(), args.config.resolve()
    if args.part:
        run_part(args)
        return
    run = Run("ingest")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_a_process("batches", args, folder)
        before = in_a_process("alone", args, folder)
        whole = in_a_process("whole", args, folder)
        after = in_a_process("alone", args, folder)
    alone_s = (before["seconds"] + after["seconds"]) / 2
    rows = [
        (label, part["chunks"], round(part["seconds"], 1), round(part["chunks_per_s"], 1))
        for label, part in (("encoder alone, before", before), ("whole ingest", whole), ("encoder alone, after", after))
    ]
    print_table("speed", ("what", "chunks", "seconds", "chunks a second"), rows)
    out.print({stage: round(seconds, 1) for stage, seconds in whole["stages_s"].items()})
    ratio = alone_s / whole["seconds"]
    stream_ratio = alone_s / whole["stages_s"]["stream"]
    trends = [Trend(**trend) for trend in whole["memory"]]
    show_memory(trends)
    checks = [
        verdict(before["chunks"] == whole["chunks"], "both embedded the same number of chunks"),
        verdict(
            ratio >= RATIO, f"the whole ingest runs at {ratio:.2f} of the encoder alone (stream {stream_ratio:.2f})"
        ),
        verdict(all(map(is_flat, trends)), f"memory is flat after {whole['settled_s']:.0f} s"),
    ]
    figures = {
        "ratio": round(ratio, 3),
        "ratio_of_stream": round(stream_ratio, 3),
        "encoder_alone": [before, after],
        "ingest": whole,
        "flat": checks[2],
    }
    run.write(figures, load_config(args.config), args.results)
    raise SystemExit(0 if all(checks) else 1)


if __name__ == "__main__":
    main()
