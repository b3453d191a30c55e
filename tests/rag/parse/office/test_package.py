"""Archives that are no Office file, or not one to be opened."""

import io
import zipfile

import pytest

from rag.errors import ParseError
from rag.parse.office.package import open_package
from tests.rag.parse.parsing import parse


def archive(**parts: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return target.getvalue()


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(ParseError, match=r"unpacks to 2 MB, the limit is 1 \(parse.max_unpacked_mb\)"):
        open_package("a.docx", archive(part=bytes(2 << 20)), max_unpacked_mb=1)
    with pytest.raises(ParseError, match=r"a ZIP bomb: part unpacks to .* times its size"):
        open_package("a.docx", archive(part=bytes(20 << 20)), max_unpacked_mb=500)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (archive(readme=b"x"), "a ZIP archive that holds no Office file"),
        (b"\xd0\xcf\x11\xe0" + bytes(512), "of the format before 2007; save it as DOCX"),
        (b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"), "encrypted: the Office file needs a password"),
        (b"plain text", "not an Office file: it begins with b'plain te'"),
        (b"", "empty file"),
        (archive(**{"word/document.xml": b"<not"}), "can't be parsed"),
    ],
)
def test_what_can_not_be_read_says_why(content: bytes, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse(content, "a.docx")
