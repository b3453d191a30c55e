"""A collection on disk is read as it was written."""

import gzip
import json
from pathlib import Path

import pytest

from rag.errors import InputError
from rag.evaluate.beir import CorpusDocument, JudgedQuery, read_collection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = [{"_id": "d1", "title": "Leave", "text": "30 days ä"}, {"_id": "d2", "text": ""}]
    queries = [
        {"_id": "q1", "text": "how long?", "metadata": {"n": 1}},
        {"_id": "q2", "text": "no"},
        {"_id": "q3", "text": "x"},
    ]
    with gzip.open(tmp_path / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in documents)
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries), encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    rows = ["query-id\tcorpus-id\tscore", "q1\td1\t2", "q1\td2\t0", "q2\td1\t0"]
    (tmp_path / "qrels" / "test.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def test_documents_keep_their_order_and_may_lack_a_title(folder: Path) -> None:
    documents = read_collection(folder).documents
    assert documents == (CorpusDocument("d1", "Leave", "30 days ä"), CorpusDocument("d2", "", ""))


def test_queries_without_anything_relevant_are_left_out(folder: Path) -> None:
    assert read_collection(folder).queries == (JudgedQuery("q1", "how long?", {"d1": 2, "d2": 0}),)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").unlink()
    with pytest.raises(InputError, match=r"test\.tsv: no such file"):
        read_collection(folder)


def test_a_broken_line_is_named_with_its_number(folder: Path) -> None:
    with (folder / "qrels" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("q1\td1\n")
    with pytest.raises(InputError, match="line 5"):
        read_collection(folder)
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "a"}\n{"text": "b"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line"):
        read_collection(folder)
