"""Labelled questions for training and calibration: who asked what of which passage, and whether it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.ids import digest
from rag.train.json_lines import json_lines

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
        for _, row in json_lines(data / PAIRS / f"{source}.jsonl.gz")
        if row.get("answer", "").strip()
    ]


def read_unanswerable(data: Path) -> list[LabelledQuestion]:
    """The questions that their passage does not answer, in file order. Raises InputError."""
    source = "squad-v2.0-dev-unanswerable"
    rows = json_lines(data / UNANSWERABLE / f"{source}.jsonl.gz")
    return [LabelledQuestion(row["question"], row["passage"], "", document_of(row), source) for _, row in rows]


def held_out(document: str, share: float = 0.5) -> bool:
    """Whether the document is in the held-out part; the same answer everywhere, whatever else is read."""
    return int(digest("held out", document, size_bytes=4), 16) < share * 2**32


def document_of(row: dict[str, Any]) -> str:  # Any: one object of JSON
    """What stands for the document of a row, so that none is on both sides of a split: its title, else its passage."""
    return " ".join((row.get("title") or row["passage"]).replace("_", " ").casefold().split())
