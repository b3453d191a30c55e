"""`quire eval` and `quire gate` over a small index: what they print, what they write, and how they end."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs import cli
from jobs.evaluate import EvaluationRequest, request_arguments
from rag.config import RagConfig, load_config
from rag.evaluate.run import read_run
from tests.rag.evaluate.libraries import Library
from tests.rag.index.factories import make_chunk

Quire = Callable[..., int]
SUBJECTS = [
    f"{kind} {thing}" for kind in ("guest", "night", "field", "board") for thing in ("badge", "meal", "car", "key")
]
CHUNKS = [
    make_chunk(f"The {subject} costs {10 + place} CHF and is ordered at desk {place}.", f"{subject}.md")
    for place, subject in enumerate(SUBJECTS)
]


def golden_rows() -> list[dict[str, Any]]:  # Any: JSON
    return [
        {
            "id": f"g{place}",
            "kind": "lookup",
            "question": f"What does the {subject} cost?",
            "as": "ann",
            "history": [],
            "relevant": [{"document": f"{subject}.md", "span": f"costs {10 + place} CHF"}],
            "answer": "",
            "must_include": [],
        }
        for place, subject in enumerate(SUBJECTS)
    ]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a configuration, an index, a golden set and principals."""
    settings = {
        "store": "store",
        "var": "var",
        "models": "models",
        "embed": {"embedder": "hashing"},
        "rerank": {"reranker": "overlap"},
        "generate": {"generator": "extractive"},
    }
    (tmp_path / "rag.yaml").write_text(yaml.safe_dump(settings))
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in golden_rows()))
    principals = [{"name": "ann", "tenant": "acme", "groups": ["staff"]}]
    (tmp_path / "principals.yaml").write_text(yaml.safe_dump({"principals": principals}))
    Library(config_of(tmp_path), CHUNKS)
    return tmp_path


def config_of(place: Path) -> RagConfig:
    return load_config(place / "rag.yaml")


@pytest.fixture
def quire(place: Path, monkeypatch: pytest.MonkeyPatch) -> Quire:
    """Run the command on the place, as a shell would; the exit code."""

    def run(command: str, *arguments: object) -> int:
        given = [*map(str, arguments), "--config", str(place / "rag.yaml")]
        monkeypatch.setattr("sys.argv", ["quire", command, *given])
        monkeypatch.setattr("jobs.printing.out.width", 200, raising=False)
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return int(caught.value.code or 0)

    return run


def test_eval_shows_every_stage_and_writes_the_run_and_the_page(
    place: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    golden, out, html = place / "golden.jsonl", place / "new" / "run.json", place / "report.html"
    assert quire("eval", golden, "--out", out, "--html", html) == 0
    shown = capsys.readouterr().out
    for stage in ("chunks", "dense", "bm25", "fused", "reranked", "prompt"):
        assert stage in shown
    assert "16 questions, 16 answerable" in shown
    assert read_run(out).ids == tuple(row["id"] for row in golden_rows())
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_eval_as_json(place: Path, quire: Quire, capsys: pytest.CaptureFixture[str]) -> None:
    assert quire("eval", place / "golden.jsonl", "--json", "--max-questions", 5) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["questions"], shown["dataset"]) == (5, f"{place.name}/golden.jsonl")
    assert set(shown["stages"]["dense"]["ndcg@10"]) == {"mean", "low", "high", "num"}
    assert shown["invariants"]["forbidden"] == 0


