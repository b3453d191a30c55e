"""Pairs are read from both formats, split by document and sampled evenly."""

import gzip
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from rag.errors import InputError
from rag.train.pairs import TrainingPair, read_pairs, sample_pairs, split_pairs
from rag.train.synthesize import SyntheticQuestion
from tests.conftest import SHARED_DATA


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def pair(name: str, source: str = "s", document: str = "") -> TrainingPair:
    return TrainingPair(f"question {name}", f"passage {name}", source, document or name, f"passage {name}")


def test_a_folder_of_pairs_is_read_without_the_sources_that_are_left_out(tmp_path: Path) -> None:
    row: dict[str, object] = {"question": " Who? ", "passage": "Ann.", "title": "Some_Title", "source": "a"}
    write(tmp_path / "a.jsonl.gz", [row, row])
    write(tmp_path / "policyqa.jsonl", [{"question": "What?", "passage": "This."}])
    assert read_pairs([tmp_path]) == [TrainingPair("Who?", "Ann.", "a", "some title", "Ann.")]
    assert [found.source for found in read_pairs([tmp_path], leave_out=())] == ["a", "policyqa"]
    with pytest.raises(InputError, match=r"no pairs .*left out: a, policyqa"):
        read_pairs([tmp_path], leave_out=("a", "policyqa"))


def test_synthesized_rows_are_read_without_the_heading_that_gave_the_question(tmp_path: Path) -> None:
    row = SyntheticQuestion(
        question="travel policy",
        answer="an answer",
        positive="Travel policy\nBook early.",
        positive_masked="Book early.",
        chunk_id="c1",
        document_id="d1",
        uri="u",
        tenant="t",
        groups=("g",),
        source="rules",
        rule="heading_query",
        model="",
        prompt_version="",
        rank=1,
    )
    found = read_pairs([write(tmp_path / "rows.jsonl", [asdict(row)])])
    assert found == [TrainingPair("travel policy", "Book early.", "synthetic-rules", "d1", "c1")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"question": "Q"}\n', "1: expected a question and a passage"),
        (b'\n{"question": "Q", "passage": 3}\n', "2: expected a question and a passage"),
        (b"[]\n", "1: expected a question and a passage"),
        (b"{\n", "not JSON lines"),
        (b"", "no pairs"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_pairs([path])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl: no such file or folder"):
        read_pairs([tmp_path / "none.jsonl"])


def test_the_sides_share_no_document_no_question_and_no_passage() -> None:
    pairs = [pair(str(n), document=f"document {n // 3}") for n in range(600)]
    twins = [TrainingPair(p.question, f"other {p.passage}", "t", f"twin {p.document}", p.passage) for p in pairs]
    train, dev = split_pairs([*pairs, *twins], 0.2, seed=1)
    assert 0.1 < len(dev) / 1_200 < 0.3
    for name in ("document", "asked", "chunk"):
        assert not {getattr(p, name) for p in train} & {getattr(p, name) for p in dev}
    assert split_pairs(pairs, 0.2, seed=2)[1] != split_pairs(pairs, 0.2, seed=1)[1]


def test_a_sample_takes_as_many_of_each_source_as_there_are() -> None:
    pairs = [pair(f"a{n}", "a") for n in range(50)] + [pair(f"b{n}", "b") for n in range(3)]
    found = sample_pairs(pairs, 10, seed=0)
    assert [p.source for p in found].count("b") == 3
    assert len(set(found)) == 10
    assert found == sample_pairs(list(reversed(pairs)), 10, seed=0) != sample_pairs(pairs, 10, seed=1)


@pytest.mark.shared_data
def test_the_shared_pairs_leave_out_what_asks_for_research_use() -> None:
    pairs = read_pairs([SHARED_DATA / "qa-pairs"])
    assert len({p.source for p in pairs}) == 8
    assert 49_000 < len(pairs) < 50_000
