"""Labelled questions for training and calibration: who asked what of which passage, and whether it answers."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.errors import InputError
from rag.ids import digest

PAIRS, UNANSWERABLE = "qa-pairs", "qa-unanswerable"  # folders of JSONL files, one object a line


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question asked of a passage. `answer` is "" where the passage looks right and does not answer."""

    question: str
    passage: str
    answer: str
    document: str  # what a split must not cut: the article that the passage comes from
    source: str

    @property
    def answerable(self) -> bool:
        return bool(self.answer)


def read_answerable(data: Path, sources: Sequence[str]) -> list[LabelledQuestion]:
    """The questions of the named sets whose answer is known, in file order. Raises InputError."""
    return [
        LabelledQuestion(row["question"], row["passage"], row["answer"].strip(), document_of(row), source)
        for source in sources
        for row in _rows(data / PAIRS / f"{source}.jsonl.gz")
        if row.get("answer", "").strip()
    ]


def read_unanswerable(data: Path) -> list[LabelledQuestion]:
    """The questions that their passage does not answer, in file order. Raises InputError."""
    source = "squad-v2.0-dev-unanswerable"
    rows = _rows(data / UNANSWERABLE / f"{source}.jsonl.gz")
    return [LabelledQuestion(row["question"], row["passage"], "", document_of(row), source) for row in rows]


def held_out(document: str, share: float = 0.5) -> bool:
    """Whether the document is in the held-out part; the same answer everywhere, whatever else is read."""
    return int(digest("held out", document, size_bytes=4), 16) < share * 2**32


def document_of(row: dict[str, Any]) -> str:  # Any: one object of JSON
    """What stands for the document of a row, so that none is on both sides of a split: its title, else its passage."""
    return " ".join((row.get("title") or row["passage"]).replace("_", " ").casefold().split())


def _rows(path: Path) -> list[dict[str, Any]]:  # Any: one object of JSON a line
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.strip()]
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON: {error}") from error
