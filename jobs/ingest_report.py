"""What a run did, for people and for programs, and the errors table that goes with it."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rag.data import ErrorRow
from rag.tables import errors_to_table


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The outcome of one run. `documents` is the sum of indexed, unchanged, skipped and failed."""

    documents: int  # listed
    indexed: int
    unchanged: int
    skipped: int
    failed: int
    deleted: int  # known before and no longer there
    chunks: int  # live in the version
    embedded: int
    reused: int  # vectors that were at hand
    version: str | None  # live after the run; None where there is none
    published: bool  # False: nothing changed, the version was live before
    seconds: Mapping[str, float] = field(default_factory=dict)  # parse and embed are sums over workers
    errors: tuple[ErrorRow, ...] = ()  # failed first, then skipped
    errors_file: str = ""
    smoke: str = ""  # what the smoke test found, in words; empty where there was none
    refused: str | None = None  # the version that is committed and was not published, because it failed that test

    @property
    def exit_code(self) -> int:
        """1 when any document failed, even where a version was published, and when the new version was refused."""
        return 1 if self.failed or self.refused else 0

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        return asdict(self)

    def rows(self) -> dict[str, object]:
        """The summary as names and values for a table."""
        if self.version is None:
            state = "none: nothing to index"
        else:
            state = f"{self.version} ({'published' if self.published else 'unchanged'})"
        counts = {
            "documents": self.documents,
            "indexed": self.indexed,
            "unchanged": self.unchanged,
            "skipped": self.skipped,
            "failed": self.failed,
            "deleted": self.deleted,
            "chunks": f"{self.chunks} live, {self.embedded} embedded, {self.reused} vectors re-used",
        }
        seconds = {f"{stage} s": f"{value:.1f}" for stage, value in self.seconds.items()}
        smoke = {"smoke test": self.smoke} if self.smoke else {}
        refused = {"not published": self.refused} if self.refused else {}
        return {"version": state, **refused, **counts, **smoke, **seconds}


def write_errors(folder: Path, name: str, errors: Sequence[ErrorRow]) -> Path:
    """Write the errors table as parquet and as JSON lines; the path of the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    parquet, lines = folder / f"{name}.parquet", folder / f"{name}.jsonl"
    temporary = folder / f".{name}.{os.getpid()}"
    pq.write_table(errors_to_table(errors), temporary)
    temporary.replace(parquet)
    temporary.write_text("".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in errors), "utf-8")
    temporary.replace(lines)
    return lines
