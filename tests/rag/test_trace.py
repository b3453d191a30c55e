"""Traces kept, read and guarded."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from rag.data import Message, Principal, Span, Turn
from rag.errors import InputError, NotFound
from rag.ids import ChunkId, TraceId, VersionId
from rag.trace import SpanRecorder, Trace, TraceStore, TraceVersions, identity_of, new_trace_id

ADA = Principal("ada", "acme", frozenset({"staff"}))
VERSIONS = TraceVersions(VersionId("v1"), "minilm", "cross", "smollm", "1", "abc")
TRACE = Trace(
    id=TraceId("t1"),
    created_at=datetime(2024, 5, 1, 12, 30, 0, 123456, tzinfo=UTC),
    asker=identity_of(ADA),
    tenant="acme",
    groups=("staff",),
    question="What's the PTO?",
    query="What's the PTO (paid time off)?",
    versions=VERSIONS,
    history=(Turn("user", "Hi"), Turn("assistant", "Hello")),
    rewrites=("glossary",),
    dense=((ChunkId("c1"), 0.1 + 0.2), (ChunkId("c2"), 1 / 3)),
    bm25=((ChunkId("c2"), 12.5),),
    fused=((ChunkId("c2"), 0.03175),),
    reranked=((ChunkId("c2"), float("-inf")),),
    passages=(ChunkId("c2"),),
    messages=(Message("system", "Rules\n"), Message("user", "停车 \u2028?")),
    answer="25 days [1].",
    citations=(ChunkId("c2"),),
    partial=("shard 1",),
    spans=(Span("search", 1.5, 20.25, 18.0, {"out": 50}),),
    num_prompt_tokens=400,
    num_output_tokens=12,
    settings={"search.k_dense": "50"},
    runtime={"numpy": "2.0"},
)


def test_a_trace_survives_json() -> None:
    assert Trace.from_json(TRACE.to_json()) == TRACE


def test_a_trace_of_before_settings_were_recorded_is_still_read() -> None:
    row = json.loads(TRACE.to_json())
    for name in ("kind", "settings", "runtime"):
        del row[name]
    old = Trace.from_json(json.dumps(row))
    assert (old.kind, old.settings, old.runtime) == ("answer", {}, {})
    assert old == replace(TRACE, settings={}, runtime={})


finite = st.floats(allow_nan=False)
texts = st.text(max_size=10)


@settings(deadline=None)
@given(
    question=texts,
    scores=st.lists(st.tuples(texts.map(ChunkId), finite), max_size=4).map(tuple),
    spans=st.lists(
        st.builds(Span, texts, finite, finite, finite, st.dictionaries(texts, st.integers(0, 2**40))), max_size=3
    ).map(tuple),
    created_at=st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))])),
)
def test_nothing_is_lost_in_json(
    question: str,
    scores: tuple[tuple[ChunkId, float], ...],
    spans: tuple[Span, ...],
    created_at: datetime,
) -> None:
    trace = replace(TRACE, question=question, dense=scores, spans=spans, created_at=created_at)
    again = Trace.from_json(trace.to_json())
    assert again == trace
    assert again.created_at.utcoffset() == trace.created_at.utcoffset()


def test_a_text_that_is_no_trace_is_refused_without_quoting_it() -> None:
    with pytest.raises(InputError, match="not a trace") as caught:
        Trace.from_json('{"question": "secret"}')
    assert "secret" not in str(caught.value)


def test_the_asker_is_a_digest_that_tells_tenants_apart() -> None:
    assert identity_of(ADA) == identity_of(replace(ADA, groups=frozenset(), operator=True))
    assert identity_of(ADA) != identity_of(replace(ADA, tenant="other"))
    assert "ada" not in TRACE.to_json()
    assert new_trace_id() != new_trace_id()


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TraceStore:
    url = "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/new/folder/traces.db"
    return TraceStore(url)


def test_the_asker_and_an_operator_read_a_trace(store: TraceStore) -> None:
    store.save(TRACE)
    assert store.load(TRACE.id, ADA) == TRACE
    assert store.load(TRACE.id, Principal("op", "other", frozenset(), operator=True)) == TRACE


def test_for_anybody_else_a_trace_does_not_exist(store: TraceStore) -> None:
    store.save(TRACE)
    messages = set()
    for principal in (replace(ADA, subject="bob"), replace(ADA, tenant="other")):
        for trace_id in (TRACE.id, TraceId("nope")):
            with pytest.raises(NotFound) as caught:
                store.load(trace_id, principal)
            messages.add(str(caught.value).replace(trace_id, "ID"))
    assert len(messages) == 1


def test_traces_are_listed_newest_first_to_whoever_can_read_them(store: TraceStore) -> None:
    for day, asker in ((1, ADA), (3, replace(ADA, subject="bob")), (2, ADA)):
        made = datetime(2024, 5, day, tzinfo=UTC)
        store.save(replace(TRACE, id=TraceId(f"t{day}"), created_at=made, asker=identity_of(asker)))
    operator = Principal("op", "", frozenset(), operator=True)
    assert store.ids(operator) == ["t3", "t2", "t1"]
    assert store.ids(operator, limit=2) == ["t3", "t2"]
    assert store.ids(ADA) == ["t2", "t1"]
    assert store.ids(replace(ADA, tenant="other")) == []


def test_threads_can_save_and_load_at_once(store: TraceStore) -> None:
    errors: list[Exception] = []

    def work(thread: int) -> None:
        try:
            for i in range(5):
                trace = replace(TRACE, id=TraceId(f"{thread}-{i}"))
                store.save(trace)
                assert store.load(trace.id, ADA) == trace
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store.load(TraceId("3-4"), ADA).id == "3-4"


def test_a_file_is_opened_again_and_by_two_stores_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/traces.db"
    first, second = TraceStore(url), TraceStore(url)
    first.save(TRACE)
    second.save(replace(TRACE, id=TraceId("t2")))
    first.close()
    assert TraceStore(url).load(TraceId("t2"), ADA).id == "t2"
    assert second.load(TRACE.id, ADA) == TRACE
    with create_engine(url).connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"


@pytest.mark.parametrize("database", range(60))
def test_several_replicas_open_and_close_a_new_database_at_once(tmp_path: Path, database: int) -> None:
    together = threading.Barrier(8)

    def replica(name: int) -> None:
        together.wait()
        for turn in range(2):
            store = TraceStore(f"sqlite:///{tmp_path}/traces.db")
            store.save(replace(TRACE, id=TraceId(f"{name}-{turn}")))
            store.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(replica, range(8)))
    operator = replace(ADA, operator=True)
    assert len(TraceStore(f"sqlite:///{tmp_path}/traces.db").ids(operator)) == 16


# ---------------------------------------------------------------- spans


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_spans_measure_from_the_arrival_of_the_question() -> None:
    clock = Clock()
    recorder = SpanRecorder(clock)
    clock.now += 0.5
    with recorder.span("search", {"in": 2}) as span:
        clock.now += 0.25
        span.compute_ms = 100.0
        span.counts["out"] = 50
    with recorder.span("rerank"):
        clock.now += 0.125
    assert recorder.spans == (
        Span("search", 500.0, 250.0, 100.0, {"in": 2, "out": 50}),
        Span("rerank", 750.0, 125.0, 125.0, {}),
    )
    assert recorder.elapsed_ms == 875.0


def test_spans_inside_each_other_are_ordered_by_their_start() -> None:
    clock = Clock()
    recorder = SpanRecorder(clock)
    with recorder.span("answer"):
        clock.now += 1
        with recorder.span("generate"):
            clock.now += 1
    assert [span.name for span in recorder.spans] == ["answer", "generate"]


def test_a_stage_that_fails_leaves_its_span() -> None:
    recorder = SpanRecorder(Clock())
    with pytest.raises(ValueError, match="late"), recorder.span("search"):
        raise ValueError("late")
    assert [span.name for span in recorder.spans] == ["search"]
