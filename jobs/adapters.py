"""What the jobs that train an adapter share: where it goes, how it is written, and how far they are."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jobs.printing import LINE_EVERY_S, err, say
from rag.errors import InputError


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the adapter goes, and the whole model where one is wanted."""

    adapter: Path
    merged: Path | None = None
    force: bool = False

    def check(self) -> None:
        """Raises InputError when something is in the way."""
        for path in (self.adapter, self.merged):
            if path is not None and path.exists() and not self.force:
                raise InputError(f"{path} exists; give another path, or --force to replace it")
        if self.merged is not None and self.merged.resolve() == self.adapter.resolve():
            raise InputError(f"--out and --merged are both {self.adapter}; expected two folders")

    def write(
        self,
        save: Callable[[Path], None],
        merge: Callable[[Path], None],
        card: str,
        facts: Mapping[str, Any],  # Any: JSON
    ) -> None:
        """Writes the adapter with its page and its facts, then the whole model where one is wanted, each in one step.

        `save` fills the folder of the adapter, `merge` that of the model; the adapter is in its place by then.
        """
        with _replacing(self.adapter) as folder:
            save(folder)
            (folder / "README.md").write_text(card, encoding="utf-8")
            (folder / "training.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        if self.merged is not None:
            with _replacing(self.merged) as folder:
                merge(folder)

    def to_json(self) -> dict[str, str]:
        """Both places, "" for a model that is not wanted."""
        return {"out": str(self.adapter), "merged": str(self.merged or "")}


def page_of(folder: Path | None) -> str:
    """The page of the adapter in a folder; "" where there is none."""
    page = folder / "README.md" if folder else None
    return page.read_text(encoding="utf-8") if page and page.is_file() else ""


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A new folder beside the target that takes its place when the block ends well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as work:
        folder = Path(work) / "new"
        folder.mkdir()
        yield folder
        if target.exists():
            target.rename(Path(work) / "old")
        folder.rename(target)


@contextmanager
def progress_of(what: str) -> Iterator[Callable[[int, int], None]]:
    """Told how many of how many are done: a bar on a terminal, else a line every few seconds."""
    if err.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=err, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    said = time.monotonic()

    def line(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said >= LINE_EVERY_S or done == total:
            said = time.monotonic()
            say(f"{what}: {done} of {total}")

    yield line
