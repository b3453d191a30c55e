import pickle
from pathlib import Path

import pytest

from rag.config import ParseConfig, SourcesConfig
from rag.data import SourceObject
from rag.errors import ParseError
from rag.ids import document_id
from rag.parse.parser import DocumentParser
from rag.read.objects import read_object
from rag.read.sources import list_sources
from tests.rag.parse.parsing import parse

SHARED = Path(__file__).parents[4] / "shared" / "data"


def test_the_id_comes_from_tenant_and_uri_and_the_hash_from_the_bytes() -> None:
    first, second = parse("one", "a.md"), parse("two", "a.md")
    assert first.id == second.id == document_id("t", "a.md")
    assert first.content_hash != second.content_hash


def test_whatever_a_format_raises_is_a_parse_error_that_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("rag.parse.parser.parse_markdown", fail)
    with pytest.raises(ParseError, match="RecursionError: too deep") as caught:
        parse("x")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_deeply_nested_text_is_parsed_or_refused() -> None:
    for text, uri in [("> " * 5_000 + "x", "a.md"), ("- " * 5_000 + "x", "a.md"), ("<div>" * 5_000 + "x", "a.html")]:
        try:
            found = parse(text, uri).text
        except ParseError as error:
            found = error.reason
        assert found


@pytest.mark.shared_data
@pytest.mark.parametrize(("wiki", "num_pages"), [("wiki-18f", 238), ("wiki-sourcegraph", 868)])
def test_every_page_of_a_real_wiki_parses(wiki: str, num_pages: int) -> None:
    sources = SourcesConfig()
    parser = DocumentParser(ParseConfig(), sources)
    listed = [item for item in list_sources(SHARED / wiki / "pages", sources) if isinstance(item, SourceObject)]
    documents = [parser.parse(read_object(source, sources)) for source in listed]
    assert len(documents) == num_pages
    assert all(document.metadata.title for document in documents)
