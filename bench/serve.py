"""How long does each stage of an answer take under load, and how much of it is queueing and transport?

python -m bench.serve --url http://127.0.0.1:8000 [--rate 0.5 | --clients 4] [--questions 60] [--runs 3]
python -m bench.serve --transport

Questions of the golden set, by their own askers. With --rate they arrive as a Poisson process (an open loop), else each
client sends its next one when the last came back. The first --warm-up answers of every run are thrown away. Stages are
held against the budget of the design; `--transport` asks for searches with one client, and compares what HTTP took
with what the stages computed.
"""

import argparse
import statistics
from collections import Counter as Tally
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.load import Ask, Askers, Outcome, closed_loop, load_golden_asks, nothing, open_askers, open_loop, repeated
from bench.report import PROJECT, RESULTS, Run, percentile, print_table, stop, summary, verdict
from rag.config import load_config

# Milliseconds at p50: SPEC D5.
BUDGET_MS = {"guard": 30.0, "rewrite": 250.0, "embed": 15.0, "search": 30.0, "rerank": 80.0, "fetch": 20.0}
RETRIEVAL_MS, FIRST_TOKEN_MS, TPOT_MS, END_TO_END_MS = 430.0, 750.0, 20.0, 4_750.0
TRANSPORT_MS = 15.0
SHARES = ("p50", "p95", "p99")

Figures = dict[str, Any]  # Any: numbers by name, as JSON


def stage_figures(outcomes: Sequence[Outcome]) -> dict[str, Figures]:
    """p50, p95 and p99 of each stage: wall, compute, and the rest, which is queueing and transport."""
    wall: dict[str, list[float]] = {}
    compute: dict[str, list[float]] = {}
    for outcome in outcomes:
        for stage in outcome.stages:
            wall.setdefault(stage.name, []).append(stage.wall_ms)
            compute.setdefault(stage.name, []).append(stage.compute_ms)
    return {
        name: {
            "count": len(walls),
            "wall_ms": summary(walls),
            "compute_ms": summary(compute[name]),
            "rest_ms": summary([both - alone for both, alone in zip(walls, compute[name], strict=True)]),
            "budget_ms": BUDGET_MS.get(name),
        }
        for name, walls in wall.items()
    }


def whole_figures(outcomes: Sequence[Outcome]) -> dict[str, Figures]:
    """p50, p95 and p99 of what the asker waits for, seen from the asker's side."""
    retrieval = [o.retrieval_ms for o in outcomes if o.retrieval_ms is not None]
    first = [o.first_text_ms for o in outcomes if o.first_text_ms is not None and _generated(o)]
    measured = {
        "retrieval_ready_ms": (retrieval, RETRIEVAL_MS),
        "first_token_ms": (_first_tokens(outcomes), FIRST_TOKEN_MS),  # the engine's, as the gateway saw it
        "first_text_ms": (first, FIRST_TOKEN_MS),  # the first checked piece that reached the asker
        "tpot_ms": (_per_token(outcomes), TPOT_MS),
        "end_to_end_ms": ([o.total_ms for o in outcomes], END_TO_END_MS),
    }
    return {
        name: {"count": len(values), **summary(values), "budget_ms": budget}
        for name, (values, budget) in measured.items()
        if values
    }


def _generated(outcome: Outcome) -> bool:
    return any(stage.name == "generate" for stage in outcome.stages)


def _first_tokens(outcomes: Sequence[Outcome]) -> list[float]:
    """Milliseconds from the question's arrival at the gateway to the model's first token."""
    return [
        stage.start_ms + stage.wall_ms
        for outcome in outcomes
        for stage in outcome.stages
        if stage.name == "first_token"
    ]


def _per_token(outcomes: Sequence[Outcome]) -> list[float]:
    """Milliseconds per token of the model's after the first piece, which the engine sends with its first tokens."""
    generating = [stage for outcome in outcomes for stage in outcome.stages if stage.name == "generate"]
    return [stage.wall_ms / (stage.counts["tokens"] - 1) for stage in generating if stage.counts.get("tokens", 0) > 1]


def transport_ms(outcomes: Sequence[Outcome]) -> list[float]:
    """For each search, what HTTP took beyond the computing of its stages."""
    return [outcome.total_ms - sum(stage.compute_ms for stage in outcome.stages) for outcome in outcomes]


def load_run(askers: Askers, asks: Sequence[Ask], args: argparse.Namespace, seed: int) -> list[Outcome]:
    """The outcomes of one run without its warm-up."""
    planned = repeated(asks, args.warm_up + args.questions, seed)

    def call(ask: Ask, due_s: float) -> Outcome:
        return askers.query(ask, due_s)

    closed_loop(planned[: args.warm_up], call, max(1, args.clients), nothing)
    timed = planned[args.warm_up :]
    if args.rate:
        return open_loop(timed, call, args.rate, seed, nothing)
    return closed_loop(timed, call, args.clients, nothing)


