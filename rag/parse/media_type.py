"""Bytes and a name -> what they are, and text out of the ones that are text."""

import codecs
from pathlib import PurePosixPath

from rag.data import RawDocument
from rag.errors import ParseError

MARKDOWN, HTML, PLAIN, PDF = "text/markdown", "text/html", "text/plain", "application/pdf"
ROW_MEDIA_TYPE = "application/json"
UNKNOWN = "application/octet-stream"

_BY_SUFFIX = {
    ".md": MARKDOWN, ".markdown": MARKDOWN, ".html": HTML, ".htm": HTML, ".xhtml": HTML,
    ".txt": PLAIN, ".text": PLAIN, ".rst": PLAIN, ".pdf": PDF, "": UNKNOWN,
}  # fmt: skip

_BINARY_SIGNATURES = (
    (b"PK\x03\x04", "a ZIP archive or an Office file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"),
    (b"\x7fELF", "a program"),
)
_BYTE_ORDER_MARKS = (  # UTF-32 first: its little-endian mark begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def guess_media_type(uri: str) -> str:
    """The media type that the name alone suggests; "" where such files are not read."""
    return _BY_SUFFIX.get(PurePosixPath(uri).suffix.lower(), "")


def detect_media_type(raw: RawDocument) -> str:
    """What the bytes are, by their beginning and their name. Raises ParseError where the two can't both be right."""
    uri, declared, content = raw.metadata.uri, raw.metadata.media_type, raw.content
    if declared == ROW_MEDIA_TYPE:
        return ROW_MEDIA_TYPE
    if content[:64].lstrip().startswith(b"%PDF-") or (declared == PDF and b"%PDF-" in content[:1024]):
        return PDF
    for signature, name in _BINARY_SIGNATURES:
        if content.startswith(signature):
            expected = "a PDF" if declared == PDF else "text"
            raise ParseError(uri, f"not {expected}: the file begins like {name}")
    if declared == PDF:
        raise ParseError(uri, f"not a PDF: no %PDF- in the first 1,024 bytes, which begin with {content[:8]!r}")
    if declared == UNKNOWN:
        beginning = content[:512].lstrip().lower()
        return HTML if beginning.startswith((b"<!doctype html", b"<html")) else PLAIN
    return declared


def decode_text(raw: RawDocument) -> str:
    """The text of the bytes: UTF-8, or what a byte order mark says; line ends become \\n.

    Raises ParseError naming the offset of the first byte that is no text. Other encodings are not guessed: a wrong
    guess would index wrong words without a sign of it.
    """
    uri, content = raw.metadata.uri, raw.content
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8")
    if encoding == "utf-8" and (offset := content.find(b"\0")) >= 0:
        raise ParseError(uri, f"not text: contains NUL bytes, the first at offset {offset:,}")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        byte = f"0x{content[error.start]:02x}" if error.start < len(content) else "end of file"
        reason = f"not {encoding.upper()}: invalid byte {byte} at offset {error.start:,}; save the file as UTF-8"
        raise ParseError(uri, reason) from error
    if "\0" in text:
        raise ParseError(uri, "not text: contains NUL characters")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
