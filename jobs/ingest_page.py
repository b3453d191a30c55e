"""The report of an ingest as one HTML page with its plots, which needs nothing beside it."""

from collections.abc import Mapping, Sequence
from html import escape

from jobs.ingest_quality import BIN_TOKENS
from jobs.ingest_report import IngestReport, quality_rows

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2530; max-width: 1000px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #dde2e8; text-align: left; vertical-align: top }
td { overflow-wrap: anywhere } .note { color: #5a6572 }
svg text { font: 11px system-ui, sans-serif; fill: #1d2530 }
"""
_BLUE, _GREEN = "#3b6ea5", "#2e8b6f"
_LEFT, _WIDTH, _ROW, _BAR, _HEIGHT = 210, 420, 20, 13, 160  # pixels
_MAX_ERRORS = 500


def html_report(report: IngestReport) -> str:
    """The page. Every text that comes from a document or a configuration is escaped."""
    quality = report.quality
    parts = [
        f"<h1>Ingest of {escape(report.version or 'nothing')}</h1>",
        _table(("what", "value"), [(name, str(value)) for name, value in report.rows().items()]),
    ]
    if quality is not None:
        parts += [
            "<h2>Quality</h2>",
            _shares({name: rate for name, rate in quality.rates.items() if rate is not None}),
            _table(("what", "value"), [(name, str(value)) for name, value in quality_rows(quality).items()]),
            "<h2>Tokens of the chunks</h2>",
            _histogram(quality.chunks.tokens),
            *_listed(
                "Answers that lie in no single chunk",
                "answer",
                quality.answerability.missing if quality.answerability else (),
            ),
            *_listed("Pages that are lost", "page", quality.read.lost),
        ]
    parts += ["<h2>Failed and skipped</h2>", *_errors(report)]
    head = f'<meta charset="utf-8"><title>Ingest {escape(report.version or "")}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{"".join(parts)}\n</body></html>\n'


def _shares(rates: Mapping[str, float]) -> str:
    """Horizontal bars from 0 to 1, the value in words beside each."""
    marks: list[str] = []
    for place, (name, rate) in enumerate(rates.items()):
        top = place * _ROW + 2
        marks.append(
            f'<text x="{_LEFT - 6}" y="{top + _BAR - 3}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_BAR}" fill="#eef1f5"/>'
            f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH * min(rate, 1.0):.1f}" height="{_BAR}" fill="{_GREEN}"/>'
            f'<text x="{_LEFT + _WIDTH + 6}" y="{top + _BAR - 3}">{rate:.1%}</text>'
        )
    return _svg(_LEFT + _WIDTH + 60, _ROW * len(rates) + 4, marks)


def _histogram(bins: Sequence[tuple[int, int]]) -> str:
    """Upright bars, one a bin of tokens; the number of chunks above each."""
    if not bins:
        return '<p class="note">no chunks</p>'
    highest = max(count for _, count in bins) or 1
    step = max(14.0, min(42.0, 900.0 / len(bins)))
    marks: list[str] = []
    for place, (least, count) in enumerate(bins):
        x, height = place * step, _HEIGHT * count / highest
        title = f"<title>{least} to {least + BIN_TOKENS - 1} tokens: {count} chunks</title>"
        marks.append(
            f'<rect x="{x + 1:.1f}" y="{_HEIGHT - height + 14:.1f}" width="{step - 2:.1f}" height="{height:.1f}" '
            f'fill="{_BLUE}">{title}</rect>'
        )
        if place % max(1, round(36 / step)) == 0:
            marks.append(f'<text x="{x + 1:.1f}" y="{_HEIGHT + 28}">{least}</text>')
    marks.append(f'<text x="0" y="10">{highest} chunks in the highest bar</text>')
    return _svg(round(step * len(bins)) + 40, _HEIGHT + 34, marks)


def _listed(title: str, column: str, lines: Sequence[str]) -> list[str]:
    return [f"<h2>{title}</h2>", _table((column,), [(words,) for words in lines])] if lines else []


def _errors(report: IngestReport) -> list[str]:
    if not report.errors:
        return ['<p class="note">none</p>']
    counted = [(stage, error, str(count)) for stage, error, count in report.quality.errors] if report.quality else []
    rows = [(row.uri, row.stage, row.error, row.message) for row in report.errors[:_MAX_ERRORS]]
    more = len(report.errors) - len(rows)
    return [
        _table(("stage", "class", "documents"), counted) if counted else "",
        _table(("document", "stage", "class", "message"), rows),
        f'<p class="note">and {more} more, in the errors table of the index</p>' if more else "",
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _svg(width: int, height: int, marks: Sequence[str]) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(marks)}</svg>'