def show_stages(title: str, stages: dict[str, Figures]) -> None:
    rows = []
    for name, figures in stages.items():
        budget = figures["budget_ms"]
        inside = None if budget is None else "yes" if figures["wall_ms"]["p50"] <= budget else "NO"
        times = [figures[kind][share] for kind in ("wall_ms", "compute_ms", "rest_ms") for share in SHARES]
        rows.append((name, figures["count"], *times, budget, inside))
    kinds = ("wall", "compute", "rest")
    columns = ("stage", "n", *(f"{kind} {share}" for kind in kinds for share in SHARES), "budget", "p50 inside")
    print_table(title, columns, rows)


def show_whole(whole: dict[str, Figures]) -> None:
    rows = [
        (
            name,
            f["count"],
            *(f[share] for share in SHARES),
            f["budget_ms"],
            "yes" if f["p50"] <= f["budget_ms"] else "NO",
        )
        for name, f in whole.items()
    ]
    print_table("as the asker sees it, ms", ("measure", "n", *SHARES, "budget", "p50 inside"), rows)


def spread(runs: Sequence[Sequence[Outcome]]) -> Figures:
    """p50 of the end-to-end time and of the first token in each run, and their median."""
    spreads: Figures = {}
    for name, pick in (("end_to_end_ms", _totals), ("first_token_ms", _first_tokens)):
        medians = [round(percentile(values, 0.5), 1) for run in runs if (values := pick(run))]
        if medians:
            spreads[name] = {"p50_of_each_run": medians, "median": statistics.median(medians)}
    return spreads


def _totals(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.total_ms for outcome in outcomes]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.serve", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--sample", type=Path, default=PROJECT / "bench" / "sample", help="folder of golden.jsonl")
    parser.add_argument("--clients", type=int, default=1, help="of the closed loop")
    parser.add_argument("--rate", type=float, help="arrivals a second: an open loop in place of clients")
    parser.add_argument("--questions", type=int, default=60, help="timed, in each run")
    parser.add_argument("--warm-up", type=int, default=5, help="thrown away, in each run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--transport", action="store_true", help="searches at one client: HTTP against computing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    config = load_config(args.config)
    asks = load_golden_asks(args.sample)
    with open_askers(args.url, config, [ask.asker for ask in asks]) as askers:
        if args.transport:
            _transport(askers, asks, args)
        else:
            _load(askers, asks, args)


def _load(askers: Askers, asks: Sequence[Ask], args: argparse.Namespace) -> None:
    run = Run("serve")
    runs = [load_run(askers, asks, args, args.seed + number) for number in range(args.runs)]
    outcomes = [outcome for one in runs for outcome in one]
    good = [outcome for outcome in outcomes if outcome.ok]
    if not good:
        stop(f"no question was answered: {outcomes[0].error}")
    stages, whole = stage_figures(good), whole_figures(good)
    arrivals = f"{args.rate} a second (Poisson)" if args.rate else f"{args.clients} clients"
    show_stages(f"{len(good)} answers, {arrivals}, ms", stages)
    show_whole(whole)
    failures = Tally(outcome.status for outcome in outcomes if not outcome.ok)
    partial = sum(bool(outcome.partial) for outcome in good)
    verdict(not failures, f"every question was answered with 200 (others: {dict(failures) or 'none'})")
    verdict(not partial, f"no answer was partial ({partial} were)")
    figures = {
        "arrivals": arrivals,
        "answers": len(good),
        "abstained": sum(bool(o.answer and o.answer.abstained) for o in good),
        "partial": partial,
        "failures": {str(status): count for status, count in failures.items()},
        "stages": stages,
        "whole": whole,
        "spread": spread(runs),
    }
    run.write(figures, load_config(args.config), args.results)


def _transport(askers: Askers, asks: Sequence[Ask], args: argparse.Namespace) -> None:
    run = Run("transport", module="serve")
    plain = [ask for ask in asks if not ask.history]  # a search has no history
    medians, outcomes = [], []
    for number in range(args.runs):
        planned = repeated(plain, args.warm_up + args.questions, args.seed + number)
        found = [askers.search(ask, k=10) for ask in planned][args.warm_up :]
        good = [outcome for outcome in found if outcome.ok]
        if len(good) < len(found):
            stop(
                f"{len(found) - len(good)} of {len(found)} searches failed: {next(o.error for o in found if not o.ok)}"
            )
        outcomes += good
        medians.append(round(percentile(transport_ms(good), 0.5), 2))
    stages = stage_figures(outcomes)
    show_stages(f"{len(outcomes)} searches, one client, ms", stages)
    median = statistics.median(medians)
    holds = verdict(median <= TRANSPORT_MS, f"HTTP minus computing: {median} ms at p50, limit {TRANSPORT_MS} ms")
    figures = {
        "searches": len(outcomes),
        "p50_ms_of_each_run": medians,
        "p50_ms": median,
        "transport_ms": summary(transport_ms(outcomes)),
        "http_ms": summary(_totals(outcomes)),
        "within_limit": holds,
        "stages": stages,
    }
    run.write(figures, load_config(args.config), args.results)


if __name__ == "__main__":
    main()
