"""What is done with a trace: see where a bad answer was lost, and repeat it under the versions that it pinned."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from rich.progress import Progress

from jobs import api_keys, printing
from jobs.client import Client
from rag.config import EmbedConfig, RagConfig
from rag.data import EncodedQuery, Principal
from rag.errors import IndexDamaged, IndexMismatch, InputError, NotFound
from rag.evaluate.golden import GoldenSpan, read_golden, read_principals
from rag.evaluate.replay import Conditions, Replay, conditions_of, not_replayable, obstacles, replay
from rag.evaluate.root_cause import (
    Corpus,
    RootCause,
    StageFinding,
    full_standings,
    golden_question,
    recorded_config,
    root_cause,
)
from rag.ids import TraceId, VersionId
from rag.index.contents import read_chunks
from rag.index.store import open_store
from rag.local import LocalStages, config_of_version, open_shards
from rag.parts import build_embedder, build_reader, build_reranker
from rag.pipeline import Pipeline
from rag.protocols import Embedder, Reader, Reranker
from rag.trace import Trace, TraceStore

# Whoever reads the trace database and the index on their own machine could read all of both anyway.
MACHINE_OPERATOR = Principal("operator of this machine", "", frozenset(), operator=True)
MAX_DEPTH = 100_000  # of the exact search that places what was not retrieved
SHOWN_REPLAYS = 50


# ---------------------------------------------------------------- traces


def open_traces(config: RagConfig) -> TraceStore:
    """The trace database of the configuration."""
    return TraceStore(config.trace.url.format(var=config.var))


def load_trace(config: RagConfig, trace_id: str) -> Trace:
    """The trace of this machine's database. Raises NotFound."""
    traces = open_traces(config)
    try:
        return traces.load(TraceId(trace_id), MACHINE_OPERATOR)
    finally:
        traces.close()


def fetch_trace(client: Client, trace_id: str) -> Trace:
    """The trace as the service gives it out: to whoever asked, or an operator. Raises ServiceError."""
    return Trace.from_json(json.dumps(client.trace(trace_id)))


def is_operator(identity: str, config: RagConfig) -> bool:
    """Whether the key file calls the identity an operator; nobody else is known to be one."""
    keys_file = api_keys.keys_path(config)
    entries = api_keys.load_keys(keys_file) if identity and keys_file.exists() else []
    return any(entry.operator for entry in entries if identity in (entry.subject, entry.key))


# ---------------------------------------------------------------- why


def gold_of(
    trace: Trace, spans: Sequence[str], document: str, golden: Path | None
) -> tuple[tuple[GoldenSpan, ...], tuple[str, ...]]:
    """The words that answer the question, and the strings of a right answer where a golden set knows them.

    Raises InputError where nothing says what would have answered it, or where the golden set does not hold it.
    """
    if golden is not None:
        principals_file = golden.with_name("principals.yaml")
        principals = read_principals(principals_file) if principals_file.exists() else {}
        question = golden_question(read_golden(golden), principals, trace)
        return question.relevant, question.must_include
    if spans:
        return tuple(GoldenSpan(document, text) for text in spans), ()
    if document:
        return (GoldenSpan(document, ""),), ()
    raise InputError("nothing says what would have answered the question: give --gold, --gold-document or --golden")


def explain(
    config: RagConfig, trace: Trace, gold: Sequence[GoldenSpan], must_include: Sequence[str], *, operator: bool
) -> RootCause:
    """Where the words were lost, asked of the version that the trace pinned.

    Raises NotFound where that version is gone, IndexMismatch where the configuration can't read it.
    """
    version, store = trace.versions.index, open_store(config)
    config = config_of_version(config, version)
    shards = open_shards(config, version)
    uris = {span.document for span in gold}
    asker = Principal("", trace.tenant, frozenset(trace.groups))
    (vector,) = build_embedder(config).embed_queries([trace.query])
    query = EncodedQuery(trace.query, vector, asker, version)
    depth = min(MAX_DEPTH, max(1, sum(shard.num_chunks for shard in shards)))
    reranked = read_chunks(store, version, chunk_ids=[chunk_id for chunk_id, _ in trace.reranked])
    corpus = Corpus(
        chunks=tuple(read_chunks(store, version, uris=None if "" in uris else uris)),
        reranked={chunk.id: chunk for chunk in reranked},
        num_shards=len(shards),
        problems=_ingest_problems(store.root / "errors", uris),
    )
    standings = full_standings(shards, query, depth)
    return root_cause(trace, gold, corpus, standings, recorded_config(trace, config), must_include, operator)


def print_why(trace: Trace, found: RootCause, *, as_json: bool) -> None:
    """The cause in a sentence, and what each stage did with the words until they were lost."""
    if as_json:
        printing.print_json({"trace_id": trace.id, "question": trace.question, **asdict(found)})
        return
    printing.out.print(f"{found.cause}: {found.sentence}", markup=False)
    columns = ("stage", "passed", "rank", "score", "detail")
    for finding in found.spans:
        span = finding.span
        title = f"{span.document or 'any document'}: {span.text or 'any words'}"
        asked = [stage for stage in finding.stages if stage.passed is not None]
        rows = [(one.stage, "yes" if one.passed else "NO", one.rank or "", _score(one), one.detail) for one in asked]
        printing.print_rows(title, columns, rows)


def _score(stage: StageFinding) -> str:
    return "" if stage.score is None else f"{stage.score:.4f}"


