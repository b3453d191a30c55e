"""Labelled questions for training and calibration: who asked what of which passage, and whether it answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.errors import InputError
from rag.ids import digest
from rag.train.json_lines import json_line_files, json_lines
from rag.train.sources import SYNTHETIC

PAIRS, UNANSWERABLE = "qa-pairs", "qa-unanswerable"  # folders of JSONL files, one object a line


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question asked of a passage. `answer` is "" where the passage looks right and does not answer."""

    question: str
    passage: str
    answer: str
    document: str  # what a split must not cut: the article that the passage comes from
    source: str
    title: str = ""  # of the document, where it is known

    @property
    def answerable(self) -> bool:
        return bool(self.answer)


def read_answerable(data: Path, sources: Sequence[str]) -> list[LabelledQuestion]:
    """The questions of the named sets whose answer is known, in file order. Raises InputError."""
    return [
        LabelledQuestion(
            row["question"], row["passage"], row["answer"].strip(), document_of(row), source, title_of(row)
        )
        for source in sources
        for _, row in json_lines(data / PAIRS / f"{source}.jsonl.gz")
        if row.get("answer", "").strip()
    ]


def read_unanswerable(data: Path) -> list[LabelledQuestion]:
    """The questions that their passage does not answer, in file order. Raises InputError."""
    source = "squad-v2.0-dev-unanswerable"
    rows = json_lines(data / UNANSWERABLE / f"{source}.jsonl.gz")
    return [
        LabelledQuestion(row["question"], row["passage"], "", document_of(row), source, title_of(row))
        for _, row in rows
    ]


def read_labelled(paths: Sequence[Path]) -> list[LabelledQuestion]:
    """The questions of the files, and of the `.jsonl` and `.jsonl.gz` files of folders, each once, in file order.

    A row has a `question`, a `passage` (or a `positive`, as `jobs.synthesize` writes it) and an `answer` that stands in
    it. A row with `"unanswerable": true`, or of a file with "unanswerable" in its name, has none. Rows that say neither
    are left out. Raises InputError, also when no question is left.
    """
    found = dict.fromkeys(question for path in paths for file in json_line_files(path) for question in _labelled(file))
    if not found:
        raise InputError(f"{', '.join(map(str, paths)) or 'no path'}: no questions with an answer")
    return list(found)


def _labelled(path: Path) -> Iterator[LabelledQuestion]:
    name = path.name.split(".jsonl")[0]
    for number, row in json_lines(path):
        try:
            passage = row["passage"] if "passage" in row else row.get("positive_masked") or row["positive"]
            unanswerable = bool(row.get("unanswerable")) or "unanswerable" in name
            answer = "" if unanswerable else (row.get("answer") or "").strip()
            document = row.get("document_id") or document_of({**row, "passage": passage})
            if answer or unanswerable:
                source = name if unanswerable else row.get("source") or name
                if "positive" in row:
                    source = f"{SYNTHETIC}-{source}"
                yield LabelledQuestion(row["question"].strip(), passage, answer, document, source, title_of(row))
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}:{number}: expected a question, a passage and an answer, in text") from error


def held_out(document: str, share: float = 0.5) -> bool:
    """Whether the document is in the held-out part; the same answer everywhere, whatever else is read."""
    return int(digest("held out", document, size_bytes=4), 16) < share * 2**32


def title_of(row: dict[str, Any]) -> str:  # Any: one object of JSON
    """The title of a row's document as a reader would write it; "" where the row has none."""
    return " ".join((row.get("title") or "").replace("_", " ").split())


def document_of(row: dict[str, Any]) -> str:  # Any: one object of JSON
    """What stands for the document of a row, so that none is on both sides of a split: its title, else its passage."""
    return " ".join((row.get("title") or row["passage"]).replace("_", " ").casefold().split())
