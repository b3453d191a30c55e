"""A running service is measured stage by stage through its traces, and says what it could not measure."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import yaml

from cluster.messages import search_message
from jobs.client import ServiceError
from jobs.evaluate_service import NO_INDEX, NO_PROMPT, NO_TRACE, evaluate_service
from rag.config import RagConfig
from rag.data import Principal, Question, Turn
from rag.errors import InputError
from rag.evaluate.golden import GoldenSpan
from rag.evaluate.run import EvaluationRun, evaluate
from rag.evaluate.tasks import SpanGold, Task
from rag.trace import SpanRecorder, new_trace_id
from tests.rag.evaluate.libraries import Library, cheap_config
from tests.rag.index.factories import TENANT, make_chunk

ANN = Principal("ann", TENANT, frozenset({"staff"}))
BOB = Principal("bob", TENANT, frozenset({"staff", "people"}))
CHUNKS = [
    make_chunk("Every employee has 25 days of paid leave a year.", "leave.md"),
    make_chunk("Parking in zone B costs 12 CHF a day.", "parking.md"),
    make_chunk("The pay band of level four starts at 90 thousand.", "pay.md", groups=["people"]),
]


def make_task(name: str, text: str, document: str, span: str, principal: Principal = ANN) -> Task:
    return Task(
        name, "lookup", principal.subject, Question(text, principal), SpanGold((GoldenSpan(document, span),)), name
    )


TASKS = [
    make_task("leave", "How many days of paid leave?", "leave.md", "25 days"),
    make_task("parking", "What does parking cost?", "parking.md", "12 CHF"),
    make_task("pay", "Where does the pay band start?", "pay.md", "90 thousand", BOB),
]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    config = cheap_config(tmp_path)
    keys = [
        {"key": f"key-of-{who.subject}-himself", "subject": who.subject, "tenant": TENANT, "groups": sorted(who.groups)}
        for who in (ANN, BOB)
    ]
    (tmp_path / "api_keys.yaml").write_text(yaml.safe_dump(keys))
    return Library(config, CHUNKS)


class Service:
    """Answers searches as the gateway does; `traces` off is a service that keeps none."""

    def __init__(self, library: Library, traces: bool = True, fails: str = "") -> None:
        self._library, self._traces, self._fails = library, traces, fails
        self._kept: dict[str, str] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        asker = {"key-of-ann-himself": ANN, "key-of-bob-himself": BOB}[request.headers["Authorization"].split()[1]]
        path = request.url.path
        if path == "/v1/index":
            return httpx.Response(200, json={"version": self._library.version})
        if path.startswith("/v1/traces/"):
            kept = self._kept.get(path.rsplit("/", 1)[1])
            return httpx.Response(200, text=kept) if kept else httpx.Response(404, json={"message": "no such trace"})
        body = json.loads(request.content)
        if self._fails and self._fails in body["query"]:
            return httpx.Response(503, json={"message": "overloaded"})
        return asyncio.run(self._search(Question(body["query"], asker), body["k"]))

    async def _search(self, question: Question, k: int) -> httpx.Response:
        pipeline, recorder = self._library.pipeline(), SpanRecorder()
        retrieval = await pipeline.retrieve(question, recorder)
        trace = pipeline.search_trace(new_trace_id(), question, retrieval, recorder)
        if self._traces:
            self._kept[trace.id] = trace.to_json()
        return httpx.Response(200, text=search_message(retrieval, trace, k).model_dump_json())


def asked(
    config: RagConfig, service: Callable[[httpx.Request], httpx.Response], tasks: list[Task] | None = None
) -> EvaluationRun:
    transport = httpx.MockTransport(service)
    return evaluate_service(config, "http://service", tasks or TASKS, "tiny", transport=transport)


def test_it_measures_what_the_pipeline_in_one_process_does(library: Library) -> None:
    run = asked(library.config, Service(library))
    local = asyncio.run(evaluate(library.pipeline(), TASKS, library.config, "tiny"))
    assert tuple(run.scores) == ("chunks", "dense", "bm25", "fused", "reranked")
    assert run.scores == {stage: columns for stage, columns in local.scores.items() if stage != "prompt"}
    assert run.broken() == local.broken()
    assert run.settings == local.settings
    assert list(run.latency)[-1] == "http"
    assert run.notes == (NO_PROMPT,)


def test_questions_with_history_are_left_out_and_named(library: Library) -> None:
    follow_up = replace(TASKS[0], id="later", question=replace(TASKS[0].question, history=(Turn("user", "Hello"),)))
    run = asked(library.config, Service(library), [*TASKS, follow_up])
    assert run.ids == ("leave", "parking", "pay")
    assert any("later" in note for note in run.notes)


def test_a_service_without_traces_is_measured_by_what_comes_back(library: Library) -> None:
    run = asked(library.config, Service(library, traces=False))
    assert tuple(run.scores) == ("chunks", "reranked")
    assert run.scores["reranked"]["hit@1"] == (1.0, 1.0, 1.0)
    assert NO_TRACE in run.notes
    assert {"embed", "search", "rerank", "http"} <= set(run.latency)


def test_without_the_index_here_access_is_not_checked_and_the_run_says_so(library: Library, tmp_path: Path) -> None:
    elsewhere = library.config.model_copy(update={"store": tmp_path / "none"})
    run = asked(elsewhere, Service(library))
    assert tuple(run.scores) == ("reranked",)
    assert NO_INDEX in run.notes
    assert set(run.invariants) == {"lost_passages", "partial", "failed", "wrong_version"}
    assert run.scores["reranked"]["hit@1"] == (1.0, 1.0, 1.0)


def test_a_service_that_stays_with_an_old_version_is_seen(library: Library) -> None:
    service = Service(library)
    newer = Library(library.config, [*CHUNKS[1:], make_chunk("Visitors collect a badge.", "visitors.md")])
    assert newer.version != library.version
    run = asked(library.config, service)
    assert run.broken()["wrong_version"] == len(TASKS)


def test_a_question_that_fails_is_a_miss_and_a_service_that_is_not_there_is_an_error(library: Library) -> None:
    run = asked(library.config, Service(library, fails="parking"))
    assert run.failures == {"parking": "overloaded (HTTP 503)"}
    assert run.scores["reranked"]["hit@1"] == (1.0, 0.0, 1.0)

    def nobody(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(ServiceError, match="does not answer"):
        asked(library.config, nobody)


def test_an_asker_without_a_key_is_named(library: Library) -> None:
    carl = replace(TASKS[0], asker="carl")
    with pytest.raises(InputError, match="has no key for carl"):
        asked(library.config, Service(library), [carl])
