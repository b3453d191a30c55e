"""Groups of questions that are looked at apart: a fall in one of them can hide in the mean of all."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rag.data import Chunk
from rag.evaluate.holdings import Holdings
from rag.evaluate.tasks import Task

FRESH = timedelta(days=365)
MIXED = "mixed"  # the question's gold documents differ in this
NONE = "none"  # the question has no gold document, or none that is indexed

SLICES = ("kind", "media_type", "tenant", "freshness", "asker")


def slices_of(task: Task, holdings: Holdings) -> dict[str, str]:
    """The group of the task under each name: the question's kind, its asker, and what its gold documents are.

    `freshness` compares with the newest document of the version: within a year of it, older, or undated.
    """
    gold = [holdings.gold[uri][0] for uri in dict.fromkeys(task.gold.documents) if uri in holdings.gold]
    return {
        "kind": task.kind,
        "media_type": _common([chunk.metadata.media_type for chunk in gold]),
        "tenant": task.question.principal.tenant,
        "freshness": _common([_freshness(chunk, holdings.newest) for chunk in gold]),
        "asker": task.asker,
    }


def _common(values: Sequence[str]) -> str:
    distinct = set(values)
    return NONE if not distinct else MIXED if len(distinct) > 1 else distinct.pop()


def _freshness(chunk: Chunk, newest: datetime | None) -> str:
    updated = chunk.metadata.updated_at
    if updated is None or newest is None:
        return "undated"
    return "within a year" if newest - updated <= FRESH else "older"
