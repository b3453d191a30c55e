import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.client import AnswerReply, Client, Event, ServiceError, parse_events
from rag.data import Turn
from rag.errors import InputError

DONE = {
    "answer": "Five days [1].",
    "citations": [
        {"number": 1, "chunk_id": "c", "document_id": "d", "uri": "leave.md", "title": "Leave", "page": None}
    ],
    "abstained": "",
    "closest": [],
    "partial": [],
    "version": "v-1",
    "trace_id": "t-1",
    "stages": [{"name": "search", "start_ms": 1.0, "wall_ms": 3.5, "compute_ms": 2.0, "counts": {"out": 6}}],
}


def sse(*events: tuple[str, Any]) -> str:
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)


def client(answer: Callable[[httpx.Request], httpx.Response]) -> Client:
    return Client("http://service", "a-token", transport=httpx.MockTransport(answer))


events = st.lists(
    st.tuples(st.sampled_from(["token", "citation", "done"]), st.dictionaries(st.text(), st.text() | st.integers()))
)


@given(events)
def test_written_events_are_read_back(written: list[tuple[str, dict[str, Any]]]) -> None:
    lines = sse(*written).split("\n")
    assert list(parse_events(lines)) == [Event(name, data) for name, data in written]


def test_events_follow_the_standard_on_comments_data_lines_and_unfinished_blocks() -> None:
    lines = [": keep-alive", "", "event:token", 'data:{"a":', "data: 1}", "id: 7", "", "event: done", "data: {}"]
    assert list(parse_events(lines)) == [Event("token", {"a": 1})]


def test_a_question_carries_history_and_token() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=DONE)

    with client(answer) as service:
        reply = service.ask("And carry-over?", [Turn("user", "How many days?")])
    assert json.loads(seen[0].content) == {
        "question": "And carry-over?",
        "history": [{"role": "user", "content": "How many days?"}],
        "stream": False,
    }
    assert seen[0].headers["Authorization"] == "Bearer a-token"
    assert reply.citations[0].uri == "leave.md"
    assert reply.stages[0].compute_ms == 2.0


def test_fields_that_the_client_does_not_know_pass_through() -> None:
    reply = AnswerReply.model_validate({**DONE, "num_citations_removed": 2})
    assert reply.model_dump(mode="json")["num_citations_removed"] == 2


def test_a_stream_ends_with_done() -> None:
    body = sse(("retrieval", {"passages": 6}), ("token", {"text": "Five"}), ("done", DONE), ("token", {"text": "!"}))
    with client(lambda _: httpx.Response(200, text=body)) as service:
        assert [event.name for event in service.stream("How many?")] == ["retrieval", "token", "done"]


def test_an_error_event_is_raised() -> None:
    body = sse(("token", {"text": "Fi"}), ("error", {"error": "DeadlineExceeded", "message": "answer took too long"}))
    with client(lambda _: httpx.Response(200, text=body)) as service, pytest.raises(ServiceError, match="too long"):
        list(service.stream("How many?"))


def test_a_stream_that_breaks_off_is_an_error() -> None:
    def broken() -> Iterator[bytes]:
        yield sse(("token", {"text": "Fi"})).encode()
        raise httpx.ReadError("connection lost")

    with (
        client(lambda _: httpx.Response(200, content=broken())) as service,
        pytest.raises(ServiceError, match="connection lost"),
    ):
        list(service.stream("How many?"))
    with (
        client(lambda _: httpx.Response(200, text=sse(("token", {"text": "Fi"})))) as service,
        pytest.raises(ServiceError, match="before the answer was done"),
    ):
        list(service.stream("How many?"))


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"error": "Unauthenticated", "message": "the token has expired"}, "the token has expired; give a name"),
        (422, {"detail": [{"loc": ["body", "k"], "msg": "must be at least 1"}]}, "k: must be at least 1"),
        (503, {"detail": "overloaded"}, "overloaded; retry after 2 s"),
        (404, {"error": {"message": "no such trace"}}, "no such trace"),
    ],
)
def test_the_words_of_an_error_reach_the_person(status: int, body: dict[str, Any], words: str) -> None:
    headers = {"Retry-After": "2"} if status == 503 else {}
    with client(lambda _: httpx.Response(status, json=body, headers=headers)) as service:
        for call in (lambda: service.search("x", 3), lambda: list(service.stream("x"))):
            with pytest.raises(ServiceError, match=words) as caught:
                call()
            assert caught.value.status == status


def test_an_error_that_is_no_json_is_shown_as_it_is() -> None:
    with (
        client(lambda _: httpx.Response(502, text="<h1>Bad gateway</h1>")) as service,
        pytest.raises(ServiceError, match="Bad gateway"),
    ):
        service.index()


def test_a_service_that_does_not_answer_is_named() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    with client(refuse) as service:
        with pytest.raises(ServiceError, match=r"http://service.*connection refused"):
            service.search("x", 3)
        assert not service.healthy()


def test_an_answer_of_another_shape_is_an_error() -> None:
    with (
        client(lambda _: httpx.Response(200, json={"hits": []})) as service,
        pytest.raises(ServiceError, match="shape"),
    ):
        service.search("x", 3)


def test_an_empty_question_is_not_sent() -> None:
    with (
        client(lambda _: pytest.fail("was sent")) as service,
        pytest.raises(InputError, match="empty"),
    ):
        service.ask("  ")
