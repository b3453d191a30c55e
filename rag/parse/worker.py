"""The child process of `rag.parse.isolation`: documents in through a pipe, parsed documents or errors out."""

import gc
import math
import os
import re
import resource
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pymupdf

from rag.data import Document, RawDocument
from rag.errors import ParseError, RagError
from rag.protocols import Parser

_GRACE_SECONDS = 10  # after the limit of the clock, which the parent enforces; then the parent must be gone
_WATCH_SECONDS = 2.0
_MIB = 1 << 20
# How native libraries say that an allocation failed.
_NO_MEMORY = re.compile(r"malloc|calloc|realloc|bad_alloc|out of memory|failed to allocate|insufficient memory", re.I)


def serve(connection: Connection) -> None:
    """Parse what arrives until the pipe is closed.

    For each document go back the processor time that it may take, and then its outcome with whether the memory ran out
    on the way.
    """
    factory, limits, clock_factor = connection.recv()
    parser: Parser = factory()
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
            raw: RawDocument = connection.recv()
        except EOFError:
            return
        _allow(limits.max_seconds, clock_factor)
        seconds = limits.max_seconds + limits.max_page_seconds * _count_pages(raw)
        _allow(seconds, clock_factor)
        connection.send(seconds)
        outcome = _parse(parser, raw, limits.max_memory_mb)
        signal.alarm(0)
        connection.send(outcome)


def _end_with_parent(parent: int) -> None:
    """End this process once its parent is gone, also amid a document, unless native code holds the interpreter."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _allow(seconds: float, clock_factor: float) -> None:
    """End the process after so much more processor time, or after that times `clock_factor` by the clock.

    Neither needs a handler, so both work inside native code. The clock is watched by the parent; the alarm is for one
    that is gone, where native code keeps this process from noticing.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
    signal.alarm(math.ceil(clock_factor * seconds) + _GRACE_SECONDS)


def _count_pages(raw: RawDocument) -> int:
    """The pages of a PDF; 0 for anything else, and for a PDF that can't be opened, whose parser will say why."""
    if not raw.content[:1024].lstrip().startswith(b"%PDF-"):
        return 0
    try:
        with pymupdf.open(stream=raw.content, filetype="pdf") as pdf:
            return int(pdf.page_count)
    except Exception:  # MuPDF's errors share no base
        return 0


def _parse(parser: Parser, raw: RawDocument, max_memory_mb: int) -> tuple[Document | RagError, bool]:
    """The document or its error, and whether the memory ran out."""
    try:
        return parser.parse(raw), False
    except (RagError, MemoryError) as error:
        if any(isinstance(cause, MemoryError) or _NO_MEMORY.search(str(cause)) for cause in _causes(error)):
            reason = f"took more memory to parse than {max_memory_mb:,} MB (parse.max_memory_mb)"
            return ParseError(raw.metadata.uri, reason), True
        if isinstance(error, RagError):
            error.__cause__ = error.__context__ = None  # may hold what can't be pickled
            return error, False
        raise


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
