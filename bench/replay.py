"""Does every stored trace repeat bit by bit, in another process and by a service that was restarted in between?

python -m bench.replay [--searches 180] [--answers 20] [--clients 4] [--no-restart]
python -m bench.replay --ask-only                  then restart the service by hand, and
python -m bench.replay --replay-only var/replay.json

Golden questions are put to the running service by every kind of asker, several at a time, so that queries and passages
share batches. Their traces are then repeated twice: in this process, as `quire replay` does, and by asking the service
once more and comparing the new trace with the old one. Runs on the service's machine: it reads its trace database.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from bench.load import Ask, Askers, Endpoint, Outcome, load_golden_asks, open_askers, repeated
from bench.report import PROJECT, RESULTS, Run, need, out, print_table, stop, summary, verdict
from jobs.trace_commands import MACHINE_OPERATOR, open_traces, replay_stored
from rag.config import RagConfig, load_config
from rag.data import Turn
from rag.errors import NotFound
from rag.evaluate.golden import read_principals
from rag.evaluate.replay import Replay, Verdict, first_difference, not_replayable
from rag.ids import TraceId
from rag.rewrite.follow_up import BY_MODEL
from rag.trace import Trace

Figures = dict[str, Any]  # Any: numbers by name, as JSON


@dataclass(frozen=True, slots=True)
class Asked:
    """One question that the service has answered, and the trace that it left."""

    endpoint: Endpoint
    text: str
    asker: str
    history: tuple[Turn, ...]
    trace_id: TraceId

    @property
    def ask(self) -> Ask:
        return Ask(self.text, self.asker, self.history)


def planned(
    golden: Sequence[Ask], askers: Sequence[str], searches: int, answers: int, seed: int
) -> list[tuple[Endpoint, Ask]]:
    """Searches of golden questions by whoever asks, each pair once until they run out, and answers to their own askers.

    Follow-ups are answered only: a search knows no history.
    """
    texts = sorted({ask.text for ask in golden if not ask.history})
    pairs = [Ask(text, asker) for text in texts for asker in askers]
    plan: list[tuple[Endpoint, Ask]] = [("search", ask) for ask in repeated(pairs, searches, seed)]
    plan += [("query", ask) for ask in repeated(golden, answers, seed)]
    random.Random(seed).shuffle(plan)  # so that both kinds are under way at once
    return plan


def compared(old: Trace, new: Trace) -> Replay:
    """What became of a trace when the service was asked the same once more."""
    if old.versions.index != new.versions.index:
        return not_replayable(old, [f"the index is now {new.versions.index}"])
    if missing := {*old.partial, *new.partial}:
        return not_replayable(old, [f"one of the two is partial, without {', '.join(sorted(missing))}"])
    if BY_MODEL in old.rewrites or BY_MODEL in new.rewrites:
        return not_replayable(old, ["a language model wrote the query, and would write another"])
    difference = first_difference(old, new)
    found: Verdict = "identical" if difference is None else "different"
    return Replay(old.id, old.kind, old.versions.index, found, difference)


def replay_figures(found: Sequence[Replay]) -> Figures:
    """How many are identical, of those that can be repeated; where the others differ first, and why some can't be."""
    counts = Tally(one.verdict for one in found)
    repeatable = counts["identical"] + counts["different"]
    return {
        "traces": len(found),
        "identical": counts["identical"],
        "different": counts["different"],
        "not_replayable": counts["not_replayable"],
        "identical_share": round(counts["identical"] / repeatable, 6) if repeatable else None,
        "first_differences": dict(sorted(Tally(one.difference.stage for one in found if one.difference).items())),
        "examples": [f"{one.trace_id}: {one.difference}" for one in found if one.difference][:5],
        "reasons": dict(sorted(Tally(reason for one in found for reason in one.reasons).items())),
        "notes": dict(sorted(Tally(note for one in found for note in one.notes).items())),
    }


