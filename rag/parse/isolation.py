"""A parser in a process of its own: what crashes, hangs or eats memory there costs one page or document, and is named.

Native code (MuPDF, ONNX Runtime, zlib) meets whatever people upload. It may take its process down, never return, or
allocate without end, and none of it may be called from several threads. So it runs in one child process, one document
after the other, and the pages of a PDF come back in slices, so that another process can go on where one failed. Pools
of `multiprocessing` and those built on it run the caller's main module again in each child, which is Ray's worker or a
test runner here; hence a plain subprocess and a pipe.
"""

import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any, TypeAlias

from rag.config import ParseConfig
from rag.data import Document, RawDocument
from rag.errors import ParseError, RagError
from rag.parse.media_type import TEXT_MEDIA_TYPES, detect_media_type
from rag.parse.pages import PageParser, PageWork
from rag.parse.slices import Begun, Done, Progress

ParserFactory: TypeAlias = Callable[[], PageParser]  # picklable: a function of a module, or a partial of one

CLOCK_FACTOR = 4  # by the clock a document may take so many times its processor time: machines are busy
_SMALL_TEXT_BYTES = 200_000  # a text this short is parsed here: no native code sees it, and it can't take long
_START_SECONDS = 60.0  # for a child to import what it needs


class IsolatedParser:
    """Parses in a child process, which is started when first needed and replaced every so many documents.

    Short texts are parsed in this one, by `text_parser` where it is given: it needs no models. One document at a time:
    not for several threads.
    """

    def __init__(self, factory: ParserFactory, config: ParseConfig, text_parser: PageParser | None = None) -> None:
        self._factory, self._config = factory, config
        self._here = text_parser
        self._worker: _Worker | None = None

    def parse(self, raw: RawDocument) -> Document:
        """The document as the factory's parser gives it, without the pages on which a process failed.

        Raises ParseError also where the child crashed, took too long or too much memory for other reasons than a few
        pages; the reason says which.
        """
        if detect_media_type(raw) in TEXT_MEDIA_TYPES and len(raw.content) <= _SMALL_TEXT_BYTES:
            self._here = self._here or self._factory()
            return self._here.parse(raw, PageWork(raw.metadata.uri, self._config.max_lost_pages))
        progress = Progress()
        while True:
            worker = self._worker = self._worker or _Worker(self._factory, self._config)
            try:
                outcome, has_failed = worker.parse(raw, progress)
            except BaseException:  # a worker that is interrupted would answer the next document with this one
                self.close()
                raise
            if has_failed or worker.num_parsed >= self._config.documents_per_worker:
                self.close()
            if isinstance(outcome, Document):
                return outcome
            # This ends: a process fails once on a slice of several pages, then each time on another page, and with too
            # many of these the next one raises an error.
            if not (has_failed and isinstance(outcome, ParseError) and progress.outlives(outcome.reason)):
                raise outcome

    def close(self) -> None:
        """End the child process, if there is one; the next document starts another."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    @property
    def worker_pid(self) -> int | None:
        """The child process; None while there is none."""
        return self._worker.pid if self._worker else None


class _Worker:
    """One child process and the pipe to it. It ends with this object, or with this process."""

    def __init__(self, factory: ParserFactory, config: ParseConfig) -> None:
        self._config = config
        self.num_parsed = 0
        self._connection, theirs = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # a library that prints must not write into what quire prints
        )
        theirs.close()
        self.stop = weakref.finalize(self, _end, self._process, self._connection)
        self._is_ready = False
        self._seconds = 0.0  # of processor time that the child may take for what it does
        self._setup: tuple[object, ...] = (sys.path, (factory, config, CLOCK_FACTOR))

    @property
    def pid(self) -> int:
        return self._process.pid

    def parse(self, raw: RawDocument, progress: Progress) -> tuple[Document | RagError, bool]:
        """What became of the document, and whether the child failed on it and is of no use any longer.

        `progress` is what came of the document before, and what comes is added to it.
        """
        uri = raw.metadata.uri
        self.num_parsed += 1
        try:
            if not self._is_ready:
                self._seconds = _START_SECONDS
                self._send(uri, *self._setup)
                self._receive(uri)
                self._is_ready = True
            self._send(uri, (raw, progress))
            self._seconds = self._config.max_seconds
            while isinstance(message := self._receive(uri), Begun | Done):
                progress.note(message)
                if isinstance(message, Begun):
                    self._seconds = message.seconds
        except ParseError as error:  # nothing more came back
            return error, True
        outcome: tuple[Document | RagError, bool] = message
        return outcome

    def _send(self, uri: str, *messages: object) -> None:
        try:
            for message in messages:
                self._connection.send(message)
        except OSError as error:
            raise ParseError(uri, self._last_words()) from error

    def _receive(self, uri: str) -> Any:  # Any: what the child sends
        limit_s = CLOCK_FACTOR * self._seconds
        try:
            if not self._connection.poll(limit_s):
                raise ParseError(uri, f"did not end within {limit_s:g} s ({CLOCK_FACTOR} x the processor time allowed)")
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise ParseError(uri, self._last_words()) from error

    def _last_words(self) -> str:
        code = self._process.wait(timeout=10)
        if code == -signal.SIGXCPU:
            return (
                f"took more than {self._seconds:g} s of processor time to parse (parse.max_seconds, max_page_seconds)"
            )
        if code == -signal.SIGKILL:
            return "the parsing process was killed (SIGKILL), most likely because the machine ran out of memory"
        if code < 0:
            return f"the parser crashed ({signal.Signals(-code).name})"
        return f"the parsing process ended (exit code {code})"


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    connection.close()
    process.kill()
    process.wait()


# The child takes the caller's import path before it imports anything of quire.
_CHILD = """
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
sys.path[:] = connection.recv()
from rag.parse.worker import serve
serve(connection)
"""
