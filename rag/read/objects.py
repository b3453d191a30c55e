"""A listed object -> its bytes."""

from pathlib import Path

from rag.config import SourcesConfig
from rag.data import RawDocument, SourceObject
from rag.errors import ParseError
from rag.ids import digest


def read_object(source: SourceObject, config: SourcesConfig) -> RawDocument:
    """The object's bytes with their hash. Raises ParseError where they can't be had, or are too many to hold."""
    content = source.row.encode() if source.row is not None else _read_file(source, config.max_document_bytes)
    if not content:
        raise ParseError(source.uri, "empty file: zero bytes")
    return RawDocument(content, digest(content), source.metadata)


def _read_file(source: SourceObject, max_bytes: int) -> bytes:
    try:
        with Path(source.path).open("rb") as file:
            # Asked of the open file: it may have grown since it was listed.
            size_bytes = file.seek(0, 2)
            if size_bytes > max_bytes:
                raise ParseError(source.uri, f"too large: {size_bytes:,} bytes, the limit is {max_bytes:,}")
            file.seek(0)
            return file.read(max_bytes)
    except FileNotFoundError as error:
        raise ParseError(source.uri, "deleted between listing and reading") from error
    except PermissionError as error:
        raise ParseError(source.uri, "permission denied") from error
    except OSError as error:
        raise ParseError(source.uri, f"can't be read: {error.strerror or error}") from error
