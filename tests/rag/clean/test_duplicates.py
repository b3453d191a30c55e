from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.clean.duplicates import Duplicate, Signature, find_duplicates, sign
from rag.config import CleanConfig
from rag.data import Access, Authority, Block, Document, DocumentMetadata
from rag.ids import DocumentId, document_id

CONFIG = CleanConfig()
WORDS = [f"{a}{b}" for a in ("travel", "leave", "badge", "garden", "kitchen") for b in ("", "s", "ing", "er", "able")]
LONG = " ".join(f"the {WORDS[(at * at + 3 * at) % len(WORDS)]} {WORDS[at * 7 % len(WORDS)]}" for at in range(60))


def make(
    uri: str,
    text: str,
    *,
    title: str = "Rules",
    groups: tuple[str, ...] = ("staff",),
    year: int = 2024,
    authority: Authority = "reference",
) -> Document:
    metadata = DocumentMetadata(
        uri, title, Access("acme", groups), updated_at=datetime(year, 1, 1, tzinfo=UTC), authority=authority
    )
    return Document(document_id("acme", uri), "hash", metadata, (Block("paragraph", text),))


def duplicates(*documents: Document, config: CleanConfig = CONFIG) -> dict[str, str]:
    """Uri of each document that is left out -> uri of what stands in for it."""
    uris = {document.id: document.metadata.uri for document in documents}
    signatures = {document.id: made for document in documents if (made := sign(document, config))}
    found = find_duplicates(signatures, uris, config.min_similarity)
    return {uris[duplicate.document_id]: uris[duplicate.kept] for duplicate in found.values()}


def test_of_equal_texts_the_newest_is_kept_whatever_the_layout() -> None:
    assert duplicates(make("old.md", "One two.", year=2020), make("new.md", "One\n two.")) == {"old.md": "new.md"}


def test_a_binding_copy_is_kept_over_a_newer_one() -> None:
    documents = [make("a.md", LONG, year=2020, authority="policy"), make("b.md", LONG), make("c.md", LONG)]
    assert duplicates(*documents) == {"b.md": "a.md", "c.md": "a.md"}


def test_a_text_with_a_few_other_words_is_near_and_one_with_many_is_not() -> None:
    near = LONG.replace("the garden kitchens", "the gardens kitchens", 1)
    assert duplicates(make("a.md", LONG), make("b.md", f"{near} and so on")) == {"b.md": "a.md"}
    assert duplicates(make("a.md", LONG), make("b.md", f"{LONG} {LONG[::-1]}")) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("You get 25 days.", "You get 30 days."),
        ("You may carry days over.", "You may not carry days over."),
        ("Ask the office in Zurich.", "Ask the office in Geneva."),
        ("Write to ERR_4031.", "Write to ERR_4032."),
        ("Rooms with x > 5.", "Rooms with x < 5."),
        ("Zone A is 12 and zone B is 15.", "Zone A is 15 and zone B is 12."),
        ("Do not smoke. You may eat here.", "Do not smoke. You may not eat here."),
    ],
)
def test_texts_that_differ_in_a_fact_are_both_kept(one: str, other: str) -> None:
    assert duplicates(make("a.md", f"{LONG}. {one}"), make("b.md", f"{LONG}. {other}")) == {}


def test_texts_under_different_titles_are_both_kept_unless_the_title_is_the_name_of_the_file() -> None:
    titled = [make(f"{city}.md", LONG, title=f"Parking in {city}") for city in ("Zurich", "Geneva")]
    assert duplicates(*titled) == {}
    named = [make(f"{name}.pdf", LONG, title=name) for name in ("report", "report (1)")]
    assert duplicates(*named) == {"report.pdf": "report (1).pdf"}


def test_copies_with_other_readers_are_both_kept() -> None:
    assert duplicates(make("a.md", LONG), make("b.md", LONG, groups=("hr", "staff"))) == {}


def test_near_ones_are_kept_where_only_exact_ones_are_looked_for_and_all_where_none_are() -> None:
    near = make("b.md", f"{LONG} and so on")
    documents = [make("a.md", LONG), near, make("c.md", LONG)]
    assert duplicates(*documents, config=CleanConfig(duplicates="exact")) == {"c.md": "a.md"}
    assert duplicates(*documents, config=CleanConfig(duplicates="off")) == {}


def test_the_limit_of_similarity_is_the_one_configured() -> None:
    documents = [make("a.md", LONG), make("b.md", LONG.replace("travel ", "trip ", 6))]
    assert duplicates(*documents, config=CleanConfig(min_similarity=1.0)) == {}
    assert duplicates(*documents, config=CleanConfig(min_similarity=0.6)) == {"b.md": "a.md"}


signatures = st.builds(
    Signature,
    readers=st.sampled_from("rs"),
    text_hash=st.sampled_from("abcdef"),
    facts_hash=st.just("f"),
    minhash=st.sampled_from([bytes([value]) * 512 for value in (1, 2, 3)]),
    authority=st.integers(0, 2),
    updated_at=st.integers(0, 3),
)


@settings(deadline=None)
@given(made=st.lists(signatures, max_size=8), seed=st.randoms())
def test_what_is_kept_is_kept_and_has_the_same_readers_in_any_order(made: list[Signature], seed: object) -> None:
    named = {DocumentId(f"d{at}"): signature for at, signature in enumerate(made)}
    uris = dict(zip(named, named, strict=True))
    found = find_duplicates(named, uris, 0.9)
    for name, duplicate in found.items():
        assert duplicate.kept not in found
        assert named[duplicate.kept].readers == named[name].readers
        assert isinstance(duplicate, Duplicate)
    kept = [named[name] for name in named if name not in found]
    assert len({(s.readers, s.text_hash) for s in kept}) == len({(s.readers, s.minhash) for s in kept}) == len(kept)
    shuffled = list(named.items())
    seed.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis' random
    assert find_duplicates(dict(shuffled), uris, 0.9) == found


def test_a_document_without_words_has_no_signature() -> None:
    assert sign(replace(make("a.md", ""), blocks=()), CONFIG) is None


def test_a_signature_comes_back_from_its_bytes() -> None:
    for text in (LONG, "Short."):
        made = sign(make("a.md", text), CONFIG)
        assert made is not None
        assert Signature.from_bytes(made.to_bytes()) == made
        assert len(made.to_bytes()) in (57, 569)
