"""Files of the index: written so that a crash leaves the old bytes or the new ones, and checked when read."""

import hashlib
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from rag.errors import IndexDamaged

_parsing_header = threading.Lock()


class Record(BaseModel):
    """A part of the manifest: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FileInfo(Record):
    """What a file must hold to be the one that was written."""

    checksum: str  # BLAKE2b, 16 bytes, hex
    size_bytes: int


def checksum(content: bytes) -> FileInfo:
    """The info of a file with this content."""
    return FileInfo(checksum=hashlib.blake2b(content, digest_size=16).hexdigest(), size_bytes=len(content))


def checksum_file(path: Path) -> FileInfo:
    """The info of the file as it is."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
        return FileInfo(checksum=digest.hexdigest(), size_bytes=file.tell())


def check_file(path: Path, expected: FileInfo, verify: bool) -> None:
    """Raises IndexDamaged when the file is missing or of another size, and with `verify` of another content."""
    try:
        size_bytes = path.stat().st_size
        if size_bytes != expected.size_bytes:
            raise IndexDamaged(path, f"has {size_bytes} bytes, expected {expected.size_bytes}")
        if verify and checksum_file(path) != expected:
            raise IndexDamaged(path, f"does not have the checksum {expected.checksum} that was recorded")
    except OSError as error:
        raise IndexDamaged(path, f"not readable: {error.strerror}") from error


def read_checked(path: Path, expected: FileInfo) -> bytes:
    """The content of the file. Raises IndexDamaged when it is missing or not the one that was written."""
    check_file(path, expected, verify=True)
    return path.read_bytes()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Names the file in whatever goes wrong while a library reads it."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, RuntimeError) as error:  # arrow's errors are ValueErrors
        raise IndexDamaged(path, f"not readable: {error}") from error


def mapped_array(path: Path) -> npt.NDArray[Any]:  # Any: the dtype that the file says
    """The array in a .npy file, mapped into memory; a plain one, since a numpy.memmap is slow to give rows.

    Safe to call from several threads. Raises IndexDamaged.
    """
    # numpy parses the header with `ast`, which fails now and then in Python 3.11 where two threads are at it.
    with reading(path), _parsing_header:
        return np.asarray(np.load(path, mmap_mode="r"))


def write_atomically(path: Path, content: bytes) -> None:
    """Puts the content under the name in one step: a reader sees all of it or what was there before."""
    temporary = temporary_sibling(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def temporary_sibling(path: Path) -> Path:
    """A name beside the path that no one else uses."""
    return path.with_name(f".tmp-{uuid.uuid4().hex}")


def sync(path: Path) -> None:
    """Waits until the file, or the names in the folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
