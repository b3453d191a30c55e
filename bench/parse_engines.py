"""Runs parsers over files, each in processes of its own in its own environment, and measures what they cost."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

import psutil

from bench.parse_sets import ParseCase
from bench.report import PROJECT, out

ENVIRONMENT = PROJECT / "var" / "parsers"  # of every parser but quire, so that their pins touch nothing here
PACKAGES = (  # those that a user would pick, as they were when the figures were taken
    "pymupdf4llm==2.0",
    "pymupdf==2.0",
    "pymupdf_layout==2.0",
    "rapidocr==3.10.0",  # what pymupdf4llm-ocr recognizes with
    "onnxruntime==1.32.0",
    "liteparse==2.18.0",
    "markitdown[pdf]==0.1.9",
    "pdfplumber==0.11.10",
    "edgeparse==0.3.2",
    "kreuzberg==4.10.4",
)
_WORKER = PROJECT / "bench" / "parse_worker.py"
_POLL_S = 0.5  # between two looks at the memory of a worker: each looks at all processes of the machine
_START_S = 300.0
_FILE_S, _PAGE_S = 120.0, 15.0  # most time of a file: so much, and so much a page


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an engine made of one file: Markdown, or an error."""

    markdown: str
    error: str
    seconds: float
    lost: bool = False  # the worker died or had to be killed


@dataclass(frozen=True, slots=True)
class EngineReport:
    """One engine over some files, shared among its workers."""

    engine: str
    version: str
    outcomes: tuple[Outcome, ...]
    wall_s: float  # from the first file to the last, workers started and warm
    cpu_s: float  # of all workers and their children
    peak_mib: float  # most memory of one worker and its children

    @property
    def num_lost(self) -> int:
        return sum(outcome.lost for outcome in self.outcomes)


def build_environment() -> None:
    """Makes the environment of the other parsers where it isn't there yet, or holds other versions."""
    stamp = ENVIRONMENT / "packages.txt"
    wanted = "\n".join(PACKAGES)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    out.print(f"[dim]installing {', '.join(PACKAGES)}[/dim]")
    subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    subprocess.run([str(ENVIRONMENT / "bin" / "pip"), "install", "--quiet", *PACKAGES], check=True)
    stamp.write_text(wanted, encoding="utf-8")


def run_engine(engine: str, cases: Sequence[ParseCase], num_workers: int) -> EngineReport:
    """Every file through the engine, shared among workers. One that hangs or dies is replaced, and costs its file
    alone. Raises RuntimeError where the engine does not start."""
    outcomes: list[Outcome | None] = [None] * len(cases)
    waiting: Queue[int] = Queue()
    # Long files first: no worker is left alone with one at the end.
    for place in sorted(range(len(cases)), key=lambda place: -cases[place].num_pages):
        waiting.put(place)
    passwords = sorted({case.password for case in cases} - {""})
    workers = [Worker(engine, passwords) for _ in range(min(num_workers, max(len(cases), 1)))]
    smallest = min(cases, key=lambda case: case.size_bytes or sys.maxsize)
    for worker in workers:
        worker.parse(smallest)  # what an engine loads at its first file isn't part of its speed

    def work(turn: int) -> None:
        while True:
            try:
                place = waiting.get_nowait()
            except Empty:
                return
            outcomes[place] = workers[turn].parse(cases[place])

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(len(workers))]
    cpu_before, started = sum(worker.cpu_s() for worker in workers), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall_s, cpu_s = time.perf_counter() - started, sum(worker.cpu_s() for worker in workers) - cpu_before
    for worker in workers:
        worker.close()
    found = tuple(outcome for outcome in outcomes if outcome is not None)
    peak = max(worker.peak_bytes for worker in workers)
    return EngineReport(engine, workers[0].version, found, wall_s, cpu_s, peak / 2**20)


class Worker:
    """One process of one engine, started anew when it is lost. Raises RuntimeError where it can't be started."""

    def __init__(self, engine: str, passwords: Sequence[str] = ()) -> None:
        self._engine, self._passwords = engine, passwords
        self.peak_bytes = 0
        self._cpu_of_lost = 0.0
        self._start()

    def parse(self, case: ParseCase) -> Outcome:
        started = time.perf_counter()
        assert self._process.stdin is not None
        timeout_s = _FILE_S + _PAGE_S * case.num_pages
        try:
            self._process.stdin.write(json.dumps({"path": str(case.path), "password": case.password}) + "\n")
            self._process.stdin.flush()
            answer = self._answer(timeout_s)
        except BrokenPipeError:
            answer = None
        if answer is not None:
            return Outcome(answer.get("markdown", ""), answer.get("error", ""), answer["seconds"])
        code = self._process.poll()
        reason = f"no answer in {timeout_s:.0f} s" if code is None else f"the worker ended with {code}"
        self._cpu_of_lost = self.cpu_s()
        self.close()
        self._start()
        return Outcome("", reason, time.perf_counter() - started, lost=True)

    def cpu_s(self) -> float:
        """Processor time of the worker and its children until now, and of those that were lost."""
        total = self._cpu_of_lost
        for process in self._family():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            # Children that have ended count with their parent.
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def close(self) -> None:
        for process in self._family():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()

    def _start(self) -> None:
        own = self._engine.startswith("quire")
        python = sys.executable if own else str(ENVIRONMENT / "bin" / "python")
        script = ["-m", "bench.parse_worker"] if own else [str(_WORKER)]
        self._process = subprocess.Popen(
            [python, *script, self._engine, *self._passwords],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: Queue[str] = Queue()
        self._messages: list[str] = []
        for target in (self._read_lines, self._read_messages, self._watch_memory):
            threading.Thread(target=target, args=(self._process,), daemon=True).start()
        ready = self._answer(_START_S)
        if ready is None:
            self.close()
            raise RuntimeError(f"{self._engine} does not start: {' '.join(self._messages[-3:])}")
        self.version = str(ready["ready"])

    def _answer(self, timeout_s: float) -> dict[str, Any] | None:  # Any: what the worker's JSON says
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            try:
                answer: dict[str, Any] = json.loads(self._lines.get(timeout=0.5))
                return answer
            except Empty:
                if self._process.poll() is not None and self._lines.empty():
                    return None
        return None

    def _read_lines(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put(line)

    def _read_messages(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self._messages = [*self._messages[-20:], line.strip()]

    def _watch_memory(self, process: "subprocess.Popen[str]") -> None:
        while process.poll() is None:
            used = 0
            for member in self._family():
                try:
                    used += member.memory_info().rss
                except psutil.Error:
                    continue
            self.peak_bytes = max(self.peak_bytes, used)
            time.sleep(_POLL_S)

    def _family(self) -> list[psutil.Process]:
        try:
            parent = psutil.Process(self._process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []
