"""How do benchmarks put questions to the running service? Askers with their keys, timed calls, and ways to arrive."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.report import need, stop
from jobs.api_keys import keys_path, load_keys
from jobs.client import AnswerReply, Client, ServiceError, Stage
from rag.config import RagConfig
from rag.data import Turn
from rag.errors import RagError

Endpoint = Literal["query", "search"]
MAX_IN_FLIGHT = 256  # threads of an open loop; more would measure this machine, not the service


@dataclass(frozen=True, slots=True)
class Ask:
    """One question as one asker puts it."""

    text: str
    asker: str
    history: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A chunk that came back, from a search or as a passage of an answer."""

    chunk_id: str
    document_id: str
    uri: str
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one call; times are milliseconds since it was due."""

    ask: Ask
    status: int  # of HTTP; 0 where none arrived
    due_s: float  # time.perf_counter() when the call was due
    total_ms: float
    error: str = ""
    passages: tuple[FoundPassage, ...] = ()
    stages: tuple[Stage, ...] = ()
    partial: tuple[str, ...] = ()
    version: str = ""
    trace_id: str = ""
    retrieval_ms: float | None = None  # answers only: when the passages were known here
    first_text_ms: float | None = None
    answer: AnswerReply | None = None

    @property
    def ok(self) -> bool:
        return self.status == 200

    @property
    def ended_s(self) -> float:
        return self.due_s + self.total_ms / 1e3

    @property
    def whole(self) -> bool:
        return self.ok and not self.partial


class Askers:
    """A client for each principal, under its API key."""

    def __init__(self, clients: Mapping[str, Client]) -> None:
        self._clients = clients

    def search(self, ask: Ask, k: int, due_s: float | None = None) -> Outcome:
        """One search; a failure is an outcome too."""
        due_s = time.perf_counter() if due_s is None else due_s
        try:
            reply = self._clients[ask.asker].search(ask.text, k)
        except RagError as error:
            return _failed(ask, due_s, error)
        passages = tuple(
            FoundPassage(found.chunk_id, _extra(found, "document_id"), found.uri, found.text) for found in reply.results
        )
        return Outcome(
            ask,
            200,
            due_s,
            _ms_since(due_s),
            passages=passages,
            stages=reply.stages,
            partial=reply.partial,
            version=reply.version,
            trace_id=reply.trace_id,
        )

    def query(self, ask: Ask, due_s: float | None = None) -> Outcome:
        """One streamed answer, timed as it arrives; a failure is an outcome too."""
        due_s = time.perf_counter() if due_s is None else due_s
        passages: tuple[FoundPassage, ...] = ()
        retrieval_ms = first_text_ms = None
        answer: AnswerReply | None = None
        try:
            for event in self._clients[ask.asker].stream(ask.text, ask.history):
                if event.name == "retrieval":
                    retrieval_ms = _ms_since(due_s)
                    passages = tuple(
                        FoundPassage(found["chunk_id"], found["document_id"], found["uri"], found["quote"])
                        for found in event.data["passages"]
                    )
                elif event.name == "token" and first_text_ms is None:
                    first_text_ms = _ms_since(due_s)
                elif event.name == "done":
                    answer = AnswerReply.model_validate(event.data)
        except RagError as error:
            return _failed(ask, due_s, error)
        total_ms = _ms_since(due_s)
        if answer is None:
            return _failed(ask, due_s, ServiceError(0, "the stream ended without an answer"))
        return Outcome(
            ask,
            200,
            due_s,
            total_ms,
            passages=passages,
            stages=answer.stages,
            partial=answer.partial,
            version=answer.version,
            trace_id=answer.trace_id,
            retrieval_ms=retrieval_ms,
            first_text_ms=first_text_ms,
            answer=answer,
        )

    def call(self, endpoint: Endpoint, ask: Ask, k: int, due_s: float | None = None) -> Outcome:
        return self.query(ask, due_s) if endpoint == "query" else self.search(ask, k, due_s)


@contextmanager
def open_askers(url: str, config: RagConfig, names: Sequence[str], timeout_s: float = 180.0) -> Iterator[Askers]:
    """A client for each named principal; ends the program with exit code 2 where one has no key or nothing answers."""
    keys_file = need(keys_path(config), "the file of API keys")
    keys = {entry.subject: entry.key for entry in load_keys(keys_file)}
    if missing := sorted(set(names) - set(keys)):
        stop(f"{keys_file} has no key for {', '.join(missing)}")
    with ExitStack() as stack:
        clients = {
            name: stack.enter_context(Client(url, keys[name], timeout_s=timeout_s)) for name in sorted(set(names))
        }
        if not next(iter(clients.values())).healthy():
            stop(f"{url} does not answer as healthy; start the service first")
        yield Askers(clients)


def closed_loop(
    asks: Sequence[Ask], call: Callable[[Ask, float], Outcome], clients: int, done: Callable[[Outcome], None]
) -> list[Outcome]:
    """The outcomes in the order of the asks; each of the clients sends its next one when the last has come back."""

    def one(ask: Ask) -> Outcome:
        outcome = call(ask, time.perf_counter())
        done(outcome)
        return outcome

    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(one, asks))


def open_loop(
    asks: Sequence[Ask], call: Callable[[Ask, float], Outcome], rate: float, seed: int, done: Callable[[Outcome], None]
) -> list[Outcome]:
    """The outcomes in the order of the asks, which arrive as a Poisson process of `rate` a second.

    A call is timed from when it was due, not from when a thread took it: a slow service must not slow its own load.
    """
    generator = random.Random(seed)
    started = time.perf_counter()

    def one(ask: Ask, due_s: float) -> Outcome:
        outcome = call(ask, due_s)
        done(outcome)
        return outcome

    due_s = started
    with ThreadPoolExecutor(MAX_IN_FLIGHT) as pool:
        futures = []
        for ask in asks:
            due_s += generator.expovariate(rate)
            time.sleep(max(0.0, due_s - time.perf_counter()))
            futures.append(pool.submit(one, ask, due_s))
        return [future.result() for future in futures]


def repeated(asks: Sequence[Ask], count: int, seed: int) -> list[Ask]:
    """`count` of the asks in a seeded order, each as often as the others until they run out."""
    generator = random.Random(seed)
    picked: list[Ask] = []
    while len(picked) < count:
        turn = list(asks)
        generator.shuffle(turn)
        picked += turn
    return picked[:count]


class AtNth:
    """Listens to outcomes from several threads, and acts once when the n-th has come."""

    def __init__(self, at: int, then: Callable[[], None]) -> None:
        self._lock, self._left, self._then = threading.Lock(), at, then

    def __call__(self, outcome: Outcome) -> None:
        with self._lock:
            self._left -= 1
            reached = self._left == 0
        if reached:
            self._then()


def nothing(outcome: Outcome) -> None:
    """For a loop that nobody listens to."""


def _failed(ask: Ask, due_s: float, error: RagError) -> Outcome:
    status = error.status if isinstance(error, ServiceError) else 0
    # A stream that breaks off after its 200 still failed.
    return Outcome(ask, 0 if status == 200 else status, due_s, _ms_since(due_s), error=str(error))


def _extra(found: object, name: str) -> str:
    return str(getattr(found, name, ""))


def _ms_since(due_s: float) -> float:
    return (time.perf_counter() - due_s) * 1e3


def load_golden_asks(folder: Path) -> list[Ask]:
    """The questions of a golden set as their askers put them."""
    from rag.evaluate.golden import read_golden

    questions = read_golden(need(folder / "golden.jsonl", "the golden set"))
    return [Ask(question.text, question.asker, question.history) for question in questions]