def _ingest_problems(folder: Path, uris: Iterable[str]) -> dict[str, str]:
    """What the newest errors table that names each document says about it."""
    wanted, found = set(uris), dict[str, str]()
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["uri"] in wanted:
                found[row["uri"]] = f"{row['error']} at {row['stage']}: {row['message']}"
    return found


# ---------------------------------------------------------------- replay


class Replayer:
    """Repeats traces in this process; models are loaded once, and a version is open until another is asked for."""

    def __init__(self, config: RagConfig) -> None:
        self._config = config
        self._open: tuple[VersionId, Pipeline] | None = None
        self._embedders: dict[EmbedConfig, Embedder] = {}
        self._conditions: dict[EmbedConfig, Conditions] = {}

    async def replay(self, trace: Trace) -> Replay:
        """What became of the trace; one whose index version is gone is not replayable, and says so.

        Raises ModelError where a model is not on this machine.
        """
        try:
            config = config_of_version(self._config, trace.versions.index)
            if config.embed not in self._conditions:
                self._conditions[config.embed] = conditions_of(config)
            here = self._conditions[config.embed]
            if reasons := obstacles(trace, here):
                return not_replayable(trace, reasons)
            return await replay(trace, self._pipeline(trace.versions.index), here)
        except (NotFound, IndexMismatch, IndexDamaged, InputError) as error:
            return not_replayable(trace, [str(error)])

    def _pipeline(self, version: VersionId) -> Pipeline:
        if self._open is None or self._open[0] != version:
            self._open = None  # before the next one: both may not fit into memory
            config = config_of_version(self._config, version)
            shards = open_shards(config, version)
            if config.embed not in self._embedders:
                self._embedders[config.embed] = build_embedder(config)
            stages = LocalStages(
                config, version, shards, self._embedders[config.embed], self._reranker, reader=self._reader
            )
            self._open = (version, Pipeline(config, stages))
        return self._open[1]

    @cached_property
    def _reranker(self) -> Reranker:
        return build_reranker(self._config)

    @cached_property
    def _reader(self) -> Reader | None:
        return build_reader(self._config)


def stored_ids(config: RagConfig, trace_ids: Sequence[str], last: int | None, every: bool) -> list[TraceId]:
    """The traces that were asked for: by id, the newest, or all. Raises InputError for anything but one of the three.

    The newest come first.
    """
    if sum([bool(trace_ids), last is not None, every]) != 1:
        raise InputError("say which traces: their ids, or --last N, or --all")
    if trace_ids:
        return [TraceId(trace_id) for trace_id in trace_ids]
    traces = open_traces(config)
    try:
        found = traces.ids(MACHINE_OPERATOR, last)
    finally:
        traces.close()
    if not found:
        raise InputError(f"{config.trace.url.format(var=config.var)} holds no traces yet")
    return found


def replay_stored(
    config: RagConfig, trace_ids: Sequence[TraceId], done: Callable[[Replay], None] | None = None
) -> list[Replay]:
    """Every trace repeated in this process, in order. Raises NotFound for an id that the trace database lacks."""

    async def all_of_them() -> list[Replay]:
        replayer, found = Replayer(config), list[Replay]()
        for trace_id in trace_ids:
            found.append(await replayer.replay(traces.load(trace_id, MACHINE_OPERATOR)))
            if done is not None:
                done(found[-1])
        return found

    traces = open_traces(config)
    try:
        return asyncio.run(all_of_them())
    finally:
        traces.close()


def run_replays(config: RagConfig, trace_ids: Sequence[TraceId], *, as_json: bool) -> int:
    """Repeats the traces and shows what became of them; the exit code.

    1 when any differs, and when none could be repeated.
    """
    with Progress(console=printing.err, transient=True, disable=not printing.err.is_terminal) as progress:
        task = progress.add_task("replaying", total=len(trace_ids))
        found = replay_stored(config, trace_ids, lambda _: progress.advance(task))
    counts = {name: sum(one.verdict == name for one in found) for name in ("identical", "different", "not_replayable")}
    if as_json:
        printing.print_json({**counts, "traces": [asdict(one) for one in found]})
    else:
        _print_replays(found, counts)
    return 1 if counts["different"] or not counts["identical"] else 0


def _print_replays(found: Sequence[Replay], counts: dict[str, int]) -> None:
    if len(found) == 1:
        (one,) = found
        printing.out.print(f"{_words(one.verdict)}: {_what(one)}".rstrip(": "), markup=False)
        for note in one.notes:
            printing.out.print(f"note: {note}", markup=False)
        return
    odd = [one for one in found if one.verdict != "identical"]
    if odd:
        rows = [(one.trace_id, one.kind, one.version, _words(one.verdict), _what(one)) for one in odd[:SHOWN_REPLAYS]]
        printing.print_rows(
            "Traces that are not identical" + (f", the first {SHOWN_REPLAYS}" if len(odd) > SHOWN_REPLAYS else ""),
            ("trace", "kind", "version", "verdict", "first difference, or why not"),
            rows,
        )
    notes = sorted({note for one in found for note in one.notes})
    for note in notes:
        with_note = sum(note in one.notes for one in found)
        printing.out.print(f"note ({with_note} of {len(found)}): {note}", markup=False)
    said = ", ".join(f"{count} {_words(name)}" for name, count in counts.items() if count)
    printing.out.print(f"{said} of {len(found)}", markup=False)


def _words(verdict: str) -> str:
    return verdict.replace("_", " ")


def _what(one: Replay) -> str:
    return str(one.difference) if one.difference is not None else "; ".join(one.reasons)
