"""What does a caller's permission cost a search? Recall@10 and time of every index type, however little may be read.

python -m bench.search --data ../shared/data --rows 1e6
python -m bench.search --data ../shared/data --rows 1e6 --build hnsw:2    builds one shard of one type, and ends

Vectors: see bench/search_corpus.py. They lie in four shards of one segment each, which one thread searches one after
another, as the service's replicas do side by side. Masks let through 100% to 0.01% of the rows, any rows or those of
a few topics; every mask is made before the clock runs, as the service keeps the masks of its callers. The truth is
brute force. Times are of the processor, not of the wall, so that a neighbour on the machine changes little, and the
searches that are compared take turns. Beside each type stands faiss with the same structure and a selector, as it
comes.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import matplotlib
import numpy as np
import numpy.typing as npt

from bench.report import PROJECT, RESULTS, Run, out, percentile, print_table, verdict
from bench.search_corpus import MaskShape, SearchCorpus, build_corpus, reader_masks
from rag.config import DEFAULT_PLAN, DenseIndexConfig, RagConfig, load_config
from rag.data import Vector, Vectors
from rag.ids import digest
from rag.index.access import RowMask
from rag.index.dense.build import one_thread
from rag.index.dense.index import DENSE, DenseIndex, open_dense_index, write_dense_index
from rag.index.dense.library import faiss

matplotlib.use("Agg")
from matplotlib import pyplot  # after the backend is chosen
from matplotlib.ticker import NullFormatter

Kind = Literal["flat", "ivf_flat", "ivf_pq", "hnsw"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NUM_SHARDS = 4
SHARES = (1.0, 0.1, 0.01, 0.001, 0.0001)
SHAPES: tuple[MaskShape, ...] = ("random", "topic")
MASKS_A_CELL, WARM_UP = 4, 3
ROUNDING = 1e-6

Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]
Searcher = Callable[[Vector, int, Sequence[RowMask]], Found]


@dataclass(frozen=True, slots=True)
class Cell:
    """Callers who may read the same share of the corpus in the same shape: masks a shard, and the truth a query."""

    share: float
    shape: MaskShape
    masks: tuple[tuple[RowMask, ...], ...]
    kth_scores: dict[int, npt.NDArray[np.float32]]  # k -> (masks, queries)

    @property
    def name(self) -> str:
        return "all" if self.share == 1.0 else f"{self.share:.2%} {self.shape}"


# ---------------------------------------------------------------- what is searched


def shard_folders(corpus: SearchCorpus, cache: Path) -> list[Path]:
    """A folder a shard, with its vectors in vectors.npy; written once."""
    name = digest(
        corpus.vectors[:: max(1, len(corpus.vectors) // 1_000)].tobytes(), str(len(corpus.vectors)), size_bytes=8
    )
    folders = [cache / f"search-{name}" / f"shard-{shard}" for shard in range(NUM_SHARDS)]
    for shard, folder in enumerate(folders):
        if not (folder / "vectors.npy").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / "writing.npy", corpus.vectors[shard::NUM_SHARDS])
            (folder / "writing.npy").rename(folder / "vectors.npy")
    return folders


def stored_vectors(folder: Path) -> Vectors:
    """The vectors of a shard, memory-mapped."""
    return np.asarray(np.load(folder / "vectors.npy", mmap_mode="r"))


def built(folder: Path, config: DenseIndexConfig) -> Path:
    """The folder with the shard's structure of this kind, built where it is not there yet."""
    target = folder / f"{config.kind}-{digest(str(config.shaping()), size_bytes=4)}"
    if not target.is_dir() and config.kind != "flat":
        started, unfinished = time.perf_counter(), target.with_suffix(".unfinished")
        unfinished.mkdir(exist_ok=True)
        calibration = write_dense_index(unfinished, stored_vectors(folder), config)
        unfinished.rename(target)
        out.print(f"{config.kind} of {folder.name} built in {time.perf_counter() - started:.0f} s: {calibration}")
    return target


