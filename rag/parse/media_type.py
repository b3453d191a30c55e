"""Bytes and a name -> what they are, and text out of the ones that are text."""

import codecs
from pathlib import PurePosixPath

from rag.data import RawDocument
from rag.errors import ParseError

MARKDOWN, HTML, PLAIN, PDF = "text/markdown", "text/html", "text/plain", "application/pdf"
CSV, TSV = "text/csv", "text/tab-separated-values"
_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX, PPTX, XLSX = (
    f"{_OFFICE}wordprocessingml.document", f"{_OFFICE}presentationml.presentation", f"{_OFFICE}spreadsheetml.sheet",
)  # fmt: skip
PNG, JPEG, TIFF, WEBP, GIF = "image/png", "image/jpeg", "image/tiff", "image/webp", "image/gif"
ROW_MEDIA_TYPE = "application/json"
UNKNOWN = "application/octet-stream"
TEXT_MEDIA_TYPES = frozenset({MARKDOWN, HTML, PLAIN, CSV, TSV, ROW_MEDIA_TYPE})
PICTURE_MEDIA_TYPES = frozenset({PNG, JPEG, TIFF, WEBP, GIF})
OFFICE_MEDIA_TYPES = frozenset({DOCX, PPTX, XLSX})

_BY_SUFFIX = {
    ".md": MARKDOWN, ".markdown": MARKDOWN, ".html": HTML, ".htm": HTML, ".xhtml": HTML,
    ".txt": PLAIN, ".text": PLAIN, ".rst": PLAIN, ".pdf": PDF, "": UNKNOWN,
    ".csv": CSV, ".tsv": TSV, ".tab": TSV,
    ".docx": DOCX, ".docm": DOCX, ".dotx": DOCX, ".pptx": PPTX, ".pptm": PPTX, ".ppsx": PPTX, ".potx": PPTX,
    ".xlsx": XLSX, ".xlsm": XLSX, ".xltx": XLSX,
    ".png": PNG, ".jpg": JPEG, ".jpeg": JPEG, ".tif": TIFF, ".tiff": TIFF, ".webp": WEBP, ".gif": GIF,
}  # fmt: skip
_SAVE_AS = {".doc": "DOCX", ".dot": "DOCX", ".rtf": "DOCX", ".odt": "DOCX", ".xls": "XLSX", ".xlsb": "XLSX",
            ".ods": "XLSX", ".ppt": "PPTX", ".pps": "PPTX", ".odp": "PPTX"}  # fmt: skip

_PICTURE_SIGNATURES = (
    (b"\x89PNG", PNG),
    (b"\xff\xd8\xff", JPEG),
    (b"GIF8", GIF),
    (b"II*\x00", TIFF),
    (b"MM\x00*", TIFF),
)
_ZIP, _OLD_OFFICE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")  # the stream in which Office keeps a protected file
_MAIN_PARTS = ((b"word/document.xml", DOCX), (b"ppt/presentation.xml", PPTX), (b"xl/workbook.xml", XLSX))
_BINARY_SIGNATURES = (
    (_ZIP, "a ZIP archive or an Office file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x1f\x8b", "a gzip archive"),
    (_OLD_OFFICE, "an old Office file"),
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


def why_not_read(uri: str) -> str:
    """For a name of no media type: why such files are not read, and what to do."""
    suffix = PurePosixPath(uri).suffix.lower()
    if format_name := _SAVE_AS.get(suffix):
        return f"files of the old type {suffix} are not read; save the file as {format_name}"
    if suffix == ".parquet":
        return "files of type .parquet are read where sources.exports says that their rows are documents"
    return f"files of type {suffix} are not read"


def detect_media_type(raw: RawDocument) -> str:
    """What the bytes are, by their beginning and their name. Raises ParseError where the two can't both be right."""
    uri, declared, content = raw.metadata.uri, raw.metadata.media_type, raw.content
    if declared == ROW_MEDIA_TYPE:
        return ROW_MEDIA_TYPE
    if not content:
        raise ParseError(uri, "empty file: zero bytes")
    if content[:64].lstrip().startswith(b"%PDF-") or (declared == PDF and b"%PDF-" in content[:1024]):
        return PDF
    if declared in PICTURE_MEDIA_TYPES or declared == UNKNOWN:
        if picture := _picture_type(content):
            return picture
        if declared != UNKNOWN:
            raise ParseError(uri, f"not a picture: the file begins with {content[:8]!r}")
    if declared in OFFICE_MEDIA_TYPES or declared == UNKNOWN:
        if office := _office_type(uri, content):
            return office
        if declared != UNKNOWN:
            raise ParseError(uri, f"not an Office file: it begins with {content[:8]!r}")
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


def _picture_type(content: bytes) -> str:
    """The format of a picture; "" for anything else."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return WEBP
    return next((name for start, name in _PICTURE_SIGNATURES if content.startswith(start)), "")


def _office_type(uri: str, content: bytes) -> str:
    """The format of an Office file; "" for what is none. Raises ParseError for one that can't be read as it is."""
    if content.startswith(_OLD_OFFICE):
        if _ENCRYPTED_PACKAGE in content:
            raise ParseError(uri, "encrypted: the Office file needs a password; save it without one")
        raise ParseError(uri, "an Office file of the format before 2007; save it as DOCX, PPTX or XLSX")
    if not content.startswith(_ZIP):
        return ""
    # The names of its parts stand in the archive's directory, uncompressed.
    found = next((name for part, name in _MAIN_PARTS if part in content), "")
    if not found:
        raise ParseError(uri, "a ZIP archive that holds no Office file; unpack it")
    return found


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
