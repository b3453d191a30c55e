"""An HTTP client of the service in a page: ask, search, and read the index and traces."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from rag.data import Turn
from rag.errors import InputError, RagError

CONNECT_S = 5.0

R = TypeVar("R", bound="Reply")


class ServiceError(RagError):
    """The service answered with an error, or not at all; `status` is 0 where no HTTP status arrived.

    `trace_id` is of the question that the error ended, "" where none was kept.
    """

    def __init__(self, status: int, message: str, trace_id: str = "") -> None:
        super().__init__(status, message, trace_id)
        self.status, self.message, self.trace_id = status, message, trace_id

    def __str__(self) -> str:
        facts = [f"HTTP {self.status}"] if self.status else []
        facts += [f"trace {self.trace_id}"] if self.trace_id else []
        return f"{self.message} ({', '.join(facts)})" if facts else self.message


class Reply(BaseModel):
    """A part of what the service sends. Fields that this client does not know are kept, so that JSON passes whole."""

    model_config = ConfigDict(frozen=True, extra="allow")


class CitedSource(Reply):
    """One [n] of an answer, resolved."""

    number: int
    uri: str
    title: str
    headings: tuple[str, ...] = ()
    page: int | None = None
    quote: str = ""
    updated_at: str | None = None
    attributed: bool = False
    start: int | None = None  # of the quote in the passage's text, in characters
    end: int | None = None


class CitedSentence(Reply):
    """One sentence of an answer with the quotes that it rests on; `support` 1.0 is the passage's own words."""

    text: str
    citations: tuple[CitedSource, ...] = ()
    support: float = 0.0


class Stage(Reply):
    """One stage of an answer: its time as the gateway saw it, and the computing alone."""

    name: str
    start_ms: float = 0.0
    wall_ms: float
    compute_ms: float = 0.0
    counts: Mapping[str, int] = {}


class AnswerReply(Reply):
    """A whole answer, as JSON or as the data of the `done` event."""

    answer: str
    citations: tuple[CitedSource, ...] = ()
    sentences: tuple[CitedSentence, ...] = ()
    abstained: str = ""
    grounding: str = ""
    closest: tuple[CitedSource, ...] = ()
    partial: tuple[str, ...] = ()
    version: str = ""
    trace_id: str = ""
    stages: tuple[Stage, ...] = ()


class FoundChunk(Reply):
    """One chunk of a search."""

    chunk_id: str
    uri: str
    title: str
    headings: tuple[str, ...] = ()
    page: int | None = None
    text: str
    score: float
    dense: float = 0.0
    bm25: float = 0.0


class SearchReply(Reply):
    """The best chunks of one search."""

    results: tuple[FoundChunk, ...]
    partial: tuple[str, ...] = ()
    version: str = ""
    trace_id: str = ""
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event: `retrieval`, `token`, `citation`, `done` or `error`."""

    name: str
    data: Mapping[str, Any]  # Any: JSON, whose shape the name decides


def parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """The server-sent events in the lines; comments and keep-alives are passed over.

    Source: the WHATWG HTML standard, section 9.2.6.
    """
    name = "message"
    data: list[str] = []
    for line in lines:
        if line == "":
            if data:
                yield Event(name, json.loads("\n".join(data)))
            name, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)


class Client:
    """Talks to one service as one caller. Use it as a context manager."""

    def __init__(
        self, url: str, token: str, *, timeout_s: float = 120.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_S),
            transport=transport,
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(self, question: str, history: Sequence[Turn] = ()) -> AnswerReply:
        """The whole answer at once."""
        return _checked(AnswerReply, self._json("POST", "/v1/query", _query(question, history, stream=False)))

    def stream(self, question: str, history: Sequence[Turn] = ()) -> Iterator[Event]:
        """The answer's events as they arrive; the last is `done`. An `error` event raises ServiceError.

        Closing the iterator closes the connection, which frees the model's slot.
        """
        body = _query(question, history, stream=True)
        try:
            with self._http.stream("POST", "/v1/query", json=body) as response:
                if response.is_error:
                    response.read()
                    raise _service_error(response)
                for event in parse_events(response.iter_lines()):
                    if event.name == "error":
                        raise ServiceError(
                            int(event.data.get("status", 0)), _message(event.data), _trace_id(event.data)
                        )
                    yield event
                    if event.name == "done":
                        return
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        raise ServiceError(0, "the stream ended before the answer was done")

    def search(self, query: str, k: int) -> SearchReply:
        """The best `k` chunks that the caller may read."""
        return _checked(SearchReply, self._json("POST", "/v1/search", {"query": query, "k": k}))

    def index(self) -> Mapping[str, Any]:  # Any: JSON for display
        """The live version, summed up."""
        return self._json("GET", "/v1/index")

    def trace(self, trace_id: str) -> Mapping[str, Any]:  # Any: JSON for display
        """One stored trace, for whoever asked or an operator."""
        return self._json("GET", f"/v1/traces/{trace_id}")

    def healthy(self) -> bool:
        """Whether the service answers and calls itself healthy."""
        try:
            return self._http.get("/healthz", timeout=CONNECT_S).is_success
        except httpx.HTTPError:
            return False

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:  # Any: JSON
        try:
            response = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if response.is_error:
            raise _service_error(response)
        try:
            value = response.json()
        except ValueError as error:
            raise ServiceError(response.status_code, f"{path} did not answer with JSON") from error
        if not isinstance(value, dict):
            raise ServiceError(response.status_code, f"{path} answered with {type(value).__name__}, expected an object")
        return value

    def _unreachable(self, error: httpx.HTTPError) -> ServiceError:
        reason = str(error) or type(error).__name__
        return ServiceError(0, f"{self._http.base_url} does not answer: {reason}; `quire status` says what runs")


def _query(question: str, history: Sequence[Turn], *, stream: bool) -> dict[str, Any]:  # Any: JSON
    if not question.strip():
        raise InputError("the question is empty")
    turns = [{"role": turn.role, "content": turn.content} for turn in history]
    return {"question": question, "history": turns, "stream": stream}


def _checked(kind: type[R], value: Mapping[str, Any]) -> R:  # Any: JSON
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise ServiceError(200, f"the service's answer has another shape than this client expects: {error}") from error


def _service_error(response: httpx.Response) -> ServiceError:
    try:
        body = response.json()
        message, trace_id = _message(body), _trace_id(body)
    except ValueError:
        message, trace_id = response.text.strip()[:500], ""
    message = message or response.reason_phrase
    if response.status_code == 401:
        message += "; give a name from the key file or a token with --as"
    if retry := response.headers.get("Retry-After"):
        message += f"; retry after {retry} s"
    return ServiceError(response.status_code, message, trace_id)


def _trace_id(body: Any) -> str:  # Any: JSON of an error
    return str(body.get("trace_id", "")) if isinstance(body, Mapping) else ""


def _message(body: Any) -> str:  # Any: JSON of an error
    """The words of an error body: {"error": {"message"}}, {"message"}, or FastAPI's {"detail"}."""
    if isinstance(body, Mapping):
        inner = body.get("message") or body.get("error") or body.get("detail")
        return _message(inner) if inner is not None else json.dumps(body)
    if isinstance(body, list):  # one entry a wrong field
        return "; ".join(_field_problem(entry) for entry in body)
    return "" if body is None else str(body)


def _field_problem(entry: Any) -> str:  # Any: JSON of an error
    if isinstance(entry, Mapping) and "msg" in entry:
        place = ".".join(str(part) for part in entry.get("loc", ()) if part != "body")
        return f"{place}: {entry['msg']}" if place else str(entry["msg"])
    return _message(entry)