class Opened:
    """All shards of one kind."""

    def __init__(self, folders: Sequence[Path], config: DenseIndexConfig) -> None:
        self.kind, self.folders = config.kind, [built(folder, config) for folder in folders]
        vectors = [stored_vectors(folder) for folder in folders]
        self.num_rows, self.dim = sum(map(len, vectors)), int(vectors[0].shape[1])
        self.shards: list[DenseIndex] = [
            open_dense_index(target, rows, config, DEFAULT_PLAN)
            for target, rows in zip(self.folders, vectors, strict=True)
        ]
        self.strategies: set[str] = set()

    def search(self, query: Vector, k: int, masks: Sequence[RowMask]) -> Found:
        """The k best of all shards, as rows of the corpus."""
        parts = []
        for shard, (index, mask) in enumerate(zip(self.shards, masks, strict=True)):
            rows, scores, strategy = index.search(query, k, mask)
            self.strategies.add(strategy)
            parts.append((rows * NUM_SHARDS + shard, scores))
        return best_of(parts, k)

    def bytes_per_vector(self) -> float:
        """What has to be in memory for the search of all rows: the structure, or the vectors themselves."""
        if self.kind == "flat":
            return 4.0 * self.dim
        list_bytes = 4 if self.kind.startswith("ivf") else 0  # the list of each row, for counting under a mask
        size_bytes = sum((folder / DENSE).stat().st_size for folder in self.folders)
        return float(size_bytes) / self.num_rows + list_bytes


class PlainFaiss:
    """The same structures searched by faiss alone, with a selector where not everything may be read."""

    def __init__(self, opened: Opened, shards: Sequence[Path]) -> None:
        if opened.kind == "flat":
            self.indexes = []
            for folder in shards:
                index = faiss.IndexFlatIP(opened.dim)
                index.add(stored_vectors(folder))
                self.indexes.append(index)
        else:
            self.indexes = [faiss.read_index(str(folder / DENSE), faiss.IO_FLAG_MMAP_IFC) for folder in opened.folders]
        self._kind = opened.kind

    def at(self, breadth: int) -> Searcher:
        """The search with this nprobe or efSearch."""

        def search(query: Vector, k: int, masks: Sequence[RowMask]) -> Found:
            parts = []
            for shard, (index, mask) in enumerate(zip(self.indexes, masks, strict=True)):
                selector = None if mask.everything else faiss.IDSelectorBitmap(mask.bits)
                scores, rows = index.search(query[np.newaxis], k, params=self._parameters(breadth, selector))
                kept = rows[0] >= 0
                parts.append((rows[0][kept] * NUM_SHARDS + shard, scores[0][kept]))
            return best_of(parts, k)

        return search

    def _parameters(self, breadth: int, selector: object) -> object:
        if self._kind == "flat":
            return None if selector is None else faiss.SearchParameters(sel=selector)
        if self._kind == "hnsw":
            return faiss.SearchParametersHNSW(efSearch=breadth, sel=selector)
        return faiss.SearchParametersIVF(nprobe=breadth, sel=selector)


def best_of(parts: Sequence[Found], k: int) -> Found:
    """The k best of several shards' rows."""
    rows, scores = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


# ---------------------------------------------------------------- what is measured


def make_cells(corpus: SearchCorpus, queries: Vectors, ks: Sequence[int]) -> Iterator[Cell]:
    """Every share in every shape, with the score of the true k-th row."""
    for share in SHARES:
        for shape in SHAPES if share < 1.0 else SHAPES[:1]:
            flags = list(reader_masks(corpus, share, shape, MASKS_A_CELL if share < 1.0 else 1))
            kth: dict[int, list[npt.NDArray[np.float32]]] = {k: [] for k in ks}
            for allowed in flags:
                best = _best_scores(corpus.vectors, np.flatnonzero(allowed), queries, max(ks))
                for k in ks:
                    kth[k].append(best[:, min(k, best.shape[1]) - 1])
            yield Cell(
                share,
                shape,
                tuple(tuple(RowMask(allowed[shard::NUM_SHARDS]) for shard in range(NUM_SHARDS)) for allowed in flags),
                {k: np.array(scores) for k, scores in kth.items()},
            )


def _best_scores(vectors: Vectors, rows: npt.NDArray[np.int64], queries: Vectors, k: int) -> npt.NDArray[np.float32]:
    """(queries, k) scores of the nearest of the rows, best first."""
    best = np.full((len(queries), k), -np.inf, np.float32)
    for start in range(0, len(rows), 50_000):
        block = rows[start : start + 50_000]
        scores = np.concatenate([best, queries @ vectors[block].T], axis=1)
        best = -np.partition(-scores, k - 1, axis=1)[:, :k]
    return -np.sort(-best[:, : min(k, len(rows))], axis=1)


