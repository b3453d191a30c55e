"""The comparison of the chunkers, with cheap parts on a few pages."""

import gzip
import json
from pathlib import Path

import pytest

from bench.chunkers import CHUNKERS, Section, Shown, handbook_figures, ndcg, page_of, read_handbook, with_chunker
from rag.config import RagConfig
from rag.embed.hashing import HashingEmbedder
from rag.evaluate.beir import CorpusDocument

PROSE = " ".join(f"The {word} is kept in the {word} room of the house." for word in ("badge", "bicycle", "umbrella"))
PARTS = (
    CorpusDocument("travel#0", "Travel", "How to travel."),
    CorpusDocument("travel#1", "Travel > Trains", "Book early.\n\n- first\n- second"),
    CorpusDocument("travel#2", "Travel > Trains > Refunds", "Within 30 days."),
    CorpusDocument("travel#3", "Travel > Planes", ""),
    CorpusDocument("house#0", "House", PROSE),
    CorpusDocument("house#1", "House > Lunch", "The canteen opens at noon."),
    CorpusDocument("other#0", "Other", "Nothing of note. " * 20),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"_id": part.id, "title": part.title, "text": part.text} for part in PARTS]
    with gzip.open(tmp_path / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "When does the canteen open at noon?"}\n')
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\thouse#1\t1\n")
    return tmp_path


def config() -> RagConfig:
    return RagConfig.model_validate(
        {"store": "s", "var": "v", "models": "m", "embed": {"embedder": "hashing"}, "chunk": {"max_tokens": 64}}
    )


def shown(start: int, end: int, uri: str = "p") -> Shown:
    return Shown(uri, start, end, "")


def test_every_chunker_finds_the_section_of_a_plain_question(folder: Path) -> None:
    handbook = read_handbook(folder, None)
    for name in CHUNKERS:
        figures = handbook_figures(handbook, with_chunker(config(), name), HashingEmbedder())
        assert figures["fused ndcg@10"] == figures["answerability"] == 1.0
        assert 3 < figures["chunks"] < figures["tokens of 10"] < figures["tokens"]


def test_a_smaller_handbook_keeps_the_judged_pages(folder: Path) -> None:
    assert [page.metadata.uri for page in read_handbook(folder, 0).pages] == ["house"]
    assert len(read_handbook(folder, 1).pages) == 2
    assert [page.metadata.uri for page in read_handbook(folder, None).pages] == ["travel", "house", "other"]


def test_a_page_has_its_sections_below_their_headings_and_knows_where_they_lie() -> None:
    page, sections = page_of("travel", PARTS[:4])
    assert [(block.kind, block.level, block.text) for block in page.blocks] == [
        ("paragraph", 0, "How to travel."),
        ("heading", 2, "Trains"),
        ("paragraph", 0, "Book early."),
        ("list", 0, "- first\n- second"),
        ("heading", 3, "Refunds"),
        ("paragraph", 0, "Within 30 days."),
        ("heading", 2, "Planes"),
    ]
    assert {name: page.text[s.start : s.end] for name, s in sections.items()} == {
        "travel#0": "How to travel.",
        "travel#1": "Book early.\n\n- first\n- second",
        "travel#2": "Within 30 days.",
    }


@pytest.mark.parametrize(
    ("start", "end", "found", "whole"),
    [
        (100, 200, True, True),
        (0, 1_000, True, True),  # a large chunk around the section
        (120, 140, True, False),  # a small one inside
        (150, 250, True, False),  # half of it
        (160, 260, False, False),
        (300, 400, False, False),
    ],
)
def test_a_chunk_finds_a_section_that_it_covers_by_half_or_lies_in_by_half(
    start: int, end: int, found: bool, whole: bool
) -> None:
    section = Section("p", 100, 200)
    assert section.found_in(shown(start, end)) == found
    assert section.whole_in(shown(start, end)) == whole
    assert not section.found_in(shown(start, end, "other page"))


def test_ndcg_counts_each_section_at_its_first_rank() -> None:
    needs = [Section("p", 0, 10), Section("p", 50, 60)]
    assert ndcg(needs, [shown(0, 10), shown(50, 60)]) == pytest.approx(1.0)
    assert ndcg(needs[:1], [shown(50, 60), shown(0, 10), shown(0, 10)]) == pytest.approx(0.63093, abs=1e-5)
    assert ndcg(needs, []) == 0.0
    assert ndcg(needs, [shown(0, 60)]) == 1.0
