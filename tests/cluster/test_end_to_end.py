"""The whole path on the real stack: the sample corpus through a Ray job, Ray Serve and vLLM, as its askers see it."""

import json
import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import pytest

from bench.sample_access import read_sample_access
from jobs.client import ServiceError
from jobs.trace_commands import replay_stored
from rag.data import Question
from rag.evaluate.golden import GoldenQuestion, holds_span, read_golden, read_principals
from rag.ids import TraceId
from rag.index.store import IndexStore
from rag.local import local_pipeline
from rag.trace import SpanRecorder
from tests.cluster.conftest import SAMPLE, LiveService

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1_200)]

GOLDEN = read_golden(SAMPLE / "golden.jsonl")
PRINCIPALS = read_principals(SAMPLE / "principals.yaml")


def _kind(kind: str) -> list[GoldenQuestion]:
    return [question for question in GOLDEN if question.kind == kind]


def _hit(service: LiveService, question: GoldenQuestion, k: int = 5) -> bool:
    with service.client(question.asker) as client:
        results = client.search(question.text, k).results
    return any(holds_span(span, found.uri, found.text) for found in results for span in question.relevant)


def test_the_job_indexes_the_whole_sample(service: LiveService) -> None:
    assert "published" in service.ingested.stdout
    assert service.ingested.returncode == 0
    assert list((service.config.index_root / "errors").glob("*.jsonl")) == []


def test_a_scan_is_found_by_what_its_picture_says(service: LiveService) -> None:
    questions = _kind("scan")
    assert questions
    assert all(_hit(service, question) for question in questions)


def test_lookups_are_found_among_the_first_five(service: LiveService) -> None:
    questions = _kind("lookup")[::2]  # all of them: bench/golden.py
    assert np.mean([_hit(service, question) for question in questions]) >= 0.9


def test_every_identifier_is_found_among_the_first_five(service: LiveService) -> None:
    assert [question.id for question in _kind("identifier") if not _hit(service, question)] == []


def test_nobody_finds_what_they_may_not_read(service: LiveService) -> None:
    access = read_sample_access(SAMPLE, service.corpus)
    leaked: list[tuple[str, str, str]] = []
    for name, principal in PRINCIPALS.items():
        with service.client(name) as client:
            for question in _kind("permission")[:8:2]:
                found = client.search(question.text, 50).results
                leaked += [(question.id, name, c.uri) for c in found if not access.may_read(principal, c.uri)]
                assert bool(found) == bool(principal.groups)
    assert leaked == []


def test_an_answer_streams_and_each_of_its_citations_resolves(service: LiveService) -> None:
    num_cited = 0
    for question in _kind("lookup")[:4]:
        with service.client(question.asker) as client:
            events = list(client.stream(question.text))
            done = events[-1].data
            trace = client.trace(done["trace_id"])
        assert events[0].name == "retrieval"
        assert done["answer"] == "".join(event.data["text"] for event in events if event.name == "token")
        passages = {passage["chunk_id"] for passage in events[0].data["passages"]}
        assert {citation["chunk_id"] for citation in done["citations"]} <= passages
        assert {int(n) for n in re.findall(r"\[(\d+)\]", done["answer"])} == {c["number"] for c in done["citations"]}
        assert trace["answer"] == done["answer"]
        num_cited += len(done["citations"])
    assert num_cited > 0


def test_a_trace_is_hidden_from_other_askers(service: LiveService) -> None:
    with service.client("engineer") as client:
        trace_id = client.ask("What does ERR_4031 mean?").trace_id
        assert client.trace(trace_id)["question"] == "What does ERR_4031 mean?"
    with service.client("executive") as client, pytest.raises(ServiceError, match="no trace"):
        client.trace(trace_id)


def test_a_question_that_fails_leaves_a_trace_too(service: LiveService) -> None:
    with service.client("engineer") as client:
        with pytest.raises(ServiceError, match="HTTP 422, trace ") as raised:
            client.search("why " * 1_000, 5)
        assert client.trace(raised.value.trace_id)["error"].startswith("InputError: ")


