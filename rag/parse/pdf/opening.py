"""Opening a PDF: the right reason where it can't be, and the password where one is configured."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import pymupdf
from pydantic import SecretStr

from rag.errors import ParseError
from rag.parse.pdf.contents import Bookmark

# Neither damaged files nor missing fonts are written to stderr: the first raise ParseError, the second say nothing.
pymupdf.TOOLS.mupdf_display_errors(False)
pymupdf.TOOLS.mupdf_display_warnings(False)

_SIGNATURES = {
    b"\xff\xd8\xff": "a JPEG image",
    b"\x89PNG": "a PNG image",
    b"GIF8": "a GIF image",
    b"PK\x03\x04": "a ZIP archive or an Office file",
    b"\xd0\xcf\x11\xe0": "an old Office file",
    b"{\\rtf": "an RTF file",
    b"<!DOCTYPE": "an HTML page",
    b"<html": "an HTML page",
}


def open_pdf(
    uri: str, content: bytes, passwords: Mapping[str, SecretStr] | Sequence[SecretStr] = ()
) -> pymupdf.Document:
    """The open document. `passwords` are by globs over the uri, of which all that match are tried, or for any document.

    Raises ParseError with a reason for its owner: empty, another format, damaged, encrypted.
    """
    if not content:
        raise ParseError(uri, "damaged: the file is empty (0 bytes)")
    if b"%PDF" not in content[:1024]:
        kind = next((name for start, name in _SIGNATURES.items() if content.startswith(start)), "")
        if kind:
            raise ParseError(uri, f"damaged: not a PDF but {kind} under its name")
    try:
        pdf = pymupdf.open(stream=content, filetype="pdf")
    except Exception as error:  # FileDataError, EmptyFileError and mupdf's own errors share no base
        raise ParseError(uri, f"damaged: not readable as a PDF ({error})") from error
    if pdf.needs_pass:
        if isinstance(passwords, Mapping):
            fitting = [password for pattern, password in passwords.items() if fnmatchcase(uri, pattern)]
        else:
            fitting = list(passwords)
        if not any(pdf.authenticate(password.get_secret_value()) for password in fitting):
            pdf.close()
            tried = f"none of the {len(fitting)} configured opens it" if fitting else "none is configured for it"
            raise ParseError(uri, f"encrypted: needs a password, and {tried}")
    return pdf


def count_pages(uri: str, pdf: pymupdf.Document, max_pages: int) -> int:
    """The number of pages, at least 1. Raises ParseError where there are none, or more than `max_pages`."""
    try:
        num_pages = int(pdf.page_count)
    except Exception as error:  # as above
        raise ParseError(uri, f"damaged: its page tree can't be read ({error})") from error
    if not num_pages:
        raise ParseError(uri, "damaged: the PDF has no pages, or is cut off")
    if num_pages > max_pages:
        raise ParseError(uri, f"too long: {num_pages:,} pages, the limit is {max_pages:,}")
    return num_pages


def bookmarks(pdf: pymupdf.Document) -> list[Bookmark]:
    """The entries of the document's outline; none where it has none or is damaged."""
    try:
        return [Bookmark(int(level), str(title), max(int(page), 0)) for level, title, page in pdf.get_toc(simple=True)]
    except Exception:  # a broken outline costs the levels that it would have given, not the document
        return []
