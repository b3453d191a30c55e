"""Questions with a passage that answers them: read from pair files and from `jobs.synthesize`, sampled and split."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rag.errors import InputError
from rag.ids import digest
from rag.train.json_lines import json_line_files, json_lines
from rag.train.labelled import document_of
from rag.train.sources import LEFT_OUT, SYNTHETIC


@dataclass(frozen=True, slots=True)
class TrainingPair:
    """A question and a passage that answers it."""

    question: str
    passage: str
    source: str
    document: str  # what a split must not cut
    chunk: str  # two texts of one chunk (with its heading, without it) are one passage

    @property
    def asked(self) -> str:
        """The question as it is compared with others."""
        return _folded(self.question)


def read_pairs(paths: Sequence[Path], leave_out: Iterable[str] = LEFT_OUT) -> list[TrainingPair]:
    """The pairs of the files, and of the `.jsonl` and `.jsonl.gz` files of folders, each once, in file order.

    A row has a `question` and a `passage`, or a `positive` as `jobs.synthesize` writes it. Of those the text without
    the heading that the question was made of is taken: else repeating the heading would be the whole lesson. Pairs
    whose source is in `leave_out` are not read. Raises InputError, also when no pair is left.
    """
    unwanted = frozenset(leave_out)
    found = dict.fromkeys(
        pair for path in paths for file in json_line_files(path) for pair in _read(file) if pair.source not in unwanted
    )
    if not found:
        without = f" (left out: {', '.join(sorted(unwanted))})" if unwanted else ""
        raise InputError(f"{', '.join(map(str, paths)) or 'no path'}: no pairs of question and passage{without}")
    return list(found)


def split_pairs(
    pairs: Sequence[TrainingPair], dev_share: float, seed: int
) -> tuple[list[TrainingPair], list[TrainingPair]]:
    """The pairs to train on and those held out, about `dev_share` of the documents.

    A document is on one side only, whatever else is read. A pair to train on whose question or passage also stands
    on the other side is dropped.
    """
    dev = [pair for pair in pairs if _is_dev(pair.document, dev_share, seed)]
    questions = {pair.asked for pair in dev}
    chunks = {pair.chunk for pair in dev}
    train = [
        pair
        for pair in pairs
        if not _is_dev(pair.document, dev_share, seed) and pair.asked not in questions and pair.chunk not in chunks
    ]
    return train, dev


def sample_pairs(pairs: Sequence[TrainingPair], limit: int, seed: int) -> list[TrainingPair]:
    """At most `limit` pairs, as many of each source as the smaller sources allow, in an order drawn by the seed."""
    by_source: dict[str, list[TrainingPair]] = {}
    for pair in sorted(pairs, key=lambda pair: digest("sample", str(seed), pair.question, pair.passage)):
        by_source.setdefault(pair.source, []).append(pair)
    turns = zip_longest(*(by_source[source] for source in sorted(by_source)))
    return [pair for turn in turns for pair in turn if pair is not None][:limit]


def _is_dev(document: str, share: float, seed: int) -> bool:
    return int(digest("dev", str(seed), document, size_bytes=4), 16) < share * 2**32


def _read(path: Path) -> Iterator[TrainingPair]:
    for number, row in json_lines(path):
        try:
            yield _pair(row, path)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}:{number}: expected a question and a passage or positive, in text") from error


def _pair(row: dict[str, Any], path: Path) -> TrainingPair:  # Any: one object of JSON
    question = row["question"].strip()
    if "positive" in row:
        passage = row.get("positive_masked") or row["positive"]
        source = f"{SYNTHETIC}-{row.get('source', 'rows')}"
        return TrainingPair(question, passage, source, row["document_id"], row["chunk_id"])
    passage = row["passage"].strip()
    source = row.get("source") or path.name.split(".jsonl")[0]
    return TrainingPair(question, passage, source, document_of(row), passage)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
