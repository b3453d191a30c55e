"""Does a process tree's memory stay flat? Samples what each process under one holds, and fits a line to it."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
MIN_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """The anonymous memory of one process at one moment: what it allocated, without files and shared memory."""

    at_s: float  # since the sampler started
    bytes: int


@dataclass(frozen=True, slots=True)
class Trend:
    """How the memory of one process went, from some moment on."""

    name: str
    num_samples: int
    median_mib: float
    peak_mib: float  # over the whole run
    slope_mib_per_min: float
    growth_mib: float  # slope times the time that was looked at


class MemorySampler:
    """Samples this process and everything below it once a second, on a thread, while the context lasts.

    Shared memory is left out: it is Ray's object store, which has its own limit and counts in every process that
    looked at an object.
    """

    def __init__(self, every_s: float = 1.0) -> None:
        self._every_s, self._done = every_s, threading.Event()
        self._samples: dict[tuple[int, str], list[Sample]] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = 0.0
        self.duration_s = 0.0

    def __enter__(self) -> "MemorySampler":
        self._started = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.duration_s = time.perf_counter() - self._started

    def trends(self, after_s: float) -> list[Trend]:
        """The trend of each process that was there long enough after that moment, the largest first."""
        found = [trend_of(name, samples, after_s) for (_, name), samples in self._samples.items()]
        return sorted((trend for trend in found if trend is not None), key=lambda trend: -trend.peak_mib)

    def _run(self) -> None:
        while not self._done.wait(self._every_s):
            at_s = time.perf_counter() - self._started
            for pid in process_tree(os.getpid()):
                held = anonymous_bytes(pid)
                if held is not None:
                    name = "driver" if pid == os.getpid() else process_name(pid)
                    self._samples.setdefault((pid, name), []).append(Sample(at_s, held))


def trend_of(name: str, samples: Sequence[Sample], after_s: float) -> Trend | None:
    """The least-squares line through the samples after a moment; None where there are too few of them."""
    late = [sample for sample in samples if sample.at_s >= after_s]
    if len(late) < MIN_SAMPLES:
        return None
    mean_s = sum(sample.at_s for sample in late) / len(late)
    mean_bytes = sum(sample.bytes for sample in late) / len(late)
    spread = sum((sample.at_s - mean_s) ** 2 for sample in late)
    slope = sum((sample.at_s - mean_s) * (sample.bytes - mean_bytes) for sample in late) / spread if spread else 0.0
    return Trend(
        name=name,
        num_samples=len(late),
        median_mib=round(sorted(sample.bytes for sample in late)[len(late) // 2] / MIB, 1),
        peak_mib=round(max(sample.bytes for sample in samples) / MIB, 1),
        slope_mib_per_min=round(slope * 60 / MIB, 2),
        growth_mib=round(slope * (late[-1].at_s - late[0].at_s) / MIB, 1),
    )


def process_tree(root: int) -> list[int]:
    """The process and all that it started, directly or not."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def anonymous_bytes(pid: int) -> int | None:
    """The anonymous resident memory of a process; None where it is gone."""
    fields = _status(pid)
    return int(fields["RssAnon"].split()[0]) * 1024 if "RssAnon" in fields else None


def process_name(pid: int) -> str:
    """What the process calls itself: Ray's workers say which task they run."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "gone"
    first = words[0].decode(errors="replace")
    return first if first.startswith("ray::") else Path(first).name or "?"


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _status(pid: int) -> Mapping[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
