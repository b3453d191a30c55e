"""What do askers notice when a shard's replica is killed under load, and how long until everything is whole again?

python -m bench.faults [--endpoint search | query] [--questions 200] [--clients 8] [--shard 0]

The questions are first asked undisturbed. Then they are asked again, and in the middle one replica of the shard is
killed; probes go on until nothing has been partial for a while. An answer is wrong when

- it calls itself whole, and its first five passages are not those of the undisturbed run, or
- it calls itself partial, and holds a chunk of a shard that it says is missing, which the undisturbed run did not have:
  a shard may die between its search and what is fetched from it later, and then both are true.

A partial answer is not held to be a subset of the whole one: scores are standardised over the candidates that are
there, and what stood behind the missing shard's chunks moves up. How many of the undisturbed five from the shards that
did answer are still among its first ten is reported beside it.
"""

import argparse
import os
import signal
import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.load import Ask, Askers, AtNth, Outcome, closed_loop, load_golden_asks, nothing, open_askers, repeated
from bench.report import PROJECT, RESULTS, Run, out, print_table, stop, summary, verdict
from rag.config import RagConfig, load_config
from rag.evaluate.metrics import mean
from rag.ids import DocumentId, shard_of

TOP, KEPT = 5, 10
WHOLE_AGAIN_S, QUIET_S, PROBE_EVERY_S, GIVE_UP_S = 60.0, 10.0, 0.25, 180.0
REPLICA = "SERVE_REPLICA::"  # how Serve begins the names of its replicas' actors


@dataclass(frozen=True, slots=True)
class Killed:
    """One replica that is no more."""

    actor: str
    at_s: float  # time.perf_counter()
    replicas_before: int


class ShardKiller:
    """Finds and kills replicas of one shard's deployment on a cluster that runs on this machine."""

    def __init__(self, address: str, deployment: str) -> None:
        import ray

        ray.init(address=address, namespace="serve", logging_level="ERROR", log_to_driver=False)
        self._deployment = deployment
        self._replicas_before = len(self.replicas())
        self._victim = self._find_victim()
        self.killed: Killed | None = None

    def _find_victim(self) -> tuple[str, int]:
        """The first replica and its process, looked up before the load: asking Ray takes seconds under it."""
        from ray.util.state import list_actors

        for name in self.replicas():
            for actor in list_actors(filters=[("name", "=", name), ("state", "=", "ALIVE")]):
                return name, int(actor.pid)
        raise RuntimeError(f"no replica of {self._deployment} is alive")

    def replicas(self) -> list[str]:
        """The names of the deployment's replicas that are alive."""
        from ray.util import list_named_actors

        names = [actor["name"] for actor in list_named_actors(all_namespaces=True)]
        return sorted(name for name in names if name.startswith(REPLICA) and f"#{self._deployment}#" in f"#{name}")

    def kill_one(self) -> None:
        """Kill the replica's process, as the operating system would: nothing is drained.

        `ray.kill` takes effect up to 40 s later where all cores are busy.
        """
        name, pid = self._victim
        self.killed = Killed(name, time.perf_counter(), self._replicas_before)
        os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        import ray

        ray.shutdown()


def wrong(outcome: Outcome, undisturbed: Outcome, num_shards: int) -> str:
    """Why the answer is wrong, in words; empty when it is not."""
    if not outcome.ok:
        return ""  # an error is counted as one
    if outcome.whole:
        same = _top(outcome) == _top(undisturbed)
        return "" if same or not undisturbed.whole else "calls itself whole, and its passages are other ones"
    missing = missing_shards(outcome.partial)
    known = {passage.chunk_id for passage in undisturbed.passages}
    strays = [
        p.uri
        for p in outcome.passages
        if p.chunk_id not in known and shard_of(DocumentId(p.document_id), num_shards) in missing
    ]
    return f"says a shard is missing, and holds {strays[0]} of it" if strays else ""


def missing_shards(partial: Sequence[str]) -> set[int]:
    """The shards that an answer says are missing: `shard 1` -> 1."""
    return {int(word.split()[1]) for word in partial if word.startswith("shard ")}


def kept_share(outcome: Outcome, undisturbed: Outcome, num_shards: int) -> float | None:
    """Of the undisturbed first five, from the shards that did answer: the share among a partial answer's first ten."""
    missing = missing_shards(outcome.partial)
    expected = [
        passage.chunk_id
        for passage in undisturbed.passages[:TOP]
        if shard_of(DocumentId(passage.document_id), num_shards) not in missing
    ]
    there = {passage.chunk_id for passage in outcome.passages[:KEPT]}
    return len(there & set(expected)) / len(expected) if expected else None


def probe_until_quiet(call: Callable[[Ask, float], Outcome], ask: Ask, since_s: float) -> list[Outcome]:
    """Probes, one after the other, until all have been whole for a while, or long enough after the kill."""
    probes: list[Outcome] = []
    last_trouble_s = time.perf_counter()
    while (now := time.perf_counter()) - last_trouble_s < QUIET_S and now - since_s < GIVE_UP_S:
        probes.append(call(ask, now))
        if not probes[-1].whole:
            last_trouble_s = time.perf_counter()
        time.sleep(PROBE_EVERY_S)
    return probes


