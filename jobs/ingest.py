"""Documents in, a published index version out: `python -m jobs.ingest --config FILE PATH...`, or `quire ingest`.

list -> read, parse, chunk -> embed -> stage, streaming through Ray Data; then one task a shard builds its segments,
and the version is committed, smoke tested and published. The driver holds counts and the registry, never the corpus.

A run that is killed changes nothing that is live. Its staged vectors stay, and the next run of the same settings takes
them from there: it parses again, which is a small part of the time, and embeds only what is missing.
"""

import argparse
import asyncio
import logging
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from jobs.ingest_duplicates import Grouped, duplicate_rows, group_records, stood_in_for
from jobs.ingest_engine import BuildJob, Engine, RayEngine, StreamJob
from jobs.ingest_page import html_report
from jobs.ingest_plan import Plan, ReadTask, make_plan, tasks_to_read_again
from jobs.ingest_quality import DocumentCounts, measure_version
from jobs.ingest_report import IngestReport, histogram_rows, quality_rows, write_errors, write_report
from jobs.ingest_tasks import Outcome, read_outcome, tasks_to_table
from jobs.printing import (
    IngestProgress,
    ingest_progress,
    print_error,
    print_failure,
    print_json,
    print_pairs,
    print_rows,
    say,
)
from jobs.ray_session import ray_session
from rag.config import RagConfig, load_config
from rag.data import ErrorRow
from rag.errors import IndexMismatch, InputError, RagError
from rag.evaluate.smoke import SmokeResult, read_smoke_tasks, smoke_test
from rag.ids import DocumentId, VersionId
from rag.index.commit import commit_version
from rag.index.lag import lag_note, modified_at
from rag.index.manifest import check_compatible
from rag.index.reclaim import reclaim
from rag.index.registry import DocumentRecord
from rag.index.revoke import absorb_revocations
from rag.index.segment import SegmentInfo
from rag.index.store import IndexStore, open_store
from rag.parts import check_encoder
from rag.read.rows import database_name

logger = logging.getLogger(__name__)

SHOWN_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Cut:
    """How the work is cut into pieces; part of what makes a build repeatable, so it does not follow the machine."""

    block_documents: int = 64
    block_bytes: int = 4_000_000  # of sources, so that a block of large files stays small
    segment_chunks: int | None = None  # None: `index.segment_chunks`


@dataclass
class _Progressed:
    """What the stream has told the driver so far."""

    records: list[DocumentRecord] = field(default_factory=list)
    unchanged: list[DocumentRecord] = field(default_factory=list)
    errors: list[ErrorRow] = field(default_factory=list)
    replaced: list[DocumentId] = field(default_factory=list)
    closed: list[DocumentId] = field(default_factory=list)
    stood_in_for: list[DocumentRecord] = field(default_factory=list)  # new or changed records of duplicates
    grouped: Grouped | None = None
    restored: list[str] = field(default_factory=list)  # uris of documents that were duplicates, and were read again
    changed_at: list[float] = field(default_factory=list)  # of sources whose content is new, seconds since 1970
    counts: DocumentCounts = field(default_factory=DocumentCounts)
    embedded: int = 0
    reused: int = 0
    parse_s: float = 0.0
    embed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Committed:
    """How the run left the index."""

    live: VersionId | None
    chunks: int  # live in that version
    published: bool = False  # False: nothing changed, or the new version was refused
    smoke: SmokeResult | None = None
    refused: VersionId | None = None


def ingest(
    config: RagConfig,
    roots: Sequence[Path],
    *,
    full: bool = False,
    progress: IngestProgress,
    engine: Engine | None = None,
    cut: Cut | None = None,
) -> IngestReport:
    """Bring the index up to date with what is under the roots, and publish it, on Ray unless told otherwise.

    With `full` a version of these roots alone is built from nothing. A document that fails is an error of the report;
    one that was indexed before stays as it was, unless its readers changed. A version that fails the smoke test of the
    configuration stays committed and does not go live: the report says so, and why.

    Raises InputError for a root that does not exist, ConfigError for a golden file that can't be read, IndexMismatch
    for a live version of other settings, and RagError when more documents fail than `index.max_error_share`, or when
    another run is under way.
    """
    started = time.perf_counter()
    check_encoder(config)
    read_smoke_tasks(config.smoke)
    store = open_store(config)
    with store.writing():
        return _Run(config, store, engine or RayEngine(), full, progress, cut or Cut(), started).run(roots)


