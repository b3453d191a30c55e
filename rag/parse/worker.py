"""The child process of `rag.parse.isolation`: documents in through a pipe, parsed documents or errors out."""

import gc
import math
import os
import pickle
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from rag.config import ParseConfig
from rag.data import Document, RawDocument
from rag.errors import ParseError, RagError
from rag.parse.pages import Found, PageParser, PageWork, is_out_of_memory
from rag.parse.slices import Begun, Done, Progress, Slice

_GRACE_SECONDS = 10  # after the limit of the clock, which the parent enforces; then the parent must be gone
_SLICE_SECONDS = 10.0  # of a slice beside its pages: with the first picture models are loaded
_WATCH_SECONDS = 2.0
_MIB = 1 << 20


def serve(connection: Connection) -> None:
    """Parse what arrives until the pipe is closed.

    For each document go back what is begun and what was found on its pages, and then its outcome with whether the
    memory ran out on the way.
    """
    factory, limits, clock_factor = connection.recv()
    parser: PageParser = factory()
    # What documents leave behind goes by its reference counts. Searching all of it for cycles as often as is usual, and
    # the modules with it, takes a twentieth of the time.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    # Counts what is allocated, not what is mapped: libraries reserve address space that they never use.
    resource.setrlimit(resource.RLIMIT_DATA, (limits.max_memory_mb * _MIB,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    connection.send("ready")
    while True:
        try:
            raw, progress = connection.recv()
        except EOFError:
            return
        work = _SlicedWork(raw.metadata.uri, connection, limits, clock_factor, progress)
        outcome = _parse(parser, raw, work, limits.max_memory_mb)
        signal.alarm(0)
        connection.send(outcome)


class _SlicedWork(PageWork):
    """Takes pages through their steps in slices, each within a time of its own, and hands over what was found on each.

    A document of one slice is taken through as a whole, unless it failed before.
    """

    def __init__(
        self, uri: str, connection: Connection, limits: ParseConfig, clock_factor: float, progress: Progress
    ) -> None:
        super().__init__(uri, limits.max_lost_pages)
        self._connection, self._limits, self._clock_factor, self._progress = connection, limits, clock_factor, progress
        self.lost |= progress.lost
        self._began = _used_seconds()
        self._allowed = limits.max_seconds  # for the document
        self._is_counted = False  # its pages are part of that
        _end_after(self._began, self._allowed, clock_factor)

    def each_page(self, step: str, num_pages: int, find: Callable[[int], Found]) -> Iterator[Found | None]:
        pages_per_slice = 1 if self._progress.is_careful else self._limits.pages_per_slice
        is_whole = num_pages <= self._limits.pages_per_slice and not self._progress.is_careful
        if not self._is_counted:
            self._is_counted = True
            self._allowed += self._limits.max_page_seconds * num_pages
            self._begin_rest(Slice("", 0, num_pages) if is_whole and num_pages > 1 else None)
        if is_whole:
            yield from super().each_page(step, num_pages, find)
            return
        first = 0
        while first < num_pages:
            if packed := self._progress.found.pop((step, first), b""):
                found = pickle.loads(packed)  # another process of this parser made it
                yield from found
            else:
                part = Slice(step, first, min(first + pages_per_slice, num_pages))
                self._begin(part)
                found = []
                for at in range(part.first, part.end):
                    found.append(self._one_page(at, num_pages, find))
                    yield found[-1]
                self._connection.send(Done(part, pickle.dumps(found, pickle.HIGHEST_PROTOCOL), self.lost))
            first += len(found)
        self._begin_rest()

    def _begin(self, part: Slice) -> None:
        """Begin a slice. Where less is left of the document's time than of the slice's, it is not the pages' fault."""
        fixed = min(_SLICE_SECONDS, self._limits.max_seconds)
        seconds = fixed + self._limits.max_page_seconds * (part.end - part.first)
        used = _used_seconds()
        if used + seconds > self._began + self._allowed:
            self._begin_rest()
        else:
            _end_after(used, seconds, self._clock_factor)
            self._connection.send(Begun(part, seconds))

    def _begin_rest(self, part: Slice | None = None) -> None:
        """Begin what may take all that is left of the document's time."""
        _end_after(self._began, self._allowed, self._clock_factor)
        self._connection.send(Begun(part, self._allowed))


def _end_with_parent(parent: int) -> None:
    """End this process once its parent is gone, also amid a document, unless native code holds the interpreter."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _used_seconds() -> float:
    """The processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _end_after(began: float, seconds: float, clock_factor: float) -> None:
    """End the process so much processor time after another, or from now after that times `clock_factor` by the clock.

    Neither needs a handler, so both work inside native code. The clock is watched by the parent; the alarm is for one
    that is gone, where native code keeps this process from noticing.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(began + seconds), resource.RLIM_INFINITY))
    signal.alarm(math.ceil(clock_factor * seconds) + _GRACE_SECONDS)


def _parse(
    parser: PageParser, raw: RawDocument, work: PageWork, max_memory_mb: int
) -> tuple[Document | RagError, bool]:
    """The document or its error, and whether the memory ran out."""
    try:
        return parser.parse(raw, work), False
    except (RagError, MemoryError) as error:
        if is_out_of_memory(error):
            reason = f"took more memory to parse than {max_memory_mb:,} MB (parse.max_memory_mb)"
            return ParseError(raw.metadata.uri, reason), True
        if isinstance(error, RagError):
            error.__cause__ = error.__context__ = None  # may hold what can't be pickled
            return error, False
        raise
