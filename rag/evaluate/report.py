"""A run as one HTML page with its plots, which needs nothing beside it: no script, no style sheet, no image file."""

from collections.abc import Sequence
from html import escape

from rag.evaluate.gate import GateVerdict
from rag.evaluate.invariants import INVARIANTS
from rag.evaluate.run import EvaluationRun
from rag.evaluate.significance import Estimate
from rag.evaluate.summary import LatencyRow, by_slice, by_stage, by_step

PLOTTED = ("hit@1", "hit@5", "recall", "mrr@10", "ndcg@10", "context_precision")
_COLOURS = {"dense": "#3b6ea5", "bm25": "#b5762a", "fused": "#6d5a9c", "reranked": "#2e8b6f", "prompt": "#a8455b"}
_ROW, _LEFT, _WIDTH, _BAR = 15, 120, 560, 11  # pixels

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2530; max-width: 1000px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #dde2e8; text-align: right }
th:first-child, td:first-child, td.words { text-align: left }
.note { color: #5a6572 } .bad { color: #a3223a; font-weight: 600 } .good { color: #1f7a54; font-weight: 600 }
figure { display: inline-block; margin: .4rem 1.2rem .8rem 0 } figcaption { font-weight: 600 }
svg text { font: 11px system-ui, sans-serif; fill: #1d2530 }
"""


def html_report(run: EvaluationRun, verdict: GateVerdict | None = None) -> str:
    """The page. Every text that comes from a document, a question or a configuration is escaped."""
    parts = [
        f"<h1>Evaluation of {escape(run.dataset)}</h1>",
        f'<p class="note">{len(run.ids)} questions, {run.num_answerable} of them answerable; '
        f"{escape(run.created_at.isoformat(timespec='seconds'))}. Whiskers are 95% bootstrap intervals.</p>",
        *(f'<p class="note">{escape(note)}</p>' for note in run.notes),
        *(_verdict(verdict) if verdict is not None else ()),
        "<h2>Stages</h2>",
        *_stage_plots(run),
        _stage_table(run),
        "<h2>What must never happen</h2>",
        _invariants(run),
        "<h2>Slices: nDCG@10, and recall of the prompt</h2>",
        _slice_table(run),
        "<h2>Latency</h2>",
        *_latency(run),
        *_uncovered(run),
        "<h2>Versions</h2>",
        _table(("what", "value"), [(name, value) for name, value in {**run.versions, **run.runtime}.items()]),
    ]
    body = "\n".join(part for part in parts if part)
    head = f'<meta charset="utf-8"><title>{escape(run.dataset)}: evaluation</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _verdict(verdict: GateVerdict) -> list[str]:
    said = '<span class="good">passed</span>' if verdict.ok else '<span class="bad">failed</span>'
    rows = [
        (c.scope, c.stage, c.metric, f"{c.before:.4f}", f"{c.after:.4f}", f"{c.difference:+.4f}", f"{c.p:.4f}")
        for c in verdict.falls
    ]
    broken = [(b.name, str(b.before), str(b.after), ", ".join(b.questions[:10])) for b in verdict.broken]
    return [
        f"<h2>Gate: {said}</h2>",
        _table(("scope", "stage", "metric", "before", "after", "difference", "p"), rows) if rows else "",
        _table(("broken invariant", "before", "after", "questions"), broken) if broken else "",
        f'<p class="bad">Missing questions: {escape(", ".join(verdict.missing))}</p>' if verdict.missing else "",
    ]


def _stage_plots(run: EvaluationRun) -> list[str]:
    estimates = by_stage(run)
    plots = []
    for metric in PLOTTED:
        rows = [
            (stage, own[metric], _COLOURS[stage])
            for stage, own in estimates.items()
            if metric in own and stage in _COLOURS
        ]
        if rows:
            plots.append(f"<figure><figcaption>{escape(metric)}</figcaption>{_bars(rows)}</figure>")
    return plots


def _bars(rows: Sequence[tuple[str, Estimate, str]], width: int = 250) -> str:
    """Horizontal bars from 0 to 1 with whiskers; the value is said in words beside each."""
    left, right = 64, 44
    height = _ROW * len(rows) + 18
    marks = [
        f'<line x1="{left + width * at:.1f}" y1="0" x2="{left + width * at:.1f}" y2="{height - 16}" stroke="#dde2e8"/>'
        f'<text x="{left + width * at:.1f}" y="{height - 4}" text-anchor="middle">{at:g}</text>'
        for at in (0.0, 0.5, 1.0)
    ]
    for place, (name, estimate, colour) in enumerate(rows):
        top = place * _ROW + 2
        middle = top + _BAR / 2
        low, high = left + width * estimate.low, left + width * estimate.high
        marks.append(
            f'<text x="{left - 6}" y="{middle + 4:.1f}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{left}" y="{top}" width="{width * estimate.mean:.1f}" height="{_BAR}" fill="{colour}" '
            f'fill-opacity="0.75"/><path d="M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {middle - 3:.1f}v6'
            f'M{high:.1f} {middle - 3:.1f}v6" stroke="#1d2530" fill="none"/>'
            f'<text x="{left + width + 6}" y="{middle + 4:.1f}">{estimate.mean:.3f}</text>'
        )
    return _svg(left + width + right, height, marks)


def _latency(run: EvaluationRun) -> list[str]:
    rows = by_step(run)
    if not rows:
        return ['<p class="note">not recorded</p>']
    longest = max(row.wall_p95 for row in rows) or 1.0
    marks: list[str] = []
    for place, row in enumerate(rows):
        top = place * _ROW + 2
        marks.append(
            f'<text x="{_LEFT - 6}" y="{top + _BAR - 1}" text-anchor="end">{escape(row.step)}</text>'
            + "".join(_latency_bar(row, share, top, longest) for share in ("p95", "p50"))
            + f'<text x="{_LEFT + _WIDTH * row.wall_p95 / longest + 6:.1f}" y="{top + _BAR - 1}">'
            f"{row.wall_p50:.1f} / {row.wall_p95:.1f} ms</text>"
        )
    columns = ("step", "wall p50 ms", "wall p95 ms", "compute p50 ms", "compute p95 ms")
    values = [(r.step, *(f"{v:.1f}" for v in (r.wall_p50, r.wall_p95, r.compute_p50, r.compute_p95))) for r in rows]
    figure = _svg(_LEFT + _WIDTH + 150, _ROW * len(rows) + 6, marks)
    return [f"<figure><figcaption>wall time, p50 within p95</figcaption>{figure}</figure>", _table(columns, values)]


def _latency_bar(row: LatencyRow, share: str, top: int, longest: float) -> str:
    value, opacity = (row.wall_p50, "0.85") if share == "p50" else (row.wall_p95, "0.3")
    width = _WIDTH * value / longest
    return f'<rect x="{_LEFT}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="#3b6ea5" fill-opacity="{opacity}"/>'


def _stage_table(run: EvaluationRun) -> str:
    estimates = by_stage(run)
    metrics = list(dict.fromkeys(metric for own in estimates.values() for metric in own))
    rows = [
        (stage, *(_said(own[metric]) if metric in own else "" for metric in metrics))
        for stage, own in estimates.items()
    ]
    return _table(("stage", *metrics), rows)


def _slice_table(run: EvaluationRun) -> str:
    rows = by_slice(run)
    if not rows:
        return '<p class="note">none</p>'
    stages = list(rows[0].ndcg)
    shown = [
        (
            f"{row.name}: {row.value}",
            str(row.num),
            *(_said(row.ndcg[stage]) for stage in stages),
            _said(row.prompt_recall) if row.prompt_recall else "",
        )
        for row in rows
    ]
    return _table(("slice", "questions", *stages, "prompt recall"), shown)


def _invariants(run: EvaluationRun) -> str:
    rows = [(INVARIANTS.get(name, name), str(count)) for name, count in run.broken().items()]
    rows += [(f"question {name} failed", words) for name, words in run.failures.items()]
    return _table(("what", "how often"), rows)


def _uncovered(run: EvaluationRun) -> list[str]:
    if not run.uncovered:
        return []
    rows = [(question, "; ".join(needs)) for question, needs in run.uncovered.items()]
    return ["<h2>In no single chunk: no search can find these</h2>", _table(("question", "what answers it"), rows)]


def _said(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _svg(width: int, height: int, marks: Sequence[str]) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(marks)}</svg>'
