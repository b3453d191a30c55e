"""A parser that does to its process what hostile files do to native code, as told by the document's bytes."""

import os
import signal
import time

from rag.data import Document, RawDocument
from rag.errors import ModelError, ParseError
from rag.ids import document_id


class FaultyParser:
    """Does what the bytes say; the document of any others holds the id of the process as its hash."""

    def parse(self, raw: RawDocument) -> Document:
        match "%PDF-loop" if raw.content.endswith(b"loop") else raw.content.decode():
            case "%PDF-crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "%PDF-killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "%PDF-exit":
                os._exit(3)
            case "%PDF-hang":
                time.sleep(600)
            case "%PDF-loop":
                while True:
                    pass
            case "%PDF-memory":
                raise ParseError("wrapped", "damaged") from _allocation_failure()
            case "%PDF-model":
                raise ModelError("no model")
        return Document(document_id("t", raw.metadata.uri), str(os.getpid()), raw.metadata, ())


def _allocation_failure() -> MemoryError:
    try:
        bytearray(1 << 40)
    except MemoryError as error:
        return error
    raise AssertionError("a terabyte was allocated")
