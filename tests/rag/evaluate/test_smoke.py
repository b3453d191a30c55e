"""A version goes live only if it finds what the golden set asks for; which questions it can be asked is said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import rag.evaluate.smoke
from rag.config import RagConfig, SmokeConfig
from rag.errors import ConfigError
from rag.evaluate.smoke import SmokeResult, read_smoke_tasks, smoke_test
from rag.ids import VersionId
from rag.parts import build_embedder
from tests.rag.evaluate.libraries import Library, cheap_config, with_settings
from tests.rag.index.factories import TENANT, commit, make_chunk

SUBJECTS = ["leave", "parking", "badges", "travel", "laptops", "visitors", "payroll", "lockers"]


def chunk_of(subject: str, place: int) -> Any:  # Any: a chunk; its text holds words that no other chunk has
    return make_chunk(f"The rule on {subject} is number {place} of the handbook.", f"{subject}.md")


def write_golden(folder: Path, subjects: list[str]) -> Path:
    rows = [
        {
            "id": f"g{place}",
            "kind": "lookup",
            "question": f"What is the rule on {subject}?",
            "as": "ann",
            "history": [],
            "relevant": [{"document": f"{subject}.md", "span": f"The rule on {subject}"}],
            "answer": "",
            "must_include": [],
        }
        for place, subject in enumerate(subjects)
    ]
    rows.append({**rows[0], "id": "none", "relevant": []})
    path = folder / "golden.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    principals = [{"name": "ann", "tenant": TENANT, "groups": ["staff"]}]
    (folder / "principals.yaml").write_text(yaml.safe_dump({"principals": principals}), encoding="utf-8")
    return path


@pytest.fixture
def library(tmp_path: Path) -> Library:
    chunks = [chunk_of(subject, place) for place, subject in enumerate(SUBJECTS)]
    smoke = {"golden_file": write_golden(tmp_path, SUBJECTS), "k": 3}
    return Library(cheap_config(tmp_path, smoke=smoke), chunks)


async def smoke_of(library: Library, **settings: Any) -> SmokeResult:  # Any: settings of the smoke test
    config = with_settings(library.config, smoke=settings)
    return await smoke_test(config, library.version, read_smoke_tasks(config.smoke))


async def test_a_version_that_finds_everything_passes(library: Library) -> None:
    result = await smoke_of(library)
    assert result.passed
    assert result.figures == {"questions": 8, "recall@3": 1.0, "zero_result_share": 0.0, "indexed_share": 1.0}
    assert str(result) == "passed (questions 8, recall@3 1, zero_result_share 0, indexed_share 1)"


async def test_the_unanswerable_are_not_asked(library: Library) -> None:
    assert [task.id for task in read_smoke_tasks(library.config.smoke)] == [f"g{place}" for place in range(8)]


async def test_a_sample_is_asked_where_there_are_many(library: Library) -> None:
    assert (await smoke_of(library, max_questions=5)).figures["questions"] == 5


async def test_a_version_that_does_not_find_is_refused_and_says_why(tmp_path: Path) -> None:
    # The documents are there, and their words are not.
    chunks = [replace(chunk_of(subject, place), text=f"Nothing {place}.") for place, subject in enumerate(SUBJECTS)]
    library = Library(cheap_config(tmp_path, smoke={"golden_file": write_golden(tmp_path, SUBJECTS)}), chunks)
    result = await smoke_of(library)
    assert not result.passed
    assert result.reasons == ("recall@10 is 0.000, below smoke.min_recall 0.8",)
    assert str(result).startswith("FAILED: recall@10 is 0.000")


async def test_questions_that_find_nothing_are_counted(tmp_path: Path) -> None:
    hidden = [make_chunk(f"The rule on {subject}.", f"{subject}.md", groups=["board"]) for subject in SUBJECTS]
    library = Library(cheap_config(tmp_path, smoke={"golden_file": write_golden(tmp_path, SUBJECTS)}), hidden)
    result = await smoke_of(library, min_recall=0.0)
    assert result.reasons == ("100.0% of the questions find nothing, more than smoke.max_zero_result_share allows",)


async def test_documents_that_are_not_there_count_against_the_version_unless_told_otherwise(library: Library) -> None:
    write_golden(library.config.store, [*SUBJECTS, "gone", "lost"])
    result = await smoke_of(library)
    assert result.reasons == (
        "the version holds the documents of 8 of 10 questions, a share below smoke.min_indexed_share 0.9",
    )
    assert (await smoke_of(library, min_indexed_share=0.5)).passed


async def test_a_corpus_without_any_of_them_loads_no_model(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(config: RagConfig) -> None:
        raise AssertionError("an encoder was loaded")

    monkeypatch.setattr(rag.evaluate.smoke, "build_embedder", built)
    write_golden(library.config.store, ["gone", "lost"])
    result = await smoke_of(library, min_indexed_share=0.0)
    assert result.passed
    assert str(result) == "passed (no question was asked: none of the golden documents is indexed)"


async def test_the_version_need_not_be_live(library: Library) -> None:
    chunks = [chunk_of(subject, place) for place, subject in enumerate(SUBJECTS[:4])]
    vectors = build_embedder(library.config).embed_passages([chunk.embedded_text for chunk in chunks])
    config = with_settings(library.config, smoke={"min_indexed_share": 0.5})
    version: VersionId = commit(library.store, chunks, vectors, config).version
    result = await smoke_test(config, version, read_smoke_tasks(config.smoke))
    assert (result.passed, result.figures["questions"]) == (True, 4)


def test_without_a_golden_file_there_is_no_test() -> None:
    assert read_smoke_tasks(SmokeConfig()) == []


def test_a_golden_file_that_is_missing_or_wrong_is_a_matter_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"smoke: .*golden\.jsonl: no such file"):
        read_smoke_tasks(SmokeConfig(golden_file=tmp_path / "golden.jsonl"))
    path = write_golden(tmp_path, SUBJECTS)
    with pytest.raises(ConfigError, match=r"nobody\.yaml: no such file"):
        read_smoke_tasks(SmokeConfig(golden_file=path, principals_file=tmp_path / "nobody.yaml"))
