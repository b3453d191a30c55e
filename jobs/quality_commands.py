"""What an evaluation and the regression gate show: tables for people, JSON for programs, files for later."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jobs.printing import out as console
from jobs.printing import print_error, print_json, print_rows, say
from rag.evaluate.gate import Comparison, GateVerdict, gate
from rag.evaluate.invariants import INVARIANTS
from rag.evaluate.report import html_report
from rag.evaluate.run import EvaluationRun
from rag.evaluate.significance import Estimate
from rag.evaluate.summary import by_slice, by_stage, by_step

SHOWN = ("hit@1", "hit@5", "recall@5", "recall@100", "recall", "mrr@10", "ndcg@10", "context_precision")
SHOWN_QUESTIONS = 8
SHOWN_FALLS = 3


def report_run(run: EvaluationRun, *, out: Path | None, html: Path | None, as_json: bool) -> int:
    """Print and write a run; the exit code: 1 when something happened that must never happen."""
    _write(run, None, out, html)
    if as_json:
        print_json(summary_json(run))
    else:
        print_run(run)
    broken = {name: count for name, count in run.broken().items() if count}
    for name, count in broken.items():
        print_error(f"{name}: {count} ({INVARIANTS[name]})")
    return 1 if broken else 0


def report_gate(
    before: EvaluationRun, after: EvaluationRun, *, out: Path | None, html: Path | None, as_json: bool
) -> int:
    """Print and write what fell; the exit code: 1 when anything did."""
    verdict = gate(before, after)
    _write(after, verdict, out, html)
    if as_json:
        print_json(verdict_json(verdict))
    else:
        print_verdict(verdict)
    return 0 if verdict.ok else 1


def summary_json(run: EvaluationRun) -> dict[str, Any]:  # Any: JSON
    """The run in means and intervals."""
    return {
        "dataset": run.dataset,
        "questions": len(run.ids),
        "answerable": run.num_answerable,
        "versions": dict(run.versions),
        "stages": {s: {m: asdict(e) for m, e in own.items()} for s, own in by_stage(run).items()},
        "slices": [asdict(row) for row in by_slice(run)],
        "latency": [asdict(row) for row in by_step(run)],
        "invariants": run.broken(),
        "uncovered": dict(run.uncovered),
        "failures": dict(run.failures),
        "notes": list(run.notes),
    }


def verdict_json(verdict: GateVerdict) -> dict[str, Any]:  # Any: JSON
    """The verdict with everything that fell or broke."""
    return {
        "ok": verdict.ok,
        "falls": [{**asdict(fall), "difference": fall.difference} for fall in verdict.falls],
        "broken": [asdict(broken) for broken in verdict.broken],
        "missing": list(verdict.missing),
        "added": list(verdict.added),
        "not_measured": list(verdict.not_measured),
        "compared": len(verdict.comparisons),
        "changed_questions": verdict.num_changed,
        "changed_settings": {name: list(values) for name, values in verdict.changed_settings.items()},
    }


# ---------------------------------------------------------------- tables


def print_run(run: EvaluationRun) -> None:
    """Stages, slices and latency as tables; then what could not be measured, or not be found by any search."""
    estimates = by_stage(run)
    metrics = [metric for metric in SHOWN if any(metric in own for own in estimates.values())]
    rows = [(stage, *(_estimate(own.get(metric)) for metric in metrics)) for stage, own in estimates.items()]
    title = f"{run.dataset}: {len(run.ids)} questions, {run.num_answerable} answerable; 95% intervals"
    print_rows(title, ("stage", *(metric.replace("context_", "") for metric in metrics)), rows)
    if slices := by_slice(run):
        stages = list(slices[0].ndcg)
        print_rows(
            "nDCG@10 by slice; intervals in --html and --json",
            ("slice", "questions", *stages, "prompt recall"),
            [
                (
                    f"{row.name}: {row.value}",
                    row.num,
                    *(f"{row.ndcg[stage].mean:.3f}" for stage in stages),
                    f"{row.prompt_recall.mean:.3f}" if row.prompt_recall else "",
                )
                for row in slices
            ],
        )
    if steps := by_step(run):
        columns = ("step", "wall p50 ms", "wall p95 ms", "compute p50 ms", "compute p95 ms")
        rows = [
            (r.step, *(f"{value:.1f}" for value in (r.wall_p50, r.wall_p95, r.compute_p50, r.compute_p95)))
            for r in steps
        ]
        print_rows("Latency", columns, rows)
    for question, needs in run.uncovered.items():
        console.print(f"{question}: in no single chunk, so no search can find it: {'; '.join(needs)}", markup=False)
    for question, failure in run.failures.items():
        console.print(f"{question} failed: {failure}", markup=False)
    for note in run.notes:
        console.print(f"note: {note}", markup=False)
    say(", ".join(f"{name} {value}" for name, value in run.versions.items()))


def print_verdict(verdict: GateVerdict) -> None:
    """What fell, the surest first, and everything else that fails the gate; then the verdict in a line."""
    if verdict.falls:
        columns = ("scope", "what", "before", "after", "difference", "p", "worse/better")
        print_rows("What fell", columns, [_fall(comparison) for comparison in verdict.falls])
        for fall in verdict.falls[:SHOWN_FALLS]:
            console.print(f"{fall.scope}, {fall.stage} {fall.metric} lost most in {_few(fall.worse)}", markup=False)
    for broken in verdict.broken:
        console.print(
            f"{broken.name}: {broken.before} -> {broken.after} ({INVARIANTS[broken.name]}): {_few(broken.questions)}",
            markup=False,
        )
    if verdict.missing:
        console.print(
            f"{len(verdict.missing)} questions of the baseline are missing: {_few(verdict.missing)}", markup=False
        )
    if verdict.not_measured:
        console.print(f"stages of the baseline that were not measured: {', '.join(verdict.not_measured)}", markup=False)
    for name, (before, after) in verdict.changed_settings.items():
        say(f"{name}: {before} -> {after}")
    if verdict.num_changed is not None:
        say(f"{verdict.num_changed} questions have other candidates, scores or prompts than in the baseline")
    if verdict.added:
        say(f"{len(verdict.added)} questions are not in the baseline, and are not compared")
    said = "ok: nothing fell" if verdict.ok else f"FAILED: {_what_failed(verdict)}"
    console.print(f"{said} ({len(verdict.comparisons)} comparisons)", markup=False)


def _what_failed(verdict: GateVerdict) -> str:
    counted = (
        (len(verdict.falls), "falls"),
        (len(verdict.broken), "broken invariants"),
        (len(verdict.missing), "missing questions"),
        (len(verdict.not_measured), "stages not measured"),
    )
    return ", ".join(f"{count} {what}" for count, what in counted if count)


def _fall(c: Comparison) -> tuple[str, ...]:
    values = (f"{c.before:.4f}", f"{c.after:.4f}", f"{c.difference:+.4f}", f"{c.p:.4f}")
    return (c.scope, f"{c.stage} {c.metric}", *values, f"{len(c.worse)}/{len(c.better)}")


def _few(questions: Sequence[str]) -> str:
    more = f" and {len(questions) - SHOWN_QUESTIONS} more" if len(questions) > SHOWN_QUESTIONS else ""
    return ", ".join(questions[:SHOWN_QUESTIONS]) + more


def _estimate(estimate: Estimate | None) -> str:
    half = f"{(estimate.high - estimate.low) / 2:.2f}".lstrip("0") if estimate else ""
    return "" if estimate is None else f"{estimate.mean:.3f} ±{half}"


def _write(run: EvaluationRun, verdict: GateVerdict | None, out: Path | None, html: Path | None) -> None:
    for path, text in ((out, run.to_json), (html, lambda: html_report(run, verdict))):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text(), encoding="utf-8")
            say(f"written: {path}")
