"""The HTTP interface over the real pipeline in one process, with the cheap parts: statuses, limits, events."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient

from cluster.identity import Authenticator
from cluster.ingress import STATUS_OF, build_api, status_of
from cluster.messages import IndexMessage, SearchMessage, index_message, search_message
from rag import errors
from rag.config import EmbedConfig, GenerateConfig, IndexConfig, LimitsConfig, RagConfig, RerankConfig
from rag.data import Principal, Question
from rag.errors import DeadlineExceeded, Overloaded, RagError
from rag.ids import TraceId, VersionId
from rag.index.store import IndexStore
from rag.local import local_pipeline
from rag.parts import build_embedder
from rag.pipeline import DoneEvent, Event
from rag.trace import SpanRecorder, Trace, TraceStore, new_trace_id
from tests.rag.index.factories import commit, make_chunk

KEYS = [
    {"key": "key-ann", "subject": "ann", "tenant": "acme", "groups": ["staff"]},
    {"key": "key-hr", "subject": "hr", "tenant": "acme", "groups": ["staff", "people"]},
    {"key": "key-none", "subject": "none", "tenant": "acme", "groups": []},
    {"key": "key-ops", "subject": "ops", "tenant": "acme", "groups": [], "operator": True},
]
TEXTS = [
    ("handbook/leave.md", "Every employee has 25 days of paid leave a year.", ["staff"]),
    ("handbook/parking.md", "Parking in zone B costs 12 CHF a day.", ["staff"]),
    ("people/pay.md", "The pay band of level four starts at 90 thousand a year.", ["people"]),
]


class InProcess:
    """What the gateway offers, without a cluster under it."""

    def __init__(self, config: RagConfig) -> None:
        self._authenticator = Authenticator(config.auth)
        self._pipeline = local_pipeline(config)
        self._traces = TraceStore(config.trace.url.format(var=config.var))
        self._store = IndexStore(config.index_root)
        self._version = self._store.current()
        self.fails_with: RagError | None = None
        self.asked: list[Question] = []

    def authenticate(self, authorization: str | None) -> Principal:
        return self._authenticator.principal(authorization)

    def version(self) -> VersionId:
        return self._version

    async def answer(self, question: Question) -> AsyncGenerator[Event]:
        self.asked.append(question)
        async with aclosing(self._pipeline.answer(question, new_trace_id())) as events:
            async for event in events:
                if isinstance(event, DoneEvent):
                    self._traces.save(event.trace)
                yield event
                if self.fails_with is not None:
                    raise self.fails_with

    async def search(self, question: Question, k: int) -> SearchMessage:
        if self.fails_with is not None:
            raise self.fails_with
        recorder = SpanRecorder()
        retrieval = await self._pipeline.retrieve(question, recorder)
        trace = self._pipeline.search_trace(new_trace_id(), question, retrieval, recorder)
        self._traces.save(trace)
        return search_message(retrieval, trace, k)

    async def index(self) -> IndexMessage:
        return index_message(self._store.manifest(self._version))

    async def trace(self, trace_id: TraceId, principal: Principal) -> Trace:
        return self._traces.load(trace_id, principal)

    async def metrics(self) -> str:
        return ""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RagConfig:
    root = tmp_path_factory.mktemp("service")
    (root / "keys.yaml").write_text(yaml.safe_dump(KEYS))
    settings = RagConfig(
        store=root,
        var=root,
        models=root,
        embed=EmbedConfig(embedder="hashing"),
        index=IndexConfig(num_shards=2),
        rerank=RerankConfig(reranker="overlap"),
        generate=GenerateConfig(generator="extractive", min_evidence=0.0),
        limits=LimitsConfig(max_body_bytes=4_096, max_question_characters=500),
        auth={"api_keys_file": root / "keys.yaml"},
    )
    chunks = [make_chunk(text, uri, groups=groups) for uri, text, groups in TEXTS]
    vectors = build_embedder(settings).embed_passages([chunk.embedded_text for chunk in chunks])
    store = IndexStore(settings.index_root)
    store.publish(commit(store, chunks, vectors, settings).version)
    return settings


@pytest.fixture
def service(config: RagConfig) -> InProcess:
    return InProcess(config)


@pytest.fixture
def client(service: InProcess, config: RagConfig) -> Iterator[TestClient]:
    with TestClient(build_api(service, config.limits)) as client:
        yield client


def _as(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer key-{name}"}


def test_an_answer_cites_a_passage_that_the_asker_may_read(client: TestClient) -> None:
    body = client.post("/v1/query", json={"question": "How many days of paid leave?"}, headers=_as("ann")).json()
    assert "25 days" in body["answer"]
    assert [citation["uri"] for citation in body["citations"]] == ["handbook/leave.md"]
    assert body["version"].startswith("v-")
    assert {"search", "rerank", "generate"} <= {stage["name"] for stage in body["stages"]}


def test_every_sentence_comes_with_its_quotes_and_how_far_they_support_it(client: TestClient) -> None:
    body = client.post("/v1/query", json={"question": "How many days of paid leave?"}, headers=_as("ann")).json()
    assert "".join(sentence["text"] for sentence in body["sentences"]) in body["answer"]
    (sentence,) = body["sentences"]
    (citation,) = sentence["citations"]
    text = {uri: text for uri, text, _ in TEXTS}[citation["uri"]]
    assert text[citation["start"] : citation["end"]] == citation["quote"]
    assert 0.5 < sentence["support"] <= 1.0


def test_an_answer_is_greedy_on_request(client: TestClient, service: InProcess) -> None:
    for greedy in (True, False):
        client.post("/v1/query", json={"question": "How many days?", "greedy": greedy}, headers=_as("ann"))
    client.post("/v1/query", json={"question": "How many days?"}, headers=_as("ann"))
    assert [question.greedy for question in service.asked] == [True, False, False]


def test_a_stream_is_typed_and_its_last_event_is_the_whole_answer(client: TestClient) -> None:
    request = {"question": "How many days of paid leave?", "stream": True}
    with client.stream("POST", "/v1/query", json=request, headers=_as("ann")) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = _events("".join(response.iter_text()))
    names = [name for name, _ in events]
    assert names[0] == "retrieval"
    assert names[-1] == "done"
    assert set(names[1:-1]) == {"token", "citation"}
    assert "".join(data["text"] for name, data in events if name == "token") == events[-1][1]["answer"]
    assert [data for name, data in events if name == "citation"] == events[-1][1]["citations"]


def test_search_returns_only_what_the_caller_may_read(client: TestClient) -> None:
    query = {"query": "pay band of level four", "k": 10}
    as_staff = client.post("/v1/search", json=query, headers=_as("ann")).json()["results"]
    as_people = client.post("/v1/search", json=query, headers=_as("hr")).json()["results"]
    assert "people/pay.md" not in {result["uri"] for result in as_staff}
    assert as_people[0]["uri"] == "people/pay.md"


def test_the_live_version_is_described_to_whoever_is_known(client: TestClient) -> None:
    described = client.get("/v1/index", headers=_as("none")).json()
    assert (described["documents"], described["chunks"], described["num_shards"]) == (3, 3, 2)
    assert client.get("/v1/index").status_code == 401


def test_a_caller_without_groups_gets_an_empty_world_and_not_an_error(client: TestClient) -> None:
    response = client.post("/v1/search", json={"query": "leave"}, headers=_as("none"))
    assert (response.status_code, response.json()["results"]) == (200, [])
    answer = client.post("/v1/query", json={"question": "How many days of leave?"}, headers=_as("none")).json()
    assert (answer["abstained"], answer["citations"], answer["closest"]) == ("no_passages", [], [])


def test_a_trace_is_read_by_its_asker_and_by_operators_alone(client: TestClient) -> None:
    asked = client.post("/v1/query", json={"question": "Where is zone B?"}, headers=_as("ann")).json()
    path = f"/v1/traces/{asked['trace_id']}"
    assert client.get(path, headers=_as("ann")).json()["question"] == "Where is zone B?"
    assert client.get(path, headers=_as("ops")).status_code == 200
    refused, missing = client.get(path, headers=_as("hr")), client.get("/v1/traces/nothing", headers=_as("hr"))
    assert (refused.status_code, missing.status_code) == (404, 404)
    assert refused.json()["message"].replace(asked["trace_id"], "ID") == missing.json()["message"].replace(
        "nothing", "ID"
    )


def test_a_search_leaves_a_trace_without_a_prompt(client: TestClient) -> None:
    found = client.post("/v1/search", json={"query": "zone B", "k": 1}, headers=_as("ann")).json()
    path = f"/v1/traces/{found['trace_id']}"
    trace = Trace.from_json(client.get(path, headers=_as("ann")).text)
    assert (trace.kind, trace.question, trace.messages, trace.answer) == ("search", "zone B", (), "")
    assert trace.reranked[0][0] == found["results"][0]["chunk_id"]
    assert client.get(path, headers=_as("hr")).status_code == 404


@pytest.mark.parametrize("path", ["/v1/query", "/v1/search"])
@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "key-ann"}])
def test_nobody_is_answered_without_a_credential(client: TestClient, path: str, header: dict[str, str]) -> None:
    response = client.post(path, json={"question": "x"} if "query" in path else {"query": "x"}, headers=header)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/v1/query", '{"question": ', 400, "JSON"),
        ("/v1/query", '{"question": ""}', 422, "empty"),
        ("/v1/query", '{"question": "   "}', 422, "empty"),
        ("/v1/query", json.dumps({"question": "word " * 300}), 422, "500"),
        ("/v1/query", json.dumps({"question": "word " * 10_000}), 413, "4096"),
        ("/v1/query", '{"question": "x", "modle": "y"}', 422, "modle"),
        ("/v1/query", '{"question": 5}', 422, "question"),
        ("/v1/query", '{"question": "x", "history": [{"role": "system", "content": "y"}]}', 422, "role"),
        ("/v1/search", '{"query": "x", "k": 0}', 422, "k"),
        ("/v1/search", '{"query": "x", "k": 1000000}', 422, "100"),
        ("/v1/search", '{"query": ""}', 422, "empty"),
        ("/v1/search", "{}", 422, "query"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong_with_it(
    client: TestClient, path: str, body: str, status: int, word: str
) -> None:
    headers = {**_as("ann"), "Content-Type": "application/json"}
    response = client.post(path, content=body, headers=headers)
    assert response.status_code == status
    assert word in response.json()["message"]


def test_a_body_of_unstated_length_is_limited_too(client: TestClient) -> None:
    pieces = (b"x" * 1_000 for _ in range(10))
    response = client.post("/v1/query", content=pieces, headers=_as("ann"))
    assert response.status_code == 413


def test_an_overloaded_stage_says_when_to_come_back(client: TestClient, service: InProcess) -> None:
    service.fails_with = Overloaded("rerank", 2.0)
    service.fails_with.trace_id = "t1"
    response = client.post("/v1/search", json={"query": "leave"}, headers=_as("ann"))
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert response.json()["trace_id"] == "t1"


def test_a_failure_in_the_middle_of_a_stream_is_its_last_event(client: TestClient, service: InProcess) -> None:
    service.fails_with = DeadlineExceeded("generate", 1.0)
    request = {"question": "How many days of paid leave?", "stream": True}
    with client.stream("POST", "/v1/query", json=request, headers=_as("ann")) as response:
        events = _events("".join(response.iter_text()))
    assert [name for name, _ in events] == ["retrieval", "error"]
    assert events[-1][1]["error"] == "DeadlineExceeded"


def test_every_error_has_a_status_of_its_own_or_its_parents() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RagError)]
    assert all(kind in STATUS_OF for kind in kinds if kind not in {RagError, errors.ParseError})
    assert status_of(RagError("x")) == 500


def _events(text: str) -> list[tuple[str, Any]]:  # Any: the JSON of an event
    frames = [frame.split("\n") for frame in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in frames]