def write_asked(path: Path, asked: Sequence[Asked]) -> None:
    """Write what was asked, to be read after a restart."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(one) for one in asked], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_asked(path: Path) -> list[Asked]:
    """What `write_asked` wrote."""
    rows = json.loads(need(path, "the file of traces to replay").read_text(encoding="utf-8"))
    return [Asked(**{**row, "history": tuple(Turn(**turn) for turn in row["history"])}) for row in rows]


# ---------------------------------------------------------------- against the service


def ask_all(askers: Askers, plan: Sequence[tuple[Endpoint, Ask]], k: int, clients: int) -> list[Outcome]:
    """What became of every planned question, in order."""

    def one(endpoint: Endpoint, ask: Ask) -> Outcome:
        outcome = askers.call(endpoint, ask, k)
        done(outcome)
        return outcome

    with _progress("asking", len(plan)) as done, ThreadPoolExecutor(clients) as pool:
        return list(pool.map(one, *zip(*plan, strict=True)))


def restart(config_dir: Path) -> float:
    """Stop and start what `quire up` started; the seconds until it was healthy again."""
    started = time.perf_counter()
    for command in ("down", "up"):
        arguments = [sys.executable, "-m", "jobs.cli", command, "--config-dir", str(config_dir)]
        done = subprocess.run(arguments, cwd=PROJECT, check=False)
        if done.returncode != 0:
            stop(f"`quire {command}` ended with {done.returncode}; restart the service by hand and use --replay-only")
    return time.perf_counter() - started


def repeat_over_http(askers: Askers, asked: Sequence[Asked], config: RagConfig, k: int, clients: int) -> list[Replay]:
    """Everything asked once more; each new trace held against the old one."""
    outcomes = ask_all(askers, [(one.endpoint, one.ask) for one in asked], k, clients)
    traces = open_traces(config)
    try:
        found = []
        for one, outcome in zip(asked, outcomes, strict=True):
            old = traces.load(one.trace_id, MACHINE_OPERATOR)
            if outcome.ok:
                found.append(compared(old, traces.load(TraceId(outcome.trace_id), MACHINE_OPERATOR)))
            else:
                found.append(not_replayable(old, [f"asking once more failed: {outcome.status} {outcome.error}"]))
        return found
    finally:
        traces.close()


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[object], None]]:
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda _: progress.advance(task)


def _ask(args: argparse.Namespace, config: RagConfig) -> tuple[list[Asked], Figures]:
    """Asks the running service, and writes down which traces it left."""
    names = list(read_principals(need(args.sample / "principals.yaml", "the principals")))
    plan = planned(load_golden_asks(args.sample), names, args.searches, args.answers, args.seed)
    with open_askers(args.url, config, names) as askers:
        outcomes = ask_all(askers, plan, args.k, args.clients)
    asked = [
        Asked(endpoint, ask.text, ask.asker, ask.history, TraceId(outcome.trace_id))
        for (endpoint, ask), outcome in zip(plan, outcomes, strict=True)
        if outcome.ok
    ]
    if without := sum(not one.trace_id for one in asked):
        stop(f"{without} answers name no trace: the service is older than this benchmark")
    write_asked(args.ids, asked)
    out.print(f"{len(asked)} traces noted in {args.ids}")
    return asked, {
        "asked": len(plan),
        "searches": args.searches,
        "answers": args.answers,
        "clients": args.clients,
        "failed": dict(Tally(f"{outcome.status} {outcome.error}" for outcome in outcomes if not outcome.ok)),
        "partial": sum(bool(outcome.partial) for outcome in outcomes),
        "total_ms": summary([outcome.total_ms for outcome in outcomes]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--sample", type=Path, default=PROJECT / "bench" / "sample", help="folder of golden.jsonl")
    parser.add_argument("--searches", type=int, default=180)
    parser.add_argument("--answers", type=int, default=20, help="questions that the generator answers too")
    parser.add_argument("--clients", type=int, default=4, help="questions under way at once: they share batches")
    parser.add_argument("--k", type=int, default=10, help="results of a search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ids", type=Path, help="where the traces are noted; replay.json in `var` by default")
    parser.add_argument("--no-restart", action="store_true", help="do not restart the service in between")
    parser.add_argument("--ask-only", action="store_true", help="stop after asking")
    parser.add_argument("--replay-only", type=Path, metavar="FILE", help="replay what an earlier call noted there")
    parser.add_argument("--skip-http", action="store_true", help="do not ask the service once more")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("replay")
    config = load_config(args.config)
    args.ids = args.ids or config.var / "replay.json"
    figures: Figures = {"restarted": "by hand" if args.replay_only else not args.no_restart}
    if args.replay_only is not None:
        asked = read_asked(args.replay_only)
    else:
        asked, figures["asking"] = _ask(args, config)
        if args.ask_only:
            return
        if not args.no_restart:
            figures["restart_s"] = round(restart(args.config.parent), 1)
    if not asked:
        stop("there is no trace to replay")

    try:
        with _progress("replaying in this process", len(asked)) as done:
            figures["in_process"] = replay_figures(replay_stored(config, [one.trace_id for one in asked], done))
        if not args.skip_http:
            with open_askers(args.url, config, [one.asker for one in asked]) as askers:
                repeated_ones = repeat_over_http(askers, asked, config, args.k, args.clients)
            figures["over_http"] = replay_figures(repeated_ones)
    except NotFound as error:
        stop(f"{error}; the traces of {args.replay_only or args.ids} are not in the database of this configuration")

    checks = []
    for name in ("in_process", "over_http"):
        if name not in figures:
            continue
        shown = figures[name]
        print_table(f"replayed: {name}", ("measure", "value"), [(key, str(value)) for key, value in shown.items()])
        whole = shown["identical"] > 0 and shown["different"] == 0
        checks.append(verdict(whole, f"{name}: {shown['identical']} identical, {shown['different']} different"))
    run.write(figures, config, args.results)
    raise SystemExit(0 if all(checks) else 1)


if __name__ == "__main__":
    main()
