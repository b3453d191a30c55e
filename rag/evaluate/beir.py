"""Test collections in the layout of BEIR: corpus.jsonl.gz, queries.jsonl, qrels/test.tsv."""

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.errors import InputError


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """One document of a collection; title or text may be empty."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """One query with its judgements: the grade of each judged document, at least one of them above 0."""

    id: str
    text: str
    grades: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Collection:
    """A corpus and the queries that were judged on it."""

    name: str
    documents: tuple[CorpusDocument, ...]
    queries: tuple[JudgedQuery, ...]  # those with something relevant, in file order


def read_collection(folder: Path) -> Collection:
    """The collection in the folder. Raises InputError for a missing file or a line of another shape."""
    documents = read_documents(folder)
    grades = _read_grades(folder / "qrels" / "test.tsv")
    queries = tuple(
        JudgedQuery(row["_id"], row["text"], grades[row["_id"]])
        for row in _rows(folder / "queries.jsonl")
        if any(grade > 0 for grade in grades.get(row["_id"], {}).values())
    )
    return Collection(folder.name, documents, queries)


def read_documents(folder: Path) -> tuple[CorpusDocument, ...]:
    """The corpus of the collection in the folder alone: what may be trained on, since its queries may not. Raises
    InputError."""
    return tuple(
        CorpusDocument(row["_id"], row.get("title", ""), row.get("text", ""))
        for row in _rows(folder / "corpus.jsonl.gz")
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:  # Any: whatever else a row holds is not read
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(row, dict) or "_id" not in row:
            raise InputError(f"{path}, line {number}: expected an object with _id")
        yield row


def _read_grades(path: Path) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        if number == 1:
            continue  # the header
        try:
            query, document, grade = line.split("\t")
            grades.setdefault(query, {})[document] = int(grade)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: expected query, document and grade: {line!r}") from error
    return grades


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\n")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
