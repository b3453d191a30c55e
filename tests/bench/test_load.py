"""Questions reach a service as they should, and every way in which a call can end is an outcome."""

import json
import threading
import time
from itertools import pairwise

import httpx

from bench.load import Ask, Askers, AtNth, Outcome, closed_loop, nothing, open_loop, repeated
from jobs.client import Client
from rag.data import Turn

STAGES = [
    {"name": "guard", "start_ms": 0.0, "wall_ms": 1.0, "compute_ms": 1.0, "counts": {}},
    {"name": "search", "start_ms": 1.0, "wall_ms": 8.0, "compute_ms": 5.0, "counts": {"fused": 30}},
    {"name": "first_token", "start_ms": 20.0, "wall_ms": 100.0, "compute_ms": 100.0, "counts": {}},
    {"name": "generate", "start_ms": 120.0, "wall_ms": 190.0, "compute_ms": 190.0, "counts": {"tokens": 20}},
]
SOURCE = {"number": 1, "chunk_id": "c1", "document_id": "0" * 32, "uri": "a.md", "title": "A", "quote": "text of c1"}
FOUND = {"chunk_id": "c1", "document_id": "0" * 32, "uri": "a.md", "title": "A", "text": "text of c1", "score": 1.0}
DONE = {
    "answer": "Yes [1].",
    "citations": [SOURCE],
    "abstained": "",
    "partial": ["shard 1"],
    "version": "v-1",
    "stages": STAGES,
}


def frame(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def answer_stream(request: httpx.Request) -> httpx.Response:
    passages = {"passages": [SOURCE], "partial": [], "version": "v-1", "trace_id": "t"}
    events = frame("retrieval", passages) + frame("token", {"text": "Yes"}) + frame("done", DONE)
    return httpx.Response(200, text=events, headers={"content-type": "text/event-stream"})


def service(request: httpx.Request) -> httpx.Response:
    body = json.loads(request.content)
    match body.get("query", body.get("question")):
        case "busy":
            return httpx.Response(503, json={"error": "Overloaded", "message": "full"})
        case "breaks":
            return httpx.Response(200, text=frame("token", {"text": "Y"}) + frame("error", {"message": "gone"}))
        case "unplugged":
            raise httpx.ConnectError("refused")
        case _ if request.url.path == "/v1/search":
            return httpx.Response(200, json={"results": [FOUND], "partial": [], "version": "v-1", "stages": STAGES[:2]})
        case _:
            return answer_stream(request)


def askers() -> Askers:
    return Askers({"ann": Client("http://service", "key", transport=httpx.MockTransport(service))})


def test_a_search_is_an_outcome_with_its_passages_and_stages() -> None:
    outcome = askers().search(Ask("leave", "ann"), k=5)
    assert outcome.ok
    assert outcome.whole
    assert [(p.chunk_id, p.document_id, p.text) for p in outcome.passages] == [("c1", "0" * 32, "text of c1")]
    assert [stage.name for stage in outcome.stages] == ["guard", "search"]
    assert outcome.total_ms > 0


def test_an_answer_is_timed_as_its_events_arrive() -> None:
    outcome = askers().query(Ask("leave", "ann", (Turn("user", "hello"),)))
    assert outcome.ok
    assert not outcome.whole  # it says that a shard is missing
    assert outcome.answer is not None
    assert outcome.answer.answer == "Yes [1]."
    assert outcome.retrieval_ms is not None
    assert outcome.first_text_ms is not None
    assert outcome.retrieval_ms <= outcome.first_text_ms <= outcome.total_ms


def test_errors_are_outcomes_with_their_status() -> None:
    assert askers().search(Ask("busy", "ann"), k=5).status == 503
    assert askers().query(Ask("busy", "ann")).status == 503
    assert askers().search(Ask("unplugged", "ann"), k=5).status == 0
    broken = askers().query(Ask("breaks", "ann"))
    assert not broken.ok
    assert "gone" in broken.error


def finished(ask: Ask, due_s: float) -> Outcome:
    return Outcome(ask, 200, due_s, (time.perf_counter() - due_s) * 1e3)


def test_a_closed_loop_keeps_its_order_and_never_has_more_calls_than_clients() -> None:
    lock, running, most = threading.Lock(), [0], [0]

    def call(ask: Ask, due_s: float) -> Outcome:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.002)
        with lock:
            running[0] -= 1
        return finished(ask, due_s)

    asks = [Ask(str(number), "ann") for number in range(30)]
    outcomes = closed_loop(asks, call, 3, nothing)
    assert [outcome.ask for outcome in outcomes] == asks
    assert 1 <= most[0] <= 3


def test_an_open_loop_does_not_wait_for_a_slow_service() -> None:
    def call(ask: Ask, due_s: float) -> Outcome:
        time.sleep(0.2)
        return finished(ask, due_s)

    started = time.perf_counter()
    outcomes = open_loop([Ask(str(n), "ann") for n in range(20)], call, rate=200.0, seed=0, done=nothing)
    assert time.perf_counter() - started < 20 * 0.2  # one after the other would take as long as this
    assert all(outcome.total_ms >= 200 for outcome in outcomes)


def test_arrivals_of_an_open_loop_are_the_same_for_the_same_seed() -> None:
    def gaps(seed: int) -> list[float]:
        outcomes = open_loop([Ask(str(n), "ann") for n in range(10)], finished, rate=2_000.0, seed=seed, done=nothing)
        return [b.due_s - a.due_s for a, b in pairwise(outcomes)]

    first, second, other = gaps(1), gaps(1), gaps(2)
    assert all(abs(a - b) < 1e-9 for a, b in zip(first, second, strict=True))
    assert first != other


def test_repeated_asks_come_equally_often_in_a_seeded_order() -> None:
    asks = [Ask(str(number), "ann") for number in range(4)]
    picked = repeated(asks, 10, seed=0)
    assert picked == repeated(asks, 10, seed=0)
    assert sorted(map(picked.count, asks)) == [2, 2, 3, 3]


def test_something_happens_exactly_once_at_the_nth_outcome() -> None:
    seen: list[int] = []
    at_third = AtNth(3, lambda: seen.append(1))
    for _ in range(5):
        at_third(finished(Ask("x", "ann"), 0.0))
    assert seen == [1]
