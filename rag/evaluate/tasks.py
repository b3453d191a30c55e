"""Judged questions in one shape, whether a golden set or a test collection asks them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from rag.data import Principal, Question
from rag.errors import InputError
from rag.evaluate.beir import Collection
from rag.evaluate.collection_index import READER
from rag.evaluate.golden import GoldenQuestion, GoldenSpan, holds_span
from rag.generate.prompt import neutralise
from rag.ids import digest


class Gold(Protocol):
    """What has to be found for a question: its needs, each with a grade, and how to tell that a text meets one."""

    @property
    def grades(self) -> tuple[int, ...]:
        """The grade of each need, all above 0; empty where the right answer is that there is none."""
        ...

    @property
    def documents(self) -> tuple[str, ...]:
        """The uri of each need's document."""
        ...

    def met_by(self, uri: str, text: str) -> frozenset[int]:
        """The needs, by their place, that a text of that document meets."""
        ...

    def name(self, need: int) -> str:
        """The need in words."""
        ...


@dataclass(frozen=True, slots=True)
class SpanGold:
    """The spans of a golden question: a chunk meets those that it holds whole."""

    spans: tuple[GoldenSpan, ...]

    @property
    def grades(self) -> tuple[int, ...]:
        return (1,) * len(self.spans)

    @property
    def documents(self) -> tuple[str, ...]:
        return tuple(span.document for span in self.spans)

    def met_by(self, uri: str, text: str) -> frozenset[int]:
        """Also where the text is as a prompt shows it, with what could be taken for a part of the prompt disarmed."""
        return frozenset(
            place
            for place, span in enumerate(self.spans)
            if holds_span(span, uri, text) or holds_span(GoldenSpan(span.document, neutralise(span.text)), uri, text)
        )

    def name(self, need: int) -> str:
        return f"{self.spans[need].document}: {self.spans[need].text}"


@dataclass(frozen=True, slots=True)
class DocumentGold:
    """The relevant documents of a test collection's query: whatever is of one of them meets that need."""

    documents: tuple[str, ...]
    grades: tuple[int, ...]

    def met_by(self, uri: str, text: str) -> frozenset[int]:
        return frozenset(place for place, document in enumerate(self.documents) if document == uri)

    def name(self, need: int) -> str:
        return self.documents[need]


@dataclass(frozen=True, slots=True)
class Task:
    """One judged question, as it is put."""

    id: str
    kind: str
    asker: str  # name of the principal
    question: Question
    gold: Gold
    digest: str  # of the question and all that it is judged by

    @property
    def answerable(self) -> bool:
        return bool(self.gold.grades)


def golden_tasks(questions: Sequence[GoldenQuestion], principals: Mapping[str, Principal]) -> list[Task]:
    """The questions of a golden set, in order. Raises InputError for an asker whom nobody describes."""
    tasks = []
    for question in questions:
        principal = _principal(question, principals)
        judged_by = {
            "question": question.text,
            "history": [asdict(turn) for turn in question.history],
            "relevant": [asdict(span) for span in question.relevant],
            "tenant": principal.tenant,
            "groups": sorted(principal.groups),
        }
        tasks.append(
            Task(
                id=question.id,
                kind=question.kind,
                asker=question.asker,
                question=Question(question.text, principal, question.history),
                gold=SpanGold(question.relevant),
                digest=digest(json.dumps(judged_by, sort_keys=True), size_bytes=8),
            )
        )
    return tasks


def collection_tasks(collection: Collection) -> list[Task]:
    """The queries of a test collection, in order, asked by the one reader of its index."""
    tasks = []
    for query in collection.queries:
        relevant = sorted((name, grade) for name, grade in query.grades.items() if grade > 0)
        tasks.append(
            Task(
                id=query.id,
                kind=collection.name,
                asker=READER.subject,
                question=Question(query.text, READER),
                gold=DocumentGold(tuple(name for name, _ in relevant), tuple(grade for _, grade in relevant)),
                digest=digest(json.dumps([query.id, query.text, relevant]), size_bytes=8),
            )
        )
    return tasks


def _principal(question: GoldenQuestion, principals: Mapping[str, Principal]) -> Principal:
    if question.asker not in principals:
        known = ", ".join(sorted(principals)) or "nobody"
        raise InputError(f"golden question {question.id} is asked by {question.asker!r}; the principals are {known}")
    return principals[question.asker]