def seconds_until_whole(outcomes: Sequence[Outcome], killed_s: float) -> float:
    """From the kill to the end of the last answer that was partial or an error; 0.0 when there was none."""
    troubled = [outcome.ended_s for outcome in outcomes if not outcome.whole and outcome.ended_s > killed_s]
    return max(troubled, default=killed_s) - killed_s


def _top(outcome: Outcome) -> list[str]:
    return [passage.chunk_id for passage in outcome.passages[:TOP]]


def connect(args: argparse.Namespace, config: RagConfig) -> ShardKiller:
    """Connect to the cluster that `quire up` recorded, or to the address given."""
    from jobs.local_cluster import find_cluster, ray_environment

    os.environ.update({name: value for name, value in ray_environment().items() if name.startswith("RAY_")})
    record = find_cluster(config.var / "cluster.json")
    address = args.address or (record.address if record else "auto")
    try:
        return ShardKiller(address, f"shard-{args.shard}")
    except ConnectionError:
        stop(f"no Ray cluster at {address}; start the service with `quire up`, or give --address")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--sample", type=Path, default=PROJECT / "bench" / "sample", help="folder of golden.jsonl")
    parser.add_argument("--endpoint", choices=("search", "query"), default="search")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--shard", type=int, default=0, help="whose replica is killed")
    parser.add_argument("--address", help="of Ray; that of the recorded local cluster by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    config = load_config(args.config)
    golden = load_golden_asks(args.sample)
    plain = [ask for ask in golden if not ask.history]
    planned = repeated(plain if args.endpoint == "search" else golden, args.questions, args.seed)
    with open_askers(args.url, config, [ask.asker for ask in golden]) as askers:
        killer = connect(args, config)
        try:
            _measure(args, config, askers, planned, killer)
        finally:
            killer.close()


def _measure(
    args: argparse.Namespace, config: RagConfig, askers: Askers, planned: Sequence[Ask], killer: ShardKiller
) -> None:
    run = Run(f"faults-{args.endpoint}", module="faults")
    num_shards, k = config.index.num_shards, max(KEPT, TOP)

    def call(ask: Ask, due_s: float) -> Outcome:
        return askers.call(args.endpoint, ask, k, due_s)

    out.print(f"{len(planned)} questions undisturbed")
    undisturbed = closed_loop(planned, call, args.clients, nothing)
    out.print(f"{len(planned)} questions, and a replica of shard {args.shard} killed after {len(planned) // 2}")
    disturbed = closed_loop(planned, call, args.clients, AtNth(max(1, len(planned) // 2), killer.kill_one))
    killed = killer.killed
    if killed is None:
        stop("no replica was killed")
    probes = probe_until_quiet(lambda ask, due_s: askers.search(ask, k, due_s), planned[0], killed.at_s)
    alive = killer.replicas()

    pairs = list(zip(disturbed, undisturbed, strict=True))
    reasons = [reason for pair in pairs if (reason := wrong(*pair, num_shards))]
    partial = [pair for pair in pairs if pair[0].ok and pair[0].partial]
    kept = [share for pair in partial if (share := kept_share(*pair, num_shards)) is not None]
    statuses = Tally(outcome.status for outcome in disturbed)
    server_errors = sum(count for status, count in statuses.items() if status >= 500 or status == 0)
    whole_s = seconds_until_whole([*disturbed, *probes], killed.at_s)
    times = {
        name: summary([o.total_ms for o in found]) for name, found in (("before", undisturbed), ("with", disturbed))
    }
    figures: dict[str, Any] = {  # Any: numbers by name, as JSON
        "endpoint": args.endpoint,
        "questions": len(planned),
        "clients": args.clients,
        "replicas_before": killed.replicas_before,
        "replicas_after": len(alive),
        "killed_is_replaced": bool(alive) and killed.actor not in alive,
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "undisturbed_not_whole": sum(not outcome.whole for outcome in undisturbed),
        "server_errors": server_errors,
        "errors": sorted({outcome.error for outcome in disturbed if outcome.error})[:10],
        "partial": len(partial),
        "partial_words": sorted({word for outcome, _ in partial for word in outcome.partial}),
        "partial_kept_share": round(mean(kept), 3) if kept else None,
        "wrong": len(reasons),
        "wrong_reasons": sorted(set(reasons))[:10],
        "seconds_until_whole": round(whole_s, 2),
        "probes": len(probes),
        "total_ms": times,
    }
    shown = [(name, str(value)) for name, value in figures.items() if name != "total_ms"]
    print_table("a replica killed under load", ("measure", "value"), shown)
    checks = [
        verdict(server_errors == 0, f"no 5xx and no broken connection ({server_errors})"),
        verdict(not reasons, f"no wrong answer ({len(reasons)})"),
        verdict(bool(partial) or killed.replicas_before > 1, f"answers said that they were partial ({len(partial)})"),
        verdict(
            bool(alive) and whole_s < WHOLE_AGAIN_S, f"whole again after {whole_s:.1f} s, limit {WHOLE_AGAIN_S:.0f} s"
        ),
    ]
    run.write(figures, config, args.results)
    raise SystemExit(0 if all(checks) else 1)


if __name__ == "__main__":
    main()