class _Run:
    """One run, under the lock of the index."""

    def __init__(
        self,
        config: RagConfig,
        store: IndexStore,
        engine: Engine,
        full: bool,
        progress: IngestProgress,
        cut: Cut,
        started: float,
    ) -> None:
        self._config, self._store, self._engine, self._progress = config, store, engine, progress
        self._full, self._cut, self._started = full, cut, started
        self._id = uuid4().hex[:12]
        fingerprint = config.index_fingerprint()[:16]
        building = store.root / "building"
        self._staging = building / f"{fingerprint}-{self._id}"
        self._leftovers = sorted(path for path in building.glob(f"{fingerprint}-*") if path.is_dir())
        self._live, self._known = self._read_live()
        self._seconds: dict[str, float] = {}

    def run(self, roots: Sequence[Path]) -> IngestReport:
        with self._timed("list"):
            self._progress.stage("listing")
            plan = make_plan(roots, self._config.sources, [] if self._full else self._known)
        logger.info("%d listed, %d to read, %d deleted", plan.num_listed, len(plan.to_read), len(plan.deleted))
        with self._timed("stream"):
            done = _Progressed()
            self._stream(plan.to_read, done)
            self._settle_duplicates(plan, done)
        self._seconds |= {"parse": done.parse_s, "embed": done.embed_s}
        failed = (*plan.failed, *done.errors)
        self._check_error_share(plan, failed)
        committed = self._commit(plan, done)
        report = self._report(plan, done, failed, committed)
        # A refused version is built again by the next run, which then takes its vectors from here.
        for leftover in (*self._leftovers, *(() if committed.refused else (self._staging,))):
            shutil.rmtree(leftover, ignore_errors=True)
        return report

    def _read_live(self) -> tuple[VersionId | None, list[DocumentRecord]]:
        """The live version that this run starts from, and its documents; a full run may start from nothing."""
        live = self._store.current_or_none()
        if live is None:
            return None, []
        try:
            check_compatible(self._store.manifest(live), self._config)
        except IndexMismatch as error:
            if self._full:
                return None, []
            raise IndexMismatch(f"{error}; to rebuild the index from nothing, add --full") from error
        return live, self._store.registry(live)

    # ------------------------------------------------------------ the stream

    def _stream(self, tasks: Sequence[ReadTask], done: _Progressed) -> None:
        """Read, parse, chunk, embed and stage; what comes back are counts and outcomes."""
        if not tasks:
            return
        blocks = [tasks_to_table(block) for block in _blocks(tasks, self._cut)]
        live = None if self._full else self._live
        job = StreamJob(self._config, self._staging, live, tuple(self._leftovers))
        self._progress.stage("parsing and embedding", len(tasks))
        for batch in self._engine.stream(blocks, job):
            self._collect(batch, done)

    def _collect(self, batch: pa.Table, done: _Progressed) -> None:
        for row in batch.to_pylist():
            outcomes = [read_outcome(pickled) for pickled in row["outcomes"]]
            for outcome in outcomes:
                self._collect_outcome(outcome, done)
            done.embedded += row["embedded"]
            done.reused += row["reused"]
            done.embed_s += row["embed_s"]
            self._progress.advance(len(outcomes), row["embedded"] + row["reused"])

    def _collect_outcome(self, outcome: Outcome, done: _Progressed) -> None:
        done.parse_s += outcome.seconds
        done.counts += outcome.counts or DocumentCounts()
        before = outcome.task.known
        if outcome.error is not None:
            done.errors.append(outcome.error)
            if before is not None and before.metadata_hash != outcome.task.metadata_hash:
                done.closed.append(before.document_id)  # who may read it changed, and that can't be applied
        elif outcome.record is not None and outcome.unchanged:
            done.unchanged.append(outcome.record)
        elif outcome.record is not None:
            done.records.append(outcome.record)
            if before is None or before.content_hash != outcome.record.content_hash:
                changed_at = modified_at(outcome.task.source)
                done.changed_at += [] if changed_at is None else [changed_at]
            if before is not None:
                done.replaced.append(before.document_id)

    # ------------------------------------------------------------ duplicates

    def _settle_duplicates(self, plan: Plan, done: _Progressed) -> None:
        """Takes back the documents that another one stands in for, and reads those that nothing stands in for now."""
        read_again: set[DocumentId] = set()
        while True:
            records = self._records(plan, done)
            done.grouped = group_records(records, self._config.clean)
            waiting = [record for record in done.grouped.waiting if record.document_id not in read_again]
            if not waiting:
                break
            read_again.update(record.document_id for record in waiting)
            tasks, gone = tasks_to_read_again(waiting, self._config.sources)
            done.errors += gone
            done.restored += (record.uri for record in waiting)
            self._stream(tasks, done)
        for name, duplicate in done.grouped.duplicates.items():
            record = stood_in_for(records[name], duplicate)
            if record != records[name]:
                done.stood_in_for.append(record)
                done.replaced += [name] if records[name].chunk_ids else []
        left_out = done.grouped.duplicates.keys()
        done.records = [record for record in done.records if record.document_id not in left_out]

    def _records(self, plan: Plan, done: _Progressed) -> dict[DocumentId, DocumentRecord]:
        """The registry of the version to be."""
        removed = {*plan.deleted, *done.closed}
        known = () if self._full else (record for record in self._known if record.document_id not in removed)
        made = (*known, *done.unchanged, *done.records, *done.stood_in_for)
        return {record.document_id: record for record in made}

    # ------------------------------------------------------------ the version

    def _check_error_share(self, plan: Plan, failed: Sequence[ErrorRow]) -> None:
        tried, limit = plan.num_listed - len(plan.skipped), self._config.index.max_error_share
        if failed and len(failed) > limit * tried:
            file = write_errors(self._store.root / "errors", f"run-{self._id}", failed)
            raise RagError(
                f"{len(failed)} of {tried} documents failed, more than the share of {limit} that index.max_error_share "
                f"allows; nothing was published; the errors are in {file}"
            )

    def _commit(self, plan: Plan, done: _Progressed) -> _Committed:
        """Commits what changed, and publishes it if it passes the smoke test."""
        known = {record.document_id for record in self._known}
        removed = {*plan.deleted, *done.replaced, *done.closed} if not self._full else known
        if not done.records and not done.stood_in_for and not removed:
            return self._unchanged()
        with self._timed("build"):
            self._progress.stage("building segments")
            segments = self._build(done.records)
        with self._timed("commit"):
            records = self._records(plan, done)
            infos = [info for shard in segments.values() for info in shard]
            dim = infos[0].dim if infos else self._store.manifest(self._store.current()).encoder.dim
            manifest = commit_version(
                self._store,
                segments,
                removed | {record.document_id for record in done.records},
                sorted(records.values(), key=lambda record: record.document_id),
                self._config,
                dim,
                parent=self._live,
                timings=self._seconds,
            )
        if manifest.version == self._live:
            return self._unchanged()
        smoke = self._smoke_test(manifest.version)
        if smoke is not None and not smoke.passed:
            return replace(self._unchanged(), smoke=smoke, refused=manifest.version)
        with self._timed("publish"):
            self._progress.stage("publishing")
            self._store.publish(manifest.version, lag_note(done.changed_at) if self._live else None)
            absorb_revocations(self._store, manifest)
            reclaim(self._store, self._config.index)
        return _Committed(manifest.version, manifest.counts.chunks, published=True, smoke=smoke)

    def _unchanged(self) -> _Committed:
        """What was live stays live, whether or not this run could have read it."""
        live = self._store.current_or_none()
        return _Committed(live, self._store.manifest(live).counts.chunks if live else 0)

    def _smoke_test(self, version: VersionId) -> SmokeResult | None:
        """What the version did on the configured questions, kept in its manifest; None where none are configured."""
        tasks = read_smoke_tasks(self._config.smoke)
        if not tasks:
            return None
        with self._timed("smoke"):
            self._progress.stage("smoke test")
            result = asyncio.run(smoke_test(self._config, version, tasks))
        self._store.record_smoke(version, {**result.figures, "passed": float(result.passed)})
        logger.info("smoke test of %s: %s", version, result)
        return result

    def _build(self, records: Sequence[DocumentRecord]) -> dict[int, tuple[SegmentInfo, ...]]:
        """New segments of every shard that has new chunks."""
        by_shard: dict[int, list[DocumentRecord]] = {}
        for record in records:
            by_shard.setdefault(record.shard, []).append(record)
        max_chunks = self._cut.segment_chunks or self._config.index.segment_chunks
        jobs = [
            BuildJob(self._config, self._staging, shard, tuple(group), max_chunks)
            for shard, group in sorted(by_shard.items())
        ]
        return {built.shard: built.segments for built in self._engine.build(jobs)}

    def _report(
        self,
        plan: Plan,
        done: _Progressed,
        failed: tuple[ErrorRow, ...],
        committed: _Committed,
    ) -> IngestReport:
        grouped, listed = done.grouped or Grouped({}, ()), {*plan.listed_uris, *done.restored}
        duplicates = duplicate_rows(grouped, self._records(plan, done), listed)
        indexed, skipped = len(done.records), len(plan.skipped) + len(duplicates)
        documents = plan.num_listed + len(set(done.restored) - plan.listed_uris)
        errors = (*failed, *plan.skipped, *duplicates)
        name = committed.refused or committed.live or f"run-{self._id}"
        file = write_errors(self._store.root / "errors", name, errors) if errors else None
        with self._timed("quality"):
            quality = measure_version(
                self._store,
                committed.refused or committed.live,
                done.counts,
                errors,
                (duplicate.similarity for duplicate in grouped.duplicates.values()),
                read_smoke_tasks(self._config.smoke),
            )
        seconds = {**self._seconds, "wall": time.perf_counter() - self._started}
        report = IngestReport(
            documents=documents,
            indexed=indexed,
            unchanged=documents - indexed - skipped - len(failed),
            skipped=skipped,
            failed=len(failed),
            deleted=len(plan.deleted),
            chunks=committed.chunks,
            embedded=done.embedded,
            reused=done.reused,
            version=committed.live,
            published=committed.published,
            seconds={stage: round(value, 3) for stage, value in seconds.items()},
            errors=errors,
            errors_file=str(file or ""),
            smoke="" if committed.smoke is None else str(committed.smoke),
            refused=committed.refused,
            quality=quality,
        )
        kept_as = name if committed.published or committed.refused else "unchanged"
        write_report(self._store.root / "reports", kept_as, report, html_report(report))
        return report

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._seconds[stage] = time.perf_counter() - started


