"""The ZIP archive that every Office file is: opened only where it is whole, in clear, and of a bearable size."""

import io
import zipfile

from rag.errors import ParseError

_MAX_PARTS = 20_000
_MAX_RATIO = 200  # unpacked to packed, of a part; office files reach 30
_SMALL_PART = 10_000_000  # bytes unpacked, below which the ratio says nothing
_MIB = 1 << 20


def open_package(uri: str, content: bytes, max_unpacked_mb: int) -> zipfile.ZipFile:
    """The archive. Raises ParseError where it is damaged, protected by a password, or would unpack to too much."""
    try:
        package = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise ParseError(uri, f"damaged: not readable as an Office file ({error})") from error
    parts = package.infolist()
    if any(part.flag_bits & 1 for part in parts):
        raise ParseError(uri, "encrypted: parts of the archive need a password")
    if len(parts) > _MAX_PARTS:
        raise ParseError(uri, f"too large: {len(parts):,} parts in the archive, the limit is {_MAX_PARTS:,}")
    unpacked = sum(part.file_size for part in parts)
    if unpacked > max_unpacked_mb * _MIB:
        raise ParseError(
            uri,
            f"too large: unpacks to {unpacked // _MIB:,} MB, the limit is {max_unpacked_mb:,} (parse.max_unpacked_mb)",
        )
    for part in parts:
        if part.file_size > _SMALL_PART and part.file_size > _MAX_RATIO * max(part.compress_size, 1):
            ratio = part.file_size // max(part.compress_size, 1)
            raise ParseError(uri, f"a ZIP bomb: {part.filename} unpacks to {ratio:,} times its size")
    return package
