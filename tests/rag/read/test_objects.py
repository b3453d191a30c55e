from dataclasses import replace
from pathlib import Path

import pytest

from rag.config import SourcesConfig
from rag.data import SourceObject
from rag.errors import ParseError
from rag.ids import digest
from rag.read.objects import read_object
from rag.read.sources import list_sources

CONFIG = SourcesConfig(max_document_bytes=10)


def source_of(path: Path) -> SourceObject:
    (found,) = list_sources(path, CONFIG)
    assert isinstance(found, SourceObject)
    return found


def test_the_bytes_written_are_the_bytes_read(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"caf\xc3\xa9 \x00\r\n")
    raw = read_object(source_of(path), CONFIG)
    assert raw.content == b"caf\xc3\xa9 \x00\r\n"
    assert raw.content_hash == digest(raw.content)


def test_a_row_is_read_from_the_listing(tmp_path: Path) -> None:
    source = SourceObject("x.jsonl#1", "/nowhere", "w", 9, source_of_text(tmp_path).metadata, '{"id": 1}')
    assert read_object(source, CONFIG).content == b'{"id": 1}'


def source_of_text(tmp_path: Path, text: str = "hello") -> SourceObject:
    path = tmp_path / "a.md"
    path.write_text(text)
    return source_of(path)


def test_a_file_deleted_since_the_listing_is_said_to_be(tmp_path: Path) -> None:
    source = source_of_text(tmp_path)
    Path(source.path).unlink()
    with pytest.raises(ParseError, match="deleted between listing and reading"):
        read_object(source, CONFIG)


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="empty file"):
        read_object(source_of_text(tmp_path, ""), CONFIG)


def test_size_and_limit_are_named_though_the_listing_saw_a_small_file(tmp_path: Path) -> None:
    source = source_of_text(tmp_path)
    with Path(source.path).open("wb") as file:
        file.truncate(200_000_000)  # sparse: nothing of it may be read
    with pytest.raises(ParseError, match=r"200,000,000 bytes, the limit is 10"):
        read_object(source, CONFIG)


def test_a_file_that_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of_text(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # tests may run as root, who is refused nothing
    with pytest.raises(ParseError, match="permission denied"):
        read_object(source, CONFIG)


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    source = replace(source_of_text(tmp_path), path=str(tmp_path))
    with pytest.raises(ParseError, match="can't be read"):
        read_object(source, CONFIG)
