"""How close does a re-embedding come to the bare speed of its encoder, and does its memory grow with the corpus?

python -m bench.reembed --data ../shared/data/wiki-sourcegraph/pages

Two indexes of real paragraphs by the hashing embedder, one four times the other, are re-embedded with the encoder of
the configuration; before and after it that encoder runs alone over the same texts, in batches of the same size and
order. Each is a process of its own with the same number of threads, its libraries imported before the clock runs. The
re-embedding's time is from the first read to the publication: loading the encoder, segments and comparison included.
CPU time stands beside wall time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

from bench.memory import MIB, MemorySampler, anonymous_bytes
from bench.paragraphs import paragraph_chunks, read_paragraphs
from bench.report import PROJECT, Run, need, out, print_table, verdict
from jobs.printing import LineProgress
from jobs.reembed import LocalEngine, reembed
from rag.config import RagConfig, load_config
from rag.evaluate.collection_index import commit_chunks
from rag.index.contents import read_chunks
from rag.index.reembed import BATCH_CHUNKS
from rag.index.store import open_store
from rag.parts import build_embedder

RATIO, GROWTH = 0.9, 1.25
SEGMENT_CHUNKS = 500

Figures = dict[str, Any]  # Any: numbers by name, as JSON


def step_config(path: Path, store: Path, threads: int, *, hashing: bool) -> RagConfig:
    """The configuration over a store of its own, with the real encoder or the one that the index begins with."""
    config = load_config(path)
    embed = config.embed.model_copy(update={"num_threads": threads, "device": "cpu"})
    if embed.embedder == "hashing":
        raise SystemExit("embed.embedder is hashing: this benchmark is about the real encoder")
    return config.model_copy(
        update={
            "store": store,
            "embed": embed.model_copy(update={"embedder": "hashing"}) if hashing else embed,
            "smoke": config.smoke.model_copy(update={"golden_file": None}),
        }
    )


def prepare(config: RagConfig, pages: Path, num_chunks: int) -> int:
    """A live version of so many paragraphs, in segments of about the same size; how many there were."""
    chunks = paragraph_chunks(read_paragraphs(pages, num_chunks))
    vectors = build_embedder(config).embed_passages([chunk.embedded_text for chunk in chunks])
    num_segments = max(1, len(chunks) // config.index.num_shards // SEGMENT_CHUNKS)
    open_store(config).publish(commit_chunks(config, chunks, vectors, num_segments))
    return len(chunks)


def bare(config: RagConfig) -> Figures:
    """The encoder alone over the live chunks, shortest first in batches, as the job takes them."""
    store = open_store(config)
    chunks = sorted(read_chunks(store, store.current()), key=lambda chunk: chunk.num_tokens)
    texts = [chunk.embedded_text for chunk in chunks]
    embedder = build_embedder(config)
    embedder.embed_passages(texts[:16])
    started, cpu = time.perf_counter(), time.process_time()
    for start in range(0, len(texts), BATCH_CHUNKS):
        embedder.embed_passages(texts[start : start + BATCH_CHUNKS])
    return {"chunks": len(texts), "wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}


def job(config: RagConfig) -> Figures:
    """The whole re-embedding in this process, and the most anonymous memory that it held."""
    build_embedder(config).embed_passages(["warm up"])
    hashing = config.model_copy(update={"embed": config.embed.model_copy(update={"embedder": "hashing"})})
    started, cpu = time.perf_counter(), time.process_time()
    with MemorySampler(every_s=0.1) as sampler:
        report = reembed(hashing, config.embed, progress=LineProgress(), engine=LocalEngine())
    seconds = {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}
    peaks = [trend.peak_mib for trend in sampler.trends(0.0) if trend.name == "driver"]
    return {
        "chunks": report.embedded,
        "batches": report.batches,
        **seconds,
        "stages_s": report.seconds,
        "published": report.published,
        "peak_mib": max(peaks, default=(anonymous_bytes(0) or 0) / MIB),
    }


def apart(step: str, arguments: argparse.Namespace, store: Path) -> Figures:
    """The step in a process of its own."""
    command = [sys.executable, "-m", "bench.reembed", "--step", step, "--store", str(store)]
    command += ["--config", str(arguments.config), "--threads", str(arguments.threads), "--data", str(arguments.data)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    out.print(f"{step}: {figures['chunks']} chunks, {figures['wall_s']:.1f} s, {figures['cpu_s']:.1f} s of CPU")
    return figures


def bench(arguments: argparse.Namespace, scratch: Path) -> Figures:
    """Both sizes, each between two runs of the encoder alone."""
    pages, sizes = (
        need(arguments.data, "a folder of Markdown pages"),
        {"1x": arguments.chunks, "4x": 4 * arguments.chunks},
    )
    figures: Figures = {}
    for name, num_chunks in sizes.items():
        store = scratch / name
        prepare(step_config(arguments.config, store, arguments.threads, hashing=True), pages, num_chunks)
        before, done, after = (apart(step, arguments, store) for step in ("bare", "job", "bare"))
        figures[name] = {
            **done,
            "bare": [before, after],
            "wall_ratio": mean([before["wall_s"], after["wall_s"]]) / done["wall_s"],
            "cpu_ratio": mean([before["cpu_s"], after["cpu_s"]]) / done["cpu_s"],
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reembed", description=__doc__)
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--data", type=Path, required=True, help="folder of Markdown pages")
    parser.add_argument("--chunks", type=int, default=1_500, help="of the smaller index")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--step", choices=("bare", "job"), help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        config = step_config(arguments.config, arguments.store, arguments.threads, hashing=False)
        print(json.dumps(bare(config) if arguments.step == "bare" else job(config)))
        return
    started = Run("reembed")
    with tempfile.TemporaryDirectory() as scratch:
        figures = bench(arguments, Path(scratch))
    rows = [
        (size, done["chunks"], done["wall_ratio"], done["cpu_ratio"], done["peak_mib"])
        for size, done in figures.items()
    ]
    columns = ("index", "chunks", "share of bare speed, wall", "share of bare speed, CPU", "peak MiB")
    print_table("Re-embedding", columns, rows)
    growth = figures["4x"]["peak_mib"] / figures["1x"]["peak_mib"]
    claims = {
        f"at least {RATIO} of the encoder's bare speed, in CPU time": figures["4x"]["cpu_ratio"] >= RATIO,
        "four times the corpus needs no more memory (a quarter's leeway)": growth <= GROWTH,
        "both were published": all(done["published"] for done in figures.values()),
    }
    figures |= {"memory_growth": growth, "claims": claims}
    config = step_config(arguments.config, Path("store"), arguments.threads, hashing=False)
    out.print(f"written to {started.write(figures, config).name}")
    held = [verdict(holds, claim) for claim, holds in claims.items()]
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
