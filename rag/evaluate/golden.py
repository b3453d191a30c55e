"""A golden set: questions with their asker, the spans that answer them, and a reference answer."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag.data import Principal, Turn
from rag.errors import InputError

NOT_FOUND = "not found"  # the reference answer where the asker can't be answered


@dataclass(frozen=True, slots=True)
class GoldenSpan:
    """A place that answers a question: words that occur once in a document's visible text."""

    document: str  # its uri
    text: str


@dataclass(frozen=True, slots=True)
class GoldenQuestion:
    """One question of the golden set."""

    id: str
    kind: str
    text: str
    asker: str  # name of a principal
    history: tuple[Turn, ...]
    relevant: tuple[GoldenSpan, ...]  # empty: the right answer is that there is none
    answer: str
    must_include: tuple[str, ...]  # strings of a right answer

    @property
    def answerable(self) -> bool:
        return bool(self.relevant)


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    kind: str
    question: str
    asker: str = Field(alias="as")
    history: tuple[Turn, ...]
    relevant: tuple[Mapping[str, str], ...]
    answer: str
    must_include: tuple[str, ...]


class _PrincipalRow(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    tenant: str
    groups: tuple[str, ...]
    operator: bool = False


def read_golden(path: Path) -> list[GoldenQuestion]:
    """The questions of a golden.jsonl, in order. Raises InputError with the line that is wrong."""
    questions = []
    for number, line in enumerate(_read(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = _Row.model_validate_json(line)
            spans = tuple(GoldenSpan(document=span["document"], text=span["span"]) for span in row.relevant)
        except (ValidationError, KeyError) as error:
            raise InputError(f"{path}, line {number}: {error}") from error
        questions.append(
            GoldenQuestion(row.id, row.kind, row.question, row.asker, row.history, spans, row.answer, row.must_include)
        )
    return questions


def read_principals(path: Path) -> dict[str, Principal]:
    """The principals of a principals.yaml by name. Raises InputError."""
    loaded: Any = yaml.safe_load(_read(path))  # Any: whatever the YAML holds, until pydantic has checked it
    try:
        rows = [_PrincipalRow.model_validate(row) for row in loaded["principals"]]
    except (ValidationError, KeyError, TypeError) as error:
        raise InputError(f"{path}: expected principals: [{{name, tenant, groups}}]: {error}") from error
    return {row.name: Principal(row.name, row.tenant, frozenset(row.groups), row.operator) for row in rows}


def plain_text(text: str) -> str:
    """The text as a reader sees it: no emphasis, code ticks, link targets or table rules, single spaces."""
    text = _LINK.sub(r"\1", html.unescape(text))
    text = _MARKS.sub(" ", _EMPHASIS.sub("", _ESCAPE.sub(r"\1", text)))
    return " ".join(text.split())


_LINK = re.compile(r"!?\[([^\]]*)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)")
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~])")
_EMPHASIS = re.compile(r"[*`]|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)")  # an underscore inside a word is part of it
_MARKS = re.compile(r"\|(?:\s*:?-{3,}:?\s*\|)+|\|")


def holds_span(span: GoldenSpan, uri: str, text: str) -> bool:
    """Whether a chunk of that document, with that text, holds the whole span."""
    return uri == span.document and plain_text(span.text) in plain_text(text)


def spans_found(question: GoldenQuestion, ranking: Sequence[tuple[str, str]]) -> list[frozenset[int]]:
    """For each (uri, text) of a ranking, which of the question's spans it holds, by their place in `relevant`."""
    return [
        frozenset(place for place, span in enumerate(question.relevant) if holds_span(span, uri, text))
        for uri, text in ranking
    ]


def first_rank(found: Sequence[frozenset[int]]) -> int | None:
    """The rank, from 1, of the first that holds any span; None where none does."""
    return next((rank for rank, places in enumerate(found, start=1) if places), None)


def span_recall(question: GoldenQuestion, found: Sequence[frozenset[int]], k: int) -> float:
    """The share of the question's spans that the first k hold together."""
    return len(frozenset[int]().union(*found[:k])) / len(question.relevant)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
