"""Does a question notice that versions change under it?

python -m bench.switching [--endpoint query | search] [--seconds 60]

Over HTTP, against the running service: 8 clients ask the golden set without a pause. In half of the rounds nothing
changes, in the other half another version goes live every 2 s, by publish and rollback in turn. The rounds alternate,
so that whatever else the machine does meets both. The second version is the live one with a mark at the end of every
chunk, so its chunk ids are others, and an answer is mixed where it names one version and has a chunk of the other. The
version that was live is live again at the end.
"""

import argparse
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.load import Ask, Outcome, load_golden_asks, open_askers, repeated
from bench.report import PROJECT, RESULTS, Run, out, print_table, verdict
from rag.config import RagConfig, load_config
from rag.data import Chunk
from rag.evaluate.collection_index import commit_chunks
from rag.ids import VersionId, chunk_id
from rag.index.contents import read_chunks
from rag.index.store import IndexStore, open_store
from rag.parts import build_embedder

CLIENTS, EVERY_S, SETTLE_S = 8, 2.0, 6.0
RATIO = 1.5
K = 10
MARK = " (second edition)"

Figures = dict[str, Any]  # Any: numbers by name, as JSON


@dataclass(frozen=True, slots=True)
class Round:
    """What the clients got while nothing changed, or while versions did."""

    outcomes: tuple[Outcome, ...]
    switches: int


def second_edition(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks with the mark at their ends, under ids of their own."""
    marked = []
    for place, chunk in enumerate(chunks):
        text = chunk.text + MARK
        changed = replace(chunk, text=text, end=chunk.start + len(text))
        marked.append(replace(changed, id=chunk_id(chunk.document_id, changed.embedded_text, place)))
    return marked


def is_mixed(outcome: Outcome, chunks: Mapping[str, frozenset[str]]) -> bool:
    """Whether a chunk of the outcome isn't of the version that it names; `chunks` has the ids of each version."""
    return not {passage.chunk_id for passage in outcome.passages} <= chunks[outcome.version]


@contextmanager
def two_versions(config: RagConfig) -> Iterator[dict[str, frozenset[str]]]:
    """The live version and its second edition, each with its chunk ids, the live one first."""
    store = open_store(config)
    live = store.current()
    first = read_chunks(store, live)
    second = second_edition(first)
    vectors = build_embedder(config).embed_passages([chunk.embedded_text for chunk in second])
    version = commit_chunks(config, second, vectors, parent=live)
    try:
        yield {live: frozenset(c.id for c in first), version: frozenset(c.id for c in second)}
    finally:
        store.publish(live)


def one_round(ask: Callable[[int], Outcome], seconds: float, store: IndexStore, second: VersionId | None) -> Round:
    """The clients for so long; versions change where there is a second one."""
    over = threading.Event()
    turns = itertools.count()

    def client() -> list[Outcome]:
        seen = []
        while not over.is_set():
            seen.append(ask(next(turns)))
        return seen

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client) for _ in range(CLIENTS)]
        switches = _switch_until(time.monotonic() + seconds, store, second)
        over.set()
        return Round(tuple(outcome for one in clients for outcome in one.result()), switches)


def _switch_until(end_s: float, store: IndexStore, second: VersionId | None) -> int:
    switches = 0
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(EVERY_S, left_s))
        if second is None or left_s < EVERY_S:
            continue
        if store.current() == second:
            store.rollback()
        else:
            store.publish(second)
        switches += 1
    return switches


def summarize(rounds: Sequence[Round], chunks: Mapping[str, frozenset[str]]) -> Figures:
    """One side's figures over its rounds."""
    outcomes = [outcome for one in rounds for outcome in one.outcomes]
    whole = [outcome for outcome in outcomes if outcome.whole]
    times_ms = np.array([outcome.total_ms for outcome in outcomes])
    return {
        "answers": len(outcomes),
        "failed": len(outcomes) - len(whole),
        "failures": sorted({o.error or f"partial: {', '.join(o.partial)}" for o in outcomes if not o.whole})[:5],
        "mixed": sum(is_mixed(outcome, chunks) for outcome in whole),
        "switches": sum(one.switches for one in rounds),
        "versions_seen": len({outcome.version for outcome in whole}),
        **{f"p{q}_ms": round(float(np.percentile(times_ms, q)), 1) for q in (50, 95, 99)},
        "p99_ms_of_rounds": [
            round(float(np.percentile([o.total_ms for o in one.outcomes], 99)), 1) for one in rounds if one.outcomes
        ],
    }


def measure(args: argparse.Namespace, config: RagConfig, asks: Sequence[Ask]) -> Figures:
    """The rounds of both sides over the running service."""
    store = open_store(config)
    with open_askers(args.url, config, [ask.asker for ask in asks]) as askers, two_versions(config) as chunks:
        live, second = map(VersionId, chunks)

        def ask(turn: int) -> Outcome:
            return askers.call(args.endpoint, asks[turn % len(asks)], K)

        sides: dict[str, list[Round]] = {"steady": [], "switching": []}
        one_round(ask, SETTLE_S, store, second)  # loads both versions
        for _ in range(args.rounds):
            for side, other in (("steady", None), ("switching", second)):
                store.publish(live)
                time.sleep(SETTLE_S)  # until every replica follows
                sides[side].append(one_round(ask, args.seconds / args.rounds, store, other))
        num_chunks = len(chunks[live])
        figures: Figures = {side: summarize(rounds, chunks) for side, rounds in sides.items()}
    ratio = round(figures["switching"]["p99_ms"] / figures["steady"]["p99_ms"], 3)
    return {"endpoint": args.endpoint, "chunks": num_chunks, "clients": CLIENTS, **figures, "p99_ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.switching", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--sample", type=Path, default=PROJECT / "bench" / "sample", help="folder of golden.jsonl")
    parser.add_argument("--endpoint", choices=("query", "search"), default="query")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each side, over all its rounds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run(f"switching-{args.endpoint}", module="switching")
    config = load_config(args.config)
    golden = [ask for ask in load_golden_asks(args.sample) if not ask.history]
    figures = measure(args, config, repeated(golden, len(golden), args.seed))
    steady, switching = figures["steady"], figures["switching"]
    columns = ("answers", "failed", "mixed", "switches", "p50_ms", "p95_ms", "p99_ms")
    rows = [(name, *(figures[name][column] for column in columns)) for name in ("steady", "switching")]
    print_table(f"{args.endpoint} by {CLIENTS} clients", ("side", *columns), rows)
    claims = {
        "no request fails or is partial": not steady["failed"] and not switching["failed"],
        "no answer is from two versions": not steady["mixed"] and not switching["mixed"],
        "both versions answered": switching["versions_seen"] == 2 and switching["switches"] > 0,
        f"p99 is {figures['p99_ratio']} of the steady one's (limit {RATIO})": figures["p99_ratio"] <= RATIO,
    }
    run.write({**figures, "claims": claims}, config, args.results)
    held = [verdict(holds, claim) for claim, holds in claims.items()]
    out.print()
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
