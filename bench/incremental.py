"""What does an ingest cost when 1% of the documents changed, or their readers alone, against a full one?

python -m bench.incremental --data ../shared/data/wiki-sourcegraph/pages

In one process, in this order, each with an encoder loaded anew: a full run over a copy of the pages; a run after a
paragraph was added to 1% of them, and another; a run after the readers of 1% changed; a run after nothing changed.
Times are from listing to publishing. CPU time stands beside wall time: on a machine that others use too it is the
steadier. With --hashing no chunk costs an encoder's time: the share of a full run is then the largest that it can be,
but for loading the encoder.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.ingest import benchmark_config
from bench.report import PROJECT, Run, need, out, print_table, verdict
from jobs.ingest import ingest
from jobs.ingest_engine import LocalEngine
from jobs.printing import LineProgress
from rag.config import AccessRule, RagConfig, SourcesConfig
from rag.index.contents import read_chunks
from rag.index.store import open_store

SHARE, RATIO = 0.01, 0.05

Figures = dict[str, Any]  # Any: numbers by name, as JSON


def timed_run(config: RagConfig, pages: Path, *, full: bool = False) -> Figures:
    """One ingest, and what it cost."""
    started, cpu = time.perf_counter(), time.process_time()
    report = ingest(config, [pages], full=full, progress=LineProgress(), engine=LocalEngine())
    return {
        "wall_s": time.perf_counter() - started,
        "cpu_s": time.process_time() - cpu,
        "documents": report.documents,
        "indexed": report.indexed,
        "chunks": report.chunks,
        "embedded": report.embedded,
        "reused": report.reused,
        "stages_s": dict(report.seconds),
    }


def edit(pages: Sequence[Path], turn: int) -> None:
    """Puts a paragraph at the end of each page."""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        page.write_text(f"{text}\n\nRevised in round {turn}: see the owner of this page for what changed.\n", "utf-8")


def expected_embeddings(config: RagConfig, before: set[str]) -> int:
    """Chunks of the live version that the one before it did not hold: what had to be embedded, and no more."""
    store = open_store(config)
    return len({chunk.id for chunk in read_chunks(store, store.current())} - before)


def chunk_ids(config: RagConfig) -> set[str]:
    store = open_store(config)
    return {chunk.id for chunk in read_chunks(store, store.current())}


def bench(config: RagConfig, source: Path, scratch: Path, max_pages: int) -> Figures:
    """All runs, one after the other."""
    pages = scratch / "pages"
    found = sorted(source.rglob("*.md"))
    for path in found[:: max(1, len(found) // max_pages)][:max_pages]:
        target = pages / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    files = sorted(pages.rglob("*.md"))
    changed = files[:: round(1 / SHARE)]
    full = timed_run(config, pages, full=True)
    runs: dict[str, Figures] = {"full": full}
    for turn in (1, 2):
        before = chunk_ids(config)
        edit(changed, turn)
        runs[f"changed {turn}"] = timed_run(config, pages)
        runs[f"changed {turn}"]["needed"] = expected_embeddings(config, before)
    rules = tuple(AccessRule(pattern=path.relative_to(pages).as_posix(), groups=("board",)) for path in changed)
    closed = config.model_copy(update={"sources": SourcesConfig(default_groups=("everyone",), rules=rules)})
    runs["readers"] = timed_run(closed, pages)
    runs["nothing"] = timed_run(closed, pages)
    for run in runs.values():
        run["wall_share"], run["cpu_share"] = run["wall_s"] / full["wall_s"], run["cpu_s"] / full["cpu_s"]
    return {"documents": len(files), "changed": len(changed), "runs": runs}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.incremental", description=__doc__)
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--data", type=Path, required=True, help="folder of Markdown pages")
    parser.add_argument("--max-pages", type=int, default=10_000, help="an even sample of so many")
    parser.add_argument("--hashing", action="store_true", help="embed by the hashing embedder")
    arguments = parser.parse_args()
    started = Run("incremental")
    with tempfile.TemporaryDirectory() as scratch:
        config = benchmark_config(arguments.config, Path(scratch) / "store", 0)
        if arguments.hashing:
            config = config.model_copy(update={"embed": config.embed.model_copy(update={"embedder": "hashing"})})
        figures = bench(config, need(arguments.data, "a folder of Markdown pages"), Path(scratch), arguments.max_pages)
    rows = [
        (
            name,
            run["indexed"],
            run["embedded"],
            f"{run['wall_s']:.2f}",
            f"{run['cpu_s']:.2f}",
            f"{run['cpu_share']:.2%}",
        )
        for name, run in figures["runs"].items()
    ]
    print_table(
        f"{figures['changed']} of {figures['documents']} documents changed",
        ("run", "documents", "embedded", "wall s", "CPU s", "of the full run's CPU"),
        rows,
    )
    runs = figures["runs"]
    exact = all(run["embedded"] == run["needed"] for name, run in runs.items() if name.startswith("changed"))
    share = max(run["cpu_share"] for name, run in runs.items() if name.startswith("changed"))
    checks = {
        f"1% changed costs at most {RATIO:.0%} of a full run": share <= RATIO,
        "only changed chunks are embedded": exact,
        "other readers alone embed nothing": runs["readers"]["embedded"] == 0,
    }
    figures["claims"] = checks
    out.print(f"written to {started.write(figures, config).name}")
    held = [verdict(holds, claim) for claim, holds in checks.items()]
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
