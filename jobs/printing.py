"""What people see on a terminal: tables, one-line errors and progress."""

import json
import logging
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from jobs.client import AnswerReply, CitedSource, SearchReply, Stage
from rag.errors import ConfigError, IndexMismatch, InputError, RagError

logger = logging.getLogger(__name__)

out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False, soft_wrap=True)

LINE_EVERY_S = 5.0
QUOTE_CHARACTERS = 240


def print_json(value: Any) -> None:  # Any: anything that JSON can say
    """The value as JSON on standard output, whole lines, no colours."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_failure(error: RagError) -> int:
    """Prints the error; the exit code: 2 for what was asked for wrongly, 1 for what was tried and failed."""
    print_error(str(error))
    return 2 if isinstance(error, ConfigError | InputError | IndexMismatch) else 1


def print_error(message: str) -> None:
    err.print(f"error: {message}", style="red", markup=False)


def say(message: str) -> None:
    """One line of progress on standard error."""
    err.print(message, markup=False)


# ---------------------------------------------------------------- progress


class IngestProgress(Protocol):
    """Told how far a run is; called from the driver only."""

    def stage(self, name: str, total: int = 0) -> None: ...

    def advance(self, documents: int, chunks: int) -> None: ...


class LineProgress:
    """Plain log lines, one every few seconds: for files, jobs and everything that is no terminal."""

    def __init__(self) -> None:
        self._name, self._total, self._documents, self._chunks, self._said = "", 0, 0, 0, 0.0

    def stage(self, name: str, total: int = 0) -> None:
        self._name, self._total, self._said = name, total, time.monotonic()
        self._documents = self._chunks = 0
        say(f"{name}: {total} documents" if total else name)

    def advance(self, documents: int, chunks: int) -> None:
        self._documents += documents
        self._chunks += chunks
        if time.monotonic() - self._said >= LINE_EVERY_S:
            self._said = time.monotonic()
            done = f"{self._documents} of {self._total} documents, " if self._total else ""
            say(f"{self._name}: {done}{self._chunks} chunks")


class BarProgress:
    """A live bar on a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=None, chunks=0)
        self._chunks = 0

    def stage(self, name: str, total: int = 0) -> None:
        self._chunks = 0
        self._progress.reset(self._task, description=name, total=total or None, chunks=0)

    def advance(self, documents: int, chunks: int) -> None:
        self._chunks += chunks
        self._progress.update(self._task, advance=documents, chunks=self._chunks)


@contextmanager
def ingest_progress() -> Iterator[IngestProgress]:
    """A bar where standard error is a terminal, plain lines elsewhere."""
    if not err.is_terminal:
        yield LineProgress()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("documents, {task.fields[chunks]} chunks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:
        yield BarProgress(progress)


# ---------------------------------------------------------------- answers


def print_sources(answer: AnswerReply) -> None:
    """The citations of an answer, or what was found instead of one."""
    if answer.citations:
        out.print(_sources_table("Citations", answer.citations))
    if answer.abstained:
        out.print(f"no answer: {answer.abstained}", markup=False)
        if answer.closest:
            out.print(_sources_table("Closest passages", answer.closest))
    if answer.partial:
        out.print(f"partial: {', '.join(answer.partial)}", markup=False)


def _sources_table(title: str, sources: Sequence[CitedSource]) -> Table:
    table = _table(title, "number", "document", "page", "heading")
    for source in sources:
        mark = f"[{source.number}]" + (" *" if source.attributed else "")
        name = f"{source.title}\n{source.uri}" if source.title and source.title != source.uri else source.uri
        table.add_row(_plain(mark), _plain(name), str(source.page or ""), _plain(" > ".join(source.headings)))
    if any(source.attributed for source in sources):
        table.caption = "* cited by quire: the passage holds the sentence's words, the model gave no number"
    return table


def print_stages(stages: Sequence[Stage]) -> None:
    """Where the time went: as the gateway saw it, and the computing alone."""
    if not stages:
        return
    table = _table("Stages", "stage", "start ms", "wall ms", "compute ms", "counts")
    for column in table.columns[1:4]:
        column.justify = "right"
    for stage in stages:
        counts = ", ".join(f"{name} {count}" for name, count in stage.counts.items())
        table.add_row(
            stage.name, f"{stage.start_ms:.1f}", f"{stage.wall_ms:.1f}", f"{stage.compute_ms:.1f}", _plain(counts)
        )
    out.print(table)


def print_search(reply: SearchReply) -> None:
    """The results of a search, best first."""
    table = _table(f"Results of version {reply.version}", "rank", "score", "dense", "bm25", "document", "passage")
    for rank, found in enumerate(reply.results, start=1):
        place = " > ".join(found.headings)
        where = "\n".join(part for part in (found.uri, place, f"page {found.page}" if found.page else "") if part)
        quote = " ".join(found.text.split())
        quote = quote if len(quote) <= QUOTE_CHARACTERS else quote[:QUOTE_CHARACTERS] + "…"
        scores = (f"{found.score:.4f}", f"{found.dense:.3f}", f"{found.bm25:.2f}")
        table.add_row(str(rank), *scores, _plain(where), _plain(quote))
    out.print(table)
    if reply.partial:
        out.print(f"partial: {', '.join(reply.partial)}", markup=False)


def print_pairs(title: str, pairs: Mapping[str, object]) -> None:
    """A two-column table: name and value."""
    table = _table(title, "what", "value")
    for name, value in pairs.items():
        table.add_row(_plain(name), _plain(str(value)))
    out.print(table)


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table of the rows."""
    table = _table(title, *columns)
    for row in rows:
        table.add_row(*(_plain(str(value)) for value in row))
    out.print(table)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _plain(text: str) -> str:
    """The text without markup: a document's title may hold square brackets."""
    from rich.markup import escape

    return escape(text)


def told_command(program: str, arguments: Sequence[str]) -> str:
    """The command line as it may be published: of a path its last part, not where it lies on this machine."""
    return shlex.join([*program.split(), *(Path(part).name if "/" in part else part for part in arguments)])