@dataclass(slots=True)
class Measured:
    """Recall and times of one search under one cell."""

    recalls: list[float]
    times_ms: list[float]

    @property
    def recall(self) -> float:
        return float(np.mean(self.recalls))

    def figures(self) -> dict[str, float]:
        """Rounded, for the record."""
        shares = {"p50_ms": 0.5, "p95_ms": 0.95}
        times = {name: round(percentile(self.times_ms, share), 3) for name, share in shares.items()}
        return {"recall": round(self.recall, 4), **times}


def measure(
    searches: Sequence[tuple[str, Searcher, Cell]], queries: Vectors, k: int
) -> dict[tuple[str, str], Measured]:
    """Every search of every query in turn: (search, cell) -> recall and times. Searches of a query follow each other,
    so that what else the machine does meets them all."""
    found: dict[tuple[str, str], Measured] = defaultdict(lambda: Measured([], []))
    for place, query in enumerate(np.concatenate([queries[:WARM_UP], queries])):
        number = place - WARM_UP
        for name, search, cell in searches:
            turn = number % len(cell.masks)
            started = time.thread_time()
            _, scores = search(query, k, cell.masks[turn])
            elapsed_ms = (time.thread_time() - started) * 1e3
            if number >= 0:
                kth = cell.kth_scores[k][turn, number]
                wanted = min(k, sum(mask.count for mask in cell.masks[turn]))
                measured = found[name, cell.name]
                measured.recalls.append(float((scores[:wanted] >= kth - ROUNDING).sum()) / wanted)
                measured.times_ms.append(elapsed_ms)
    return dict(found)


# ---------------------------------------------------------------- the benchmark


SWEEPS: dict[str, tuple[int, ...]] = {
    "flat": (0,),
    "ivf_flat": (4, 16, 64, 256),
    "ivf_pq": (4, 16, 64, 256),
    "hnsw": (16, 64, 256, 1024),
}


def measure_kind(
    opened: Opened, flat: Opened, folders: Sequence[Path], cells: Sequence[Cell], queries: Vectors
) -> dict[str, Any]:  # Any: a JSON record
    """One type under every cell, faiss' own search of the same structure, and flat search of everything, in turn."""
    everything = cells[0]
    plain = PlainFaiss(opened, folders)
    searches: list[tuple[str, Searcher, Cell]] = [("exact over all", flat.search, everything)]
    searches += [("quire", opened.search, cell) for cell in cells]
    for cell in cells:
        searches += [(f"faiss {breadth}", plain.at(breadth), cell) for breadth in SWEEPS[opened.kind]]
    found = measure(searches, queries, 10)
    exact_p95 = percentile(found["exact over all", everything.name].times_ms, 0.95)
    own_p95 = percentile(found["quire", everything.name].times_ms, 0.95)
    limit_ms = max(2 * own_p95, exact_p95 / 6)
    rows = []
    for cell in cells:
        measured = found["quire", cell.name]
        opened.strategies.clear()
        for masks in cell.masks:
            opened.search(queries[0], 10, masks)
        rows.append(
            {
                "cell": cell.name,
                **measured.figures(),
                "strategy": sorted(opened.strategies),
                "recall_holds": measured.recall >= 0.99,
                "p95_holds": percentile(measured.times_ms, 0.95) <= limit_ms,
            }
        )
    return {
        "bytes_per_vector": round(opened.bytes_per_vector(), 1),
        "exact_over_all_p95_ms": round(exact_p95, 3),
        "p95_limit_ms": round(limit_ms, 3),
        "cells": rows,
        "faiss": [
            {"search": name, "cell": cell, **measured.figures()}
            for (name, cell), measured in found.items()
            if name.startswith("faiss")
        ],
    }


def measure_k50(
    opened: Opened, flat: Opened, folders: Sequence[Path], everything: Cell, queries: Vectors
) -> dict[str, Any]:  # Any: a JSON record
    """recall@50 of all rows, and how much faster than flat search it is; for flat itself, against faiss alone."""
    bare = PlainFaiss(flat, folders).at(0)
    searches = [("faiss", bare, everything), ("flat", flat.search, everything), ("own", opened.search, everything)]
    found = measure(searches, queries, 50)
    median = {name: percentile(measured.times_ms, 0.5) for (name, _), measured in found.items()}
    return {
        "recall_at_50": round(found["own", everything.name].recall, 4),
        "p50_ms": round(median["own"], 3),
        "speed_of_flat": round(median["flat"] / median["own"], 2),
        "flat_speed_of_bare_faiss": round(median["faiss"] / median["flat"], 3),
    }