def _blocks(tasks: Sequence[ReadTask], cut: Cut) -> Iterator[list[ReadTask]]:
    """The tasks in order, cut where a block has enough documents or enough bytes."""
    block: list[ReadTask] = []
    size_bytes = 0
    for task in tasks:
        full = len(block) >= cut.block_documents or size_bytes + task.source.size_bytes > cut.block_bytes
        if block and full:
            yield block
            block, size_bytes = [], 0
        block.append(task)
        size_bytes += task.source.size_bytes
    if block:
        yield block


# ---------------------------------------------------------------- the command


def run(
    config_file: Path,
    roots: Sequence[Path],
    *,
    full: bool = False,
    as_json: bool = False,
    allow_failures: bool = False,
    address: str | None = None,
    page: Path | None = None,
) -> int:
    """Ingest and print the report, and write it to `page` as HTML; the exit code. Errors that quire raises on purpose
    pass through.

    With `allow_failures` documents that failed do not count, as long as a version is live without them.
    """
    config = load_config(config_file)
    for root in roots:
        if database_name(root) is None and not root.exists():
            raise InputError(f"{root}: no such file or folder")
    if page is not None and not page.parent.is_dir():
        raise InputError(f"{page}: the folder of the report does not exist")
    with ray_session(address), ingest_progress() as progress:
        report = ingest(config, roots, full=full, progress=progress)
    if page is not None:
        page.write_text(html_report(report), "utf-8", errors="backslashreplace")
    exit_code = 0 if allow_failures and report.version and not report.refused else report.exit_code
    if as_json:
        print_json(report.to_json())
        return exit_code
    print_pairs("Ingest", report.rows())
    if report.quality is not None:
        print_pairs("Quality", quality_rows(report.quality))
        print_rows("Tokens of the chunks", ("tokens", "chunks", ""), histogram_rows(report.quality))
    if report.errors:
        shown = [(row.uri, row.stage, row.error, row.message) for row in report.errors[:SHOWN_ERRORS]]
        print_rows("Failed and skipped", ("document", "stage", "error", "message"), shown)
        say(f"all {len(report.errors)} of them: {report.errors_file}")
    if report.failed:
        live_without = bool(report.version) and not report.refused
        outcome = f"version {report.version} is live without them" if live_without else "nothing was published"
        print_error(f"{report.failed} of {report.documents} documents failed; {outcome}")
    if report.refused:
        live = f"version {report.version} stays live" if report.version else "nothing is live"
        print_error(
            f"version {report.refused} did not pass the smoke test and was not published; {live}. {report.smoke}. "
            f"`quire publish {report.refused}` makes it live all the same"
        )
    return exit_code


def main() -> None:
    """Run `python -m jobs.ingest`. Exit codes: 0, 1 when anything failed, 2 for wrong arguments or configuration."""
    parser = argparse.ArgumentParser(prog="python -m jobs.ingest", description="Index documents and publish them.")
    parser.add_argument("--config", type=Path, required=True, help="rag.yaml")
    parser.add_argument("--full", action="store_true", help="rebuild from nothing instead of updating")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print the report as JSON")
    parser.add_argument("--allow-failures", action="store_true", help="exit 0 although single documents failed")
    parser.add_argument("--report", type=Path, metavar="PATH.html", help="also write the report as an HTML page")
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="a folder or a file")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        code = run(
            arguments.config,
            arguments.paths,
            full=arguments.full,
            as_json=arguments.as_json,
            allow_failures=arguments.allow_failures,
            page=arguments.report,
        )
    except RagError as error:
        code = print_failure(error)
    sys.exit(code)


if __name__ == "__main__":
    main()
