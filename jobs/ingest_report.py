"""What a run did, for people and for programs, and the errors table that goes with it."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from jobs.ingest_quality import BIN_TOKENS, QualityReport
from rag.data import ErrorRow
from rag.tables import errors_to_table


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The outcome of one run. `documents` is the sum of indexed, unchanged, skipped and failed."""

    documents: int  # listed
    indexed: int
    unchanged: int
    skipped: int
    failed: int
    deleted: int  # known before and no longer there
    chunks: int  # live in the version
    embedded: int
    reused: int  # vectors that were at hand
    version: str | None  # live after the run; None where there is none
    published: bool  # False: nothing changed, the version was live before
    seconds: Mapping[str, float] = field(default_factory=dict)  # parse and embed are sums over workers
    errors: tuple[ErrorRow, ...] = ()  # failed first, then skipped
    errors_file: str = ""
    smoke: str = ""  # what the smoke test found, in words; empty where there was none
    refused: str | None = None  # the version that is committed and was not published, because it failed that test
    quality: QualityReport | None = None

    @property
    def exit_code(self) -> int:
        """1 when any document failed, even where a version was published, and when the new version was refused."""
        return 1 if self.failed or self.refused else 0

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        rates = {"rates": self.quality.rates} if self.quality else {}
        return {**asdict(self), **rates}

    def rows(self) -> dict[str, object]:
        """The summary as names and values for a table."""
        if self.version is None:
            state = "none: nothing to index"
        else:
            state = f"{self.version} ({'published' if self.published else 'unchanged'})"
        counts = {
            "documents": self.documents,
            "indexed": self.indexed,
            "unchanged": self.unchanged,
            "skipped": self.skipped,
            "failed": self.failed,
            "deleted": self.deleted,
            "chunks": f"{self.chunks} live, {self.embedded} embedded, {self.reused} vectors re-used",
        }
        seconds = {f"{stage} s": f"{value:.1f}" for stage, value in self.seconds.items()}
        smoke = {"smoke test": self.smoke} if self.smoke else {}
        refused = {"not published": self.refused} if self.refused else {}
        return {"version": state, **refused, **counts, **smoke, **seconds}


def quality_rows(quality: QualityReport) -> dict[str, object]:
    """The quality figures as names and values for a table."""
    read, chunks, answers = quality.read, quality.chunks, quality.answerability
    routes = ", ".join(f"{count} {route}" for route, count in read.pages_by_route.items())
    found = {name: _percent(rate) for name, rate in quality.rates.items()}
    rows: dict[str, object] = {
        "parser errors": f"{quality.failed} of {read.documents + quality.failed} documents read in this run",
        "pages": f"{read.pages} ({routes})" if routes else read.pages,
        "pages without text": f"{read.pages_without_text} ({found['pages without text']})",
        "pages read by OCR": f"{read.pages_by_route.get('ocr', 0)} ({found['pages read by OCR']})",
        "tables read as rows and columns": f"{read.tables_read} of {read.tables}",
        "hidden characters left out": read.hidden_characters,
        "duplicates": f"{quality.exact_duplicates} exact, {quality.near_duplicates} near, "
        f"of {quality.documents} documents",
        "chunk tokens": f"mean {chunks.tokens_mean:g}, most {chunks.tokens_max}",
        "chunk overlap": found["overlap of chunks"],
    }
    if read.lost:
        rows["pages lost"] = f"{read.pages_by_route['lost']} ({found['pages lost']}), such as {read.lost[0]}"
    if read.narrowed:
        rows["narrowed for personal data"] = f"{read.narrowed} documents"
    if read.unreadable:
        rows["readable by nobody"] = (
            f"{read.unreadable} of {read.documents} documents read in this run: no answer will use them. "
            "Name their readers in sources.rules or sources.default_groups"
        )
    rows |= {f"chunks flagged {name}": count for name, count in chunks.flags.items()}
    if answers is not None:
        rows["answer spans within one chunk"] = (
            f"{answers.within_one_chunk} of {answers.spans} ({found['answer spans within one chunk']}); "
            f"documents of {answers.not_indexed} more are not indexed"
        )
    return rows


def histogram_rows(quality: QualityReport, width: int = 40) -> list[tuple[str, int, str]]:
    """The chunks by their tokens: from and to, how many, and a bar of that length."""
    highest = max((count for _, count in quality.chunks.tokens), default=1) or 1
    return [
        (f"{least} to {least + BIN_TOKENS - 1}", count, "█" * -(-width * count // highest))
        for least, count in quality.chunks.tokens
    ]


def write_report(folder: Path, name: str, report: IngestReport, page: str) -> Path:
    """Write the report as JSON and its page as HTML; the path of the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    lines, html = folder / f"{name}.json", folder / f"{name}.html"
    temporary = folder / f".{name}.{os.getpid()}"
    for path, content in ((lines, json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n"), (html, page)):
        temporary.write_text(content, "utf-8", errors="backslashreplace")
        temporary.replace(path)
    return html


def _percent(rate: float | None) -> str:
    return "none" if rate is None else f"{rate:.1%}"


def write_errors(folder: Path, name: str, errors: Sequence[ErrorRow]) -> Path:
    """Write the errors table as parquet and as JSON lines; the path of the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    parquet, lines = folder / f"{name}.parquet", folder / f"{name}.jsonl"
    temporary = folder / f".{name}.{os.getpid()}"
    pq.write_table(errors_to_table(errors), temporary)
    temporary.replace(parquet)
    temporary.write_text("".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in errors), "utf-8")
    temporary.replace(lines)
    return lines