def plot(figures: dict[str, Any], path: Path) -> None:  # Any: the record
    """Recall against time under topic-shaped permissions: a panel a share, faiss' curves and where quire stands."""
    shown = ["all", "10.00% topic", "1.00% topic", "0.10% topic"]
    figure, panels = pyplot.subplots(1, len(shown), figsize=(16, 4.2), sharey=True)
    colours = {kind: f"C{place}" for place, kind in enumerate(KINDS)}
    for panel, name in zip(panels, shown, strict=True):
        for kind, measured in figures["kinds"].items():
            curve = [(row["p50_ms"], row["recall"]) for row in measured["faiss"] if row["cell"] == name]
            panel.plot(*zip(*curve, strict=True), ".--", color=colours[kind], alpha=0.6, label=f"faiss {kind}")
            (own,) = [row for row in measured["cells"] if row["cell"] == name]
            panel.plot(own["p50_ms"], own["recall"], "*", ms=13, color=colours[kind], label=f"quire {kind}")
        panel.set(title=f"may read: {name}", xlabel="median ms of one thread", xscale="log")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("recall@10")
    panels[-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def index_config(kind: str) -> DenseIndexConfig:
    """The configuration that is measured: the defaults of the kind."""
    return DenseIndexConfig.model_validate({"kind": kind})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.search", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--build", metavar="KIND:SHARD", help="build one shard of one type, and end")
    parser.add_argument("--cache", type=Path, default=PROJECT / "var" / "bench", help="folder of vectors and indexes")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record and the plot")
    args = parser.parse_args()
    run = Run("search")
    config = load_config(args.config)
    corpus = build_corpus(args.data, config, args.cache, int(args.rows))
    folders = shard_folders(corpus, args.cache)
    if args.build:
        kind, _, shard = args.build.partition(":")
        built(folders[int(shard)], index_config(kind))
        return
    holds = run_benchmark(run, config, corpus, folders, args)
    raise SystemExit(0 if holds else 1)


def run_benchmark(
    run: Run, config: RagConfig, corpus: SearchCorpus, folders: Sequence[Path], args: argparse.Namespace
) -> bool:
    """Builds what is missing, measures every type, writes the record, and returns whether every claim holds."""
    rng = np.random.default_rng(0)
    queries = corpus.queries[rng.choice(len(corpus.queries), min(args.queries, len(corpus.queries)), replace=False)]
    cells = list(make_cells(corpus, queries, (10, 50)))
    figures: dict[str, Any] = {"rows": len(corpus.vectors), "shards": NUM_SHARDS, "queries": len(queries), "kinds": {}}
    flat = Opened(folders, index_config("flat"))
    with one_thread():
        for kind in args.kinds:
            opened = flat if kind == "flat" else Opened(folders, index_config(kind))
            measured = measure_kind(opened, flat, folders, cells, queries)
            measured["k_50"] = measure_k50(opened, flat, folders, cells[0], queries)
            figures["kinds"][kind] = measured
            columns = ("cell", "recall", "p50_ms", "p95_ms", "strategy")
            title = f"{kind}: p95 limit {measured['p95_limit_ms']} ms, {measured['bytes_per_vector']} bytes a vector"
            print_table(title, columns, [[str(row[name]) for name in columns] for row in measured["cells"]])
    holds = [
        verdict(
            all(row["recall_holds"] for row in measured["cells"]), f"{kind}: recall@10 is 0.99 or more for every caller"
        )
        & verdict(
            all(row["p95_holds"] for row in measured["cells"]), f"{kind}: p95 is inside its limit for every caller"
        )
        for kind, measured in figures["kinds"].items()
    ]
    if "flat" in figures["kinds"]:
        speed = figures["kinds"]["flat"]["k_50"]["flat_speed_of_bare_faiss"]
        holds.append(verdict(speed >= 0.9, f"flat has {speed} of faiss' own speed (0.9 wanted)"))
    if "ivf_pq" in figures["kinds"]:
        found = figures["kinds"]["ivf_pq"]
        share = found["bytes_per_vector"] / (4 * corpus.vectors.shape[1])
        good = found["k_50"]["recall_at_50"] >= 0.97 and found["k_50"]["speed_of_flat"] >= 10 and share <= 1 / 8
        holds.append(verdict(good, f"ivf_pq: {found['k_50']}, {share:.3f} of flat's memory"))
    if set(args.kinds) == set(KINDS):
        run.write(figures, config, args.results)
        plot(figures, args.results / "search.png")
    return all(holds)


if __name__ == "__main__":
    main()