def test_the_gate_passes_the_same_and_fails_what_fell(
    place: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    golden, baseline = place / "golden.jsonl", place / "baseline.json"
    assert quire("eval", golden, "--out", baseline) == 0
    capsys.readouterr()
    assert quire("gate", golden, "--baseline", baseline) == 0
    assert "ok: nothing fell" in capsys.readouterr().out
    # Most of the documents lose the words that answer.
    worse = [make_chunk("Nothing.", c.metadata.uri) if n % 4 else c for n, c in enumerate(CHUNKS)]
    Library(config_of(place), worse)
    assert quire("gate", golden, "--baseline", baseline, "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert not shown["ok"]
    assert {(fall["stage"], fall["metric"]) for fall in shown["falls"]} >= {("chunks", "recall"), ("prompt", "recall")}
    assert quire("gate", golden, "--baseline", baseline) == 1
    shown = capsys.readouterr().out
    assert "What fell" in shown
    assert "FAILED" in shown


def test_the_gate_compares_two_stored_runs_without_an_index(place: Path, quire: Quire) -> None:
    golden, baseline, few = place / "golden.jsonl", place / "baseline.json", place / "few.json"
    quire("eval", golden, "--out", baseline)
    quire("eval", golden, "--out", few, "--max-questions", 10)
    (place / "store" / "main" / "CURRENT").unlink()
    assert quire("gate", "--baseline", baseline, "--run", baseline) == 0
    assert quire("gate", "--baseline", baseline, "--run", few) == 1  # questions are missing
    assert quire("gate", "--baseline", few, "--run", baseline) == 0


def test_misuse_exits_2_with_a_line(place: Path, quire: Quire, capsys: pytest.CaptureFixture[str]) -> None:
    golden = place / "golden.jsonl"
    assert quire("gate", golden) == 2
    assert "--baseline" in capsys.readouterr().err
    assert quire("gate", golden, "--baseline", place / "none.json") == 2
    assert "none.json: no such file" in capsys.readouterr().err
    assert quire("eval", place / "nothing.jsonl") == 2
    assert quire("eval", place, "--url", "http://127.0.0.1:1") == 2
    assert "leave out --url" in capsys.readouterr().err
    baseline = place / "baseline.json"
    quire("eval", golden, "--out", baseline)
    other = [{**row, "question": "What else?"} for row in golden_rows()]
    golden.write_text("".join(json.dumps(row) + "\n" for row in other))
    capsys.readouterr()
    assert quire("gate", golden, "--baseline", baseline) == 2
    assert "questions are not what they were in the baseline" in capsys.readouterr().err


def test_without_an_index_it_exits_1_and_says_how_to_make_one(
    place: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "store" / "main" / "CURRENT").unlink()
    assert quire("eval", place / "golden.jsonl") == 1
    assert "quire ingest" in capsys.readouterr().err


def test_what_must_never_happen_exits_1(
    place: Path, quire: Quire, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rag.evaluate.invariants.may_read", lambda access, principal: False)
    assert quire("eval", place / "golden.jsonl") == 1
    assert "forbidden" in capsys.readouterr().err


def test_a_test_collection_is_indexed_in_the_cache_and_measured(
    place: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, cache = place / "ir-tiny", place / "cache"
    (folder / "qrels").mkdir(parents=True)
    with gzip.open(folder / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(
            json.dumps({"_id": f"d{n}", "title": s, "text": f"All about the {s}."}) + "\n"
            for n, s in enumerate(SUBJECTS)
        )
    queries = [{"_id": f"q{n}", "text": f"the {s}"} for n, s in enumerate(SUBJECTS)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    judged = "".join(f"q{n}\td{n}\t1\n" for n in range(len(SUBJECTS)))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    assert quire("eval", folder, "--cache", cache, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["dataset"], shown["questions"]) == ("ir-tiny", len(SUBJECTS))
    assert shown["stages"]["bm25"]["hit@1"]["mean"] == 1.0
    assert len(list(cache.rglob("CURRENT"))) == 1


def test_a_job_is_asked_for_the_same_from_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    request = EvaluationRequest(Path("rag.yaml"), Path("golden.jsonl"), url="http://x", max_questions=3)
    arguments = request_arguments(request, out=Path("run.json"), html=None, as_json=True, baseline=Path("b.json"))
    assert arguments == [
        *[str(tmp_path / "golden.jsonl"), "--config", str(tmp_path / "rag.yaml")],
        *["--baseline", str(tmp_path / "b.json"), "--out", str(tmp_path / "run.json")],
        *["--url", "http://x", "--max-questions", "3", "--json"],
    ]


def test_submitting_without_a_cluster_says_how_to_start_one(
    place: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quire("eval", place / "golden.jsonl", "--submit") == 1
    assert "quire up --no-serve" in capsys.readouterr().err