async def test_the_cluster_and_one_process_agree_up_to_the_prompt(service: LiveService) -> None:
    pipeline = local_pipeline(service.config)
    for question in [*_kind("lookup")[:3], *_kind("table")[:2], *_kind("identifier")[:1]]:
        asked = Question(question.text, PRINCIPALS[question.asker])
        retrieval = await pipeline.retrieve(asked, SpanRecorder())
        prompt = await pipeline.prompt(asked, retrieval, SpanRecorder())
        _, prompt = await pipeline.decide(asked, retrieval, prompt, SpanRecorder())
        with service.client(question.asker) as client:
            trace = client.trace(client.ask(question.text).trace_id)
        assert [tuple(pair) for pair in trace["fused"]] == [(c.chunk_id, c.score) for c in retrieval.result.fused]
        assert [pair[0] for pair in trace["reranked"]] == [c.chunk_id for c in retrieval.reranked]
        assert [message["content"] for message in trace["messages"]] == [m.content for m in prompt.messages]


def test_the_traces_of_the_service_replay_bit_by_bit(service: LiveService) -> None:
    trace_ids: list[str] = []
    for question in [*_kind("lookup")[:6], *_kind("identifier")[:2]]:
        with service.client(question.asker) as client:
            trace_ids.append(client.search(question.text, 5).trace_id)
    for question in [*_kind("table")[:2], *_kind("follow_up")[:2]]:
        with service.client(question.asker) as client:
            trace_ids.append(client.ask(question.text, question.history).trace_id)
    found = replay_stored(service.config, [TraceId(trace_id) for trace_id in trace_ids])
    assert [(one.verdict, one.difference, one.reasons) for one in found] == [("identical", None, ())] * len(found)


def test_a_follow_up_is_searched_for_with_what_it_refers_to(service: LiveService) -> None:
    question = _kind("follow_up")[0]
    with service.client(question.asker) as client:
        answer = client.ask(question.text, question.history)
        trace = client.trace(answer.trace_id)
    assert trace["query"] != question.text
    assert trace["rewrites"]


def test_a_client_that_leaves_frees_the_slot_of_the_model(service: LiveService) -> None:
    question = _kind("lookup")[0]
    with service.client(question.asker) as client, closing(client.stream(question.text)) as events:  # type: ignore[type-var]  # a generator, typed as an iterator
        assert next(event.name for event in events if event.name == "token") == "token"
    deadline = time.monotonic() + 30
    while (running := _running_requests(service.url)) and time.monotonic() < deadline:
        time.sleep(1)
    assert running == 0


def test_a_version_published_under_way_is_picked_up_and_rolled_back(service: LiveService) -> None:
    store = IndexStore(service.config.index_root)
    before = store.current()
    page = service.corpus / "tarnfell" / "handbook" / "kiln-room.md"
    page.write_text("# Kiln room\n\nThe kiln in the Quillback annex is fired every second Thursday at 06:40.\n")
    service.quire("ingest", "--config", str(service.place / "rag.yaml"), str(service.corpus), check=False)
    assert store.current() != before
    try:
        assert _eventually(lambda: "kiln-room.md" in _uris(service, "When is the Quillback kiln fired?"))
    finally:
        page.unlink()
        service.quire("rollback", "--config", str(service.place / "rag.yaml"))
    assert store.current() == before
    assert _eventually(lambda: "kiln-room.md" not in _uris(service, "When is the Quillback kiln fired?"))


def test_the_service_describes_itself(service: LiveService) -> None:
    assert httpx.get(f"{service.url}/healthz").json()["status"] == "ok"
    assert "/v1/query" in httpx.get(f"{service.url}/openapi.json").json()["paths"]
    assert httpx.get(f"{service.url}/docs").status_code == 200
    assert httpx.get(f"{service.url}/v1/index").status_code == 401
    with service.client("new-hire") as client:
        assert client.index()["version"] == IndexStore(service.config.index_root).current()
    status = json.loads(service.quire("status", "--config-dir", str(service.place), "--json").stdout)
    assert status["service"]["healthy"]
    assert {"gateway", "generator", "shard-0", "shard-1"} <= set(status["service"]["deployments"])


def _uris(service: LiveService, query: str) -> str:
    with service.client("new-hire") as client:
        return " ".join(Path(found.uri).name for found in client.search(query, 5).results)


def _eventually(holds: Callable[[], bool], within_s: float = 30.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.5)
    return holds()


def _running_requests(url: str) -> int:
    """Requests in the engine, of its own gauge."""
    exported = httpx.get(f"{url}/metrics", timeout=30).text
    values = re.findall(r"^ray_vllm_num_requests_running\{[^}]*\} ([0-9.]+)$", exported, re.MULTILINE)
    assert values, "the engine exports no gauge of its running requests"
    return int(sum(float(value) for value in values))
