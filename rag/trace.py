"""What happened to one question, kept so that it can be looked up and repeated."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock
from pydantic import ConfigDict, TypeAdapter, ValidationError
from sqlalchemy import Column, MetaData, String, Table, Text, create_engine, event, insert, select
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.pool import QueuePool
from sqlalchemy.schema import CreateIndex, CreateTable

from rag.data import AbstainReason, Message, Principal, Span, Turn
from rag.errors import InputError, NotFound
from rag.ids import ChunkId, TraceId, VersionId, digest

TraceKind = Literal["answer", "search"]
Scores = tuple[tuple[ChunkId, float], ...]  # one stage's candidates, best first


@dataclass(frozen=True, slots=True)
class TraceVersions:
    """All that has to be the same for the same question to get the same passages and prompt."""

    index: VersionId
    encoder: str
    reranker: str
    generator: str
    prompt: str
    config: str  # fingerprint


@dataclass(frozen=True, slots=True)
class Trace:
    """One question with everything that led to its answer. The asker is a digest; passages are named, not copied."""

    __pydantic_config__ = ConfigDict(ser_json_inf_nan="constants", extra="forbid")

    id: TraceId
    created_at: datetime
    asker: str  # identity_of(principal)
    tenant: str
    groups: tuple[str, ...]  # sorted: what the search was allowed to see
    question: str
    query: str
    versions: TraceVersions
    history: tuple[Turn, ...] = ()
    rewrites: tuple[str, ...] = ()
    dense: Scores = ()
    bm25: Scores = ()
    fused: Scores = ()
    reranked: Scores = ()
    passages: tuple[ChunkId, ...] = ()  # in the order of their numbers
    messages: tuple[Message, ...] = ()
    answer: str = ""
    citations: tuple[ChunkId, ...] = ()
    abstained: AbstainReason = ""
    partial: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0
    error: str = ""  # what ended the question before its end, as `Class: message`; the spans say how far it came
    kind: TraceKind = "answer"  # a search has no passages, no prompt and no answer
    settings: Mapping[str, str] = field(default_factory=dict)  # rag.provenance.shaping_settings; empty: not recorded
    runtime: Mapping[str, str] = field(default_factory=dict)  # rag.provenance.runtime of the process that kept it

    def to_json(self) -> str:
        """The trace as one JSON object; `from_json` gives an equal one back."""
        return _adapter().dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        """The trace in a text of `to_json`. Raises InputError for any other text."""
        try:
            return _adapter().validate_json(text)
        except ValidationError as error:
            raise InputError(
                f"not a trace: {error.error_count()} problems, first {error.errors()[0]['msg']}"
            ) from error


def _adapter() -> TypeAdapter[Trace]:
    global _trace_adapter
    if _trace_adapter is None:
        _trace_adapter = TypeAdapter(Trace)
    return _trace_adapter


_trace_adapter: TypeAdapter[Trace] | None = None


def new_trace_id() -> TraceId:
    """An id that nobody can guess."""
    return TraceId(uuid.uuid4().hex)


def identity_of(principal: Principal) -> str:
    """The digest that stands for a person in traces: equal for equal subject and tenant, without naming them."""
    return digest("asker", principal.tenant, principal.subject)


_SQLITE_WAIT_S = 30  # for who holds the file

_metadata = MetaData()
_traces = Table(
    "traces",
    _metadata,
    Column("id", String(64), primary_key=True),
    Column("created_at", String(40), nullable=False, index=True),
    Column("tenant", String(200), nullable=False),
    Column("asker", String(64), nullable=False, index=True),
    Column("body", Text, nullable=False),
)


class TraceStore:
    """Traces in a database; safe to use from several threads, and a file from several processes."""

    def __init__(self, url: str) -> None:
        self._engine = _open(url)
        with self._engine.begin() as connection:
            connection.execute(CreateTable(_traces, if_not_exists=True))
            for index in sorted(_traces.indexes, key=lambda index: str(index.name)):
                connection.execute(CreateIndex(index, if_not_exists=True))  # another replica may be opening it too

    def save(self, trace: Trace) -> None:
        """Keeps the trace; it is there for every reader when this returns."""
        row = {
            "id": trace.id,
            "created_at": trace.created_at.isoformat(),
            "tenant": trace.tenant,
            "asker": trace.asker,
            "body": trace.to_json(),
        }
        with self._engine.begin() as connection:
            connection.execute(insert(_traces).values(**row))

    def load(self, trace_id: TraceId, principal: Principal) -> Trace:
        """The trace, for who asked the question and for operators.

        Raises NotFound for anybody else, in the same words as for an id that does not exist.
        """
        with self._engine.connect() as connection:
            row = connection.execute(select(_traces.c.asker, _traces.c.body).where(_traces.c.id == trace_id)).first()
        if row is None or not (principal.operator or row.asker == identity_of(principal)):
            raise NotFound(f"there is no trace {trace_id} that you can read")
        return Trace.from_json(row.body)

    def ids(self, principal: Principal, limit: int | None = None) -> list[TraceId]:
        """The ids of the traces that the principal can read, newest first; all of them without a limit."""
        query = select(_traces.c.id).order_by(_traces.c.created_at.desc(), _traces.c.id).limit(limit)
        if not principal.operator:
            query = query.where(_traces.c.asker == identity_of(principal))
        with self._engine.connect() as connection:
            return [TraceId(name) for name in connection.execute(query).scalars()]

    def close(self) -> None:
        """Closes every connection."""
        self._engine.dispose()


def _open(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(parsed, pool_pre_ping=True)
    if not parsed.database or parsed.database == ":memory:":
        # Each connection to memory would be a database of its own: one for all threads, used by one at a time.
        return create_engine(
            parsed, poolclass=QueuePool, pool_size=1, max_overflow=0, connect_args={"check_same_thread": False}
        )
    Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(parsed, connect_args={"timeout": _SQLITE_WAIT_S})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, record: Any) -> None:  # Any: DB-API objects, which have no types
        connection.execute("PRAGMA synchronous=NORMAL")

    # SQLite waits for no lock while it turns a file to another journal: of two that do so at once, one fails.
    with FileLock(f"{parsed.database}.lock", timeout=_SQLITE_WAIT_S), engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")  # the file keeps it; readers do not wait for the writer
    return engine


# ---------------------------------------------------------------- spans


@dataclass(slots=True)
class OpenSpan:
    """A span that is being measured; what is set on it goes into the finished one."""

    compute_ms: float | None = None  # the wall time, where a stage does not say
    counts: dict[str, int] = field(default_factory=dict)


class SpanRecorder:
    """Collects the spans of one question, from the moment it is made."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._arrived = clock()
        self._spans: list[Span] = []
        self._lock = threading.Lock()

    @contextmanager
    def span(self, name: str, counts: Mapping[str, int] | None = None) -> Iterator[OpenSpan]:
        """Measures the block; a block that raises leaves its span too."""
        open_span = OpenSpan(counts=dict(counts or {}))
        started = self._clock()
        try:
            yield open_span
        finally:
            wall_ms = (self._clock() - started) * 1_000
            compute_ms = wall_ms if open_span.compute_ms is None else open_span.compute_ms
            start_ms = (started - self._arrived) * 1_000
            with self._lock:
                self._spans.append(Span(name, start_ms, wall_ms, compute_ms, dict(open_span.counts)))

    @property
    def elapsed_ms(self) -> float:
        """Time since the question arrived."""
        return (self._clock() - self._arrived) * 1_000

    @property
    def spans(self) -> tuple[Span, ...]:
        """The finished spans in order of their start."""
        with self._lock:
            return tuple(sorted(self._spans, key=lambda span: span.start_ms))
