"""What must never happen, counted for each question: no noise is allowed in these."""

from collections.abc import Callable, Iterable
from itertools import chain

from rag.data import Chunk, Principal
from rag.evaluate.holdings import Holdings
from rag.evaluate.observe import Observation
from rag.evaluate.tasks import Task
from rag.guard.access import may_read
from rag.ids import ChunkId

Readable = Callable[[Principal, Chunk], bool]

INVARIANTS = {
    "forbidden": "candidates or passages that the asker may not read",
    "unresolved": "candidates or passages that the live version does not hold",
    "wrong_version": "answered by another version than the live one",
    "lost_passages": "passages that were assembled and that the prompt does not show",
    "partial": "a shard or the reranker gave no answer",
    "failed": "the question ended in an error",
}


def seen_chunks(observation: Observation) -> set[ChunkId]:
    """Every chunk at any stage, and in the prompt."""
    shown: Iterable[ChunkId] = (passage.chunk_id for passage in observation.shown or ())
    return {*(name for name, _ in chain(*observation.rankings.values())), *shown}


def readable_by_metadata(principal: Principal, chunk: Chunk) -> bool:
    """Whether the groups that are stored with the chunk let the principal read it."""
    return may_read(chunk.metadata.access, principal)


def broken_invariants(
    task: Task, observation: Observation, holdings: Holdings, readable: Readable = readable_by_metadata
) -> dict[str, int]:
    """How often the question broke each invariant; those that need the index are left out where it is out of reach.

    Access is checked for every candidate of every stage, whether or not it came further, on what the index stores.
    """
    failed = bool(observation.failure)
    shown = len(observation.shown or ())
    counts = {
        "lost_passages": 0 if observation.shown is None else max(0, observation.num_assembled - shown),
        "partial": int(bool(observation.partial)),
        "failed": int(failed),
        "wrong_version": int(not failed and observation.version != holdings.version),
    }
    if not holdings.from_index:
        return counts
    seen = seen_chunks(observation)
    held = [holdings.chunks[name] for name in seen if name in holdings.chunks]
    principal = task.question.principal
    return counts | {
        "forbidden": sum(not readable(principal, chunk) for chunk in held),
        "unresolved": len(seen) - len(held),
    }
