import codecs

import pytest

from rag.errors import ParseError
from rag.parse.media_type import HTML, MARKDOWN, PDF, PLAIN, decode_text, detect_media_type
from tests.rag.parse.parsing import raw_document


@pytest.mark.parametrize(
    ("uri", "content", "expected"),
    [
        ("a.md", b"# x", MARKDOWN),
        ("a.MARKDOWN", b"# x", MARKDOWN),
        ("a.htm", b"<p>x", HTML),
        ("a.txt", b"<html>", PLAIN),
        ("README", b"text", PLAIN),
        ("page", b" <!DOCTYPE html><p>x", HTML),
        ("report", b"%PDF-1.7 ...", PDF),
        ("report.txt", b"%PDF-1.7 ...", PDF),
        ("a.md", b"The file begins with %PDF-1.7", MARKDOWN),
        ("late.pdf", b"junk" * 20 + b"%PDF-1.7", PDF),
    ],
)
def test_bytes_and_name_decide_together(uri: str, content: bytes, expected: str) -> None:
    assert detect_media_type(raw_document(content, uri)) == expected


@pytest.mark.parametrize(
    ("uri", "content", "reason"),
    [
        ("a.md", b"PK\x03\x04rest", "ZIP"),
        ("a.pdf", b"\xff\xd8\xff\xe0", "not a PDF.*JPEG"),
        ("a.pdf", b"<html>", "not a PDF.*<html>"),
    ],
)
def test_bytes_that_contradict_the_name_are_an_error(uri: str, content: bytes, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        detect_media_type(raw_document(content, uri))


@pytest.mark.parametrize(
    "content",
    [
        "é\r\nx\ry".encode(),
        codecs.BOM_UTF8 + "é\nx\ny".encode(),
        "é\nx\ny".encode("utf-16"),
        codecs.BOM_UTF16_BE + "é\nx\ny".encode("utf-16-be"),
        "é\nx\ny".encode("utf-32"),
    ],
)
def test_marked_encodings_are_read_and_line_ends_unified(content: bytes) -> None:
    assert decode_text(raw_document(content, "a.md")) == "é\nx\ny"


def test_nul_bytes_are_no_text() -> None:
    with pytest.raises(ParseError, match="NUL bytes, the first at offset 2"):
        decode_text(raw_document(b"ab\x00", "a.md"))


@pytest.mark.parametrize(("content", "offset"), [(b"abc\xe9def", "3"), (codecs.BOM_UTF8 + b"ab\xff", "5")])
def test_an_invalid_byte_is_named_with_its_offset(content: bytes, offset: str) -> None:
    with pytest.raises(ParseError, match=f"invalid byte 0x.. at offset {offset};"):
        decode_text(raw_document(content, "a.md"))


def test_a_cut_off_utf16_file_is_an_error() -> None:
    with pytest.raises(ParseError, match="not UTF-16"):
        decode_text(raw_document("ab".encode("utf-16")[:-1], "a.md"))
