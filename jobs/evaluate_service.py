"""Golden questions put to a running service, each under its asker's own key, and measured from what it says."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import httpx

from jobs import api_keys
from jobs.client import Client, FoundChunk, SearchReply, ServiceError
from rag.config import RagConfig
from rag.data import Access, Chunk, DocumentMetadata, Span
from rag.errors import InputError
from rag.evaluate.holdings import Holdings, read_holdings
from rag.evaluate.invariants import seen_chunks
from rag.evaluate.observe import Circumstances, Observation, circumstances_of, observation_of
from rag.evaluate.run import EvaluationRun, measure
from rag.evaluate.stages import stage_depths
from rag.evaluate.tasks import Task
from rag.ids import ChunkId, DocumentId, VersionId
from rag.index.store import open_store
from rag.trace import Trace

NO_HISTORY = "left out, because /v1/search takes no earlier turns: {}"
NO_TRACE = "the service gave no trace: of its stages only what came back is measured"
NO_INDEX = "the index is not on this machine: only what came back is measured, and access is not checked on it"
NO_PROMPT = "a search ends before the prompt, which is not measured"


def evaluate_service(
    config: RagConfig,
    url: str,
    tasks: Sequence[Task],
    dataset: str,
    *,
    advance: Callable[[], None] = lambda: None,
    transport: httpx.BaseTransport | None = None,
) -> EvaluationRun:
    """The tasks searched for at the service. Which version should answer is read from the index where it is on this
    machine, else from the service itself.

    Raises InputError for an asker without a key, ServiceError when the service does not answer at all.
    """
    plain = [task for task in tasks if not task.question.history]
    notes = [NO_PROMPT]
    if left_out := [task.id for task in tasks if task.question.history]:
        notes.append(NO_HISTORY.format(", ".join(left_out)))
    with ExitStack() as stack:
        clients = {
            asker: stack.enter_context(Client(url, token, transport=transport))
            for asker, token in _tokens(config, plain).items()
        }
        live = _live(config, clients)
        answers = []
        for task in plain:
            answers.append(_ask(clients[task.asker], task, config.limits.max_k))
            advance()
    traced = all(answer.trace is not None or answer.observation.failure for answer in answers)
    observations = [answer.observation for answer in answers]
    if (store := open_store(config)).current_or_none() is not None:
        candidates = set[ChunkId]().union(*map(seen_chunks, observations))
        holdings = read_holdings(store, live, plain, candidates)
    else:
        notes.append(NO_INDEX)
        observations = [_returned_alone(answer) for answer in answers]
        holdings = _what_was_said(live, answers)
    if not traced:
        notes.append(NO_TRACE)
        observations = [_returned_alone(answer) for answer in answers]
    return measure(plain, observations, holdings, _circumstances(answers), stage_depths(config), dataset, notes=notes)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the service said to one task, and the trace that it kept of it; neither where it failed."""

    observation: Observation
    reply: SearchReply | None = None
    trace: Trace | None = None


def _tokens(config: RagConfig, tasks: Sequence[Task]) -> dict[str, str]:
    file = api_keys.keys_path(config)
    keys = {entry.subject: entry.key for entry in api_keys.load_keys(file)} if file.exists() else {}
    askers = sorted({task.asker for task in tasks})
    if missing := [asker for asker in askers if asker not in keys]:
        raise InputError(f"{file} has no key for {', '.join(missing)}; `quire keys PRINCIPALS` writes them")
    return {asker: keys[asker] for asker in askers}


def _live(config: RagConfig, clients: Mapping[str, Client]) -> VersionId:
    """The version that should answer; the service is asked only where its index is elsewhere."""
    live = open_store(config).current_or_none()
    if live is not None:
        return live
    for client in clients.values():
        return VersionId(str(client.index()["version"]))
    raise InputError("there is no question that a search could answer")


def _ask(client: Client, task: Task, k: int) -> _Answer:
    """One search, and its trace; a failure is an observation too."""
    started = time.perf_counter()
    try:
        reply = client.search(task.question.text, k)
    except ServiceError as error:
        if error.status == 0:  # nobody is there: that says nothing about quality
            raise
        return _Answer(Observation(VersionId(""), failure=str(error)))
    took_ms = (time.perf_counter() - started) * 1e3
    http = Span("http", 0.0, took_ms, took_ms)
    try:
        trace = Trace.from_json(json.dumps(client.trace(reply.trace_id))) if reply.trace_id else None
    except (ServiceError, InputError):
        trace = None
    observation = observation_of(trace) if trace else _from_reply(reply)
    return _Answer(replace(observation, spans=(*observation.spans, http)), reply, trace)


def _from_reply(reply: SearchReply) -> Observation:
    """What a reply alone tells: the reranked ranking, and how long each stage took."""
    return Observation(
        version=VersionId(reply.version),
        rankings={"reranked": tuple((ChunkId(found.chunk_id), found.score) for found in reply.results)},
        partial=reply.partial,
        spans=tuple(Span(s.name, s.start_ms, s.wall_ms, s.compute_ms, dict(s.counts)) for s in reply.stages),
    )


def _returned_alone(answer: _Answer) -> Observation:
    if answer.reply is None:
        return answer.observation
    return replace(_from_reply(answer.reply), spans=answer.observation.spans, digest=answer.observation.digest)


def _what_was_said(version: VersionId, answers: Sequence[_Answer]) -> Holdings:
    replies = [answer.reply for answer in answers if answer.reply is not None]
    chunks = [_chunk(found) for reply in replies for found in reply.results]
    return Holdings(version, {chunk.id: chunk for chunk in chunks}, {}, None, from_index=False)


def _chunk(found: FoundChunk) -> Chunk:
    """As much of a chunk as a search says of it."""
    return Chunk(
        id=ChunkId(found.chunk_id),
        document_id=DocumentId(""),
        ordinal=0,
        section=0,
        text=found.text,
        start=0,
        end=len(found.text),
        headings=found.headings,
        regions=(),
        num_tokens=0,
        metadata=DocumentMetadata(found.uri, found.title, Access("", ())),
    )


def _circumstances(answers: Sequence[_Answer]) -> Circumstances | None:
    return next((circumstances_of(answer.trace) for answer in answers if answer.trace is not None), None)
