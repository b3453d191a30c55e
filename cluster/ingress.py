"""HTTP around the gateway: the routes, what an error's status is, and the limit on bodies."""

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Protocol

from fastapi import FastAPI, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cluster.messages import (
    AnswerMessage,
    ErrorMessage,
    IndexMessage,
    QueryBody,
    SearchBody,
    SearchMessage,
    answer_message,
    citation_message,
    error_message,
    retrieval_message,
)
from rag.config import LimitsConfig
from rag.data import Principal, Question
from rag.errors import (
    ConfigError,
    DeadlineExceeded,
    IndexDamaged,
    IndexMismatch,
    InputError,
    ModelError,
    NotFound,
    Overloaded,
    RagError,
    ShardUnavailable,
    Unauthenticated,
)
from rag.ids import TraceId, VersionId
from rag.pipeline import CitationEvent, DoneEvent, Event, RetrievalEvent, TokenEvent
from rag.trace import Trace

logger = logging.getLogger(__name__)

STATUS_OF: dict[type[RagError], int] = {
    InputError: 422,
    Unauthenticated: 401,
    NotFound: 404,
    Overloaded: 503,
    DeadlineExceeded: 504,
    ShardUnavailable: 503,
    ModelError: 502,
    IndexMismatch: 503,
    IndexDamaged: 503,
    ConfigError: 500,
}


class BodyTooLarge(InputError):
    """The request's body is longer than the limit."""


class BodyLimit:
    """Refuses a body above the limit with 413, whether or not it says its length beforehand."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app, self._max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._max_bytes:
            await self._refuse(scope, receive, send, int(announced))
            return
        received: list[Message] = []
        size = 0
        while True:
            message = await receive()
            received.append(message)
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                await self._refuse(scope, receive, send, size)
                return
            if message["type"] != "http.request" or not message.get("more_body", False):
                break

        async def replay() -> Message:
            return received.pop(0) if received else await receive()

        await self._app(scope, replay, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, size: int) -> None:
        error = BodyTooLarge(f"the body has at least {size} bytes; at most {self._max_bytes} are accepted")
        await _response(413, error)(scope, receive, send)


class Service(Protocol):
    """What stands behind the routes."""

    def authenticate(self, authorization: str | None) -> Principal: ...

    def answer(self, question: Question) -> AsyncGenerator[Event]: ...

    async def search(self, question: Question, k: int) -> SearchMessage: ...

    async def index(self) -> IndexMessage: ...

    async def trace(self, trace_id: TraceId, principal: Principal) -> Trace: ...

    async def metrics(self) -> str: ...

    def version(self) -> VersionId: ...


Authorization = Annotated[str | None, Header(description="`Bearer` and a token or an API key.")]


def build_api(service: Service, limits: LimitsConfig) -> FastAPI:
    """The application: routes, error handlers and the limit on bodies."""
    app = FastAPI(
        title="quire",
        description="Cited answers from company documents, inside the asker's permissions.",
        responses={401: {"model": ErrorMessage}, 422: {"model": ErrorMessage}, 503: {"model": ErrorMessage}},
    )
    app.add_exception_handler(RagError, _answer_rag_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_middleware(BodyLimit, max_bytes=limits.max_body_bytes)

    @app.post("/v1/query", response_model=AnswerMessage)
    async def query(body: QueryBody, authorization: Authorization = None) -> Response | AnswerMessage:
        """Answer a question from the documents that the caller may read."""
        principal = service.authenticate(authorization)
        events = service.answer(Question(body.question, principal, body.turns(), body.greedy))
        # The first event is awaited here, so that a refused question is an HTTP status and not an event.
        first = await anext(events)
        if body.stream:
            return StreamingResponse(_server_sent(first, events), media_type="text/event-stream")
        last = first
        async for event in events:
            last = event
        if not isinstance(last, DoneEvent):
            raise ModelError("the pipeline ended without an answer")
        return answer_message(last)

    @app.post("/v1/search", response_model=SearchMessage)
    async def search(body: SearchBody, authorization: Authorization = None) -> SearchMessage:
        """Find passages without writing an answer."""
        principal = service.authenticate(authorization)
        if body.k > limits.max_k:
            raise InputError(f"k is {body.k}; at most {limits.max_k} results are returned")
        return await service.search(Question(body.query, principal), body.k)

    @app.get("/v1/index", response_model=IndexMessage)
    async def index(authorization: Authorization = None) -> IndexMessage:
        """The live index version."""
        service.authenticate(authorization)
        return await service.index()

    @app.get("/v1/traces/{trace_id}")
    async def trace(trace_id: str, authorization: Authorization = None) -> Response:
        """How an answer or a search came about; only for whoever asked, or an operator."""
        found = await service.trace(TraceId(trace_id), service.authenticate(authorization))
        return Response(found.to_json(), media_type="application/json")

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The service is up and has an index."""
        return {"status": "ok", "version": service.version()}

    @app.get("/metrics")
    async def metrics() -> Response:
        """Prometheus metrics of this node: quire's, Serve's and the engine's."""
        return Response(await service.metrics(), media_type="text/plain; version=0.0.4")

    return app


def status_of(error: RagError) -> int:
    """The HTTP status of an error: that of its nearest class in the table."""
    return next((STATUS_OF[kind] for kind in type(error).__mro__ if kind in STATUS_OF), 500)


def _response(status: int, error: RagError) -> JSONResponse:
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Overloaded):
        headers["Retry-After"] = f"{error.retry_after_s:.0f}"
    return JSONResponse(error_message(error).model_dump(), status_code=status, headers=headers)


async def _answer_rag_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RagError)
    status = status_of(error)
    if status >= 500:
        logger.error("%s %s: %s: %s", request.method, request.url.path, type(error).__name__, error)
    return _response(status, error)


async def _answer_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors()]
    malformed = any(problem["type"] == "json_invalid" for problem in error.errors())
    return _response(400 if malformed else 422, InputError("; ".join(problems)))


async def _server_sent(first: Event, events: AsyncGenerator[Event]) -> AsyncGenerator[str]:
    """Typed server-sent events; a failure after the first one becomes an `error` event."""
    try:
        async with aclosing(events):
            yield _frame(first)
            async for event in events:
                yield _frame(event)
    except RagError as error:
        body = error_message(error)
        logger.error("an answer broke off with %s: %s", body.error, body.message)
        yield _named("error", body.model_dump_json())


def _frame(event: Event) -> str:
    match event:
        case RetrievalEvent():
            return _named("retrieval", retrieval_message(event).model_dump_json())
        case TokenEvent(text):
            return _named("token", json.dumps({"text": text}))
        case CitationEvent(citation):
            return _named("citation", citation_message(citation).model_dump_json())
        case DoneEvent():
            return _named("done", answer_message(event).model_dump_json())


def _named(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
