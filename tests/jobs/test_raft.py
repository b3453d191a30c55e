"""`python -m jobs.raft`: from questions to an adapter that is merged and loaded."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from jobs.raft import main
from rag.train.raft_trainer import ADAPTER
from tests.tiny_models import tiny_language_model


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    rows = [
        {
            "question": f"How many rooms does house {n} have?",
            "passage": f"House {n} stands by the river. House {n} has {n + 3} rooms for its guests.",
            "answer": f"{n + 3} rooms",
            "title": f"House {n}",
        }
        for n in range(24)
    ]
    path = tmp_path / "houses.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "rag.yaml"
    path.write_text("store: store\nvar: var\nmodels: models\nembed: {embedder: hashing}\nrerank: {reranker: overlap}\n")
    return path


def _arguments(config: Path, pairs: Path, model: Path, out: Path, *more: str) -> list[str]:
    sizes = ["--max-contexts", "4", "--dev-examples", "2", "--rank", "2", "--max-tokens", "4096", "--dev-share", "0.3"]
    return ["--config", str(config), "--pairs", str(pairs), "--base", str(model), "--out", str(out), *sizes, *more]


def test_an_adapter_is_trained_measured_described_and_merged(
    config: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny_language_model(tmp_path / "model")
    out, merged = tmp_path / "adapter", tmp_path / "merged"
    assert main(_arguments(config, pairs, model, out, "--merged", str(merged), "--json")) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["run"]["groups_done"] == 4
    assert facts["before"]["num_answerable"] + facts["before"]["num_unanswerable"] == 2
    assert facts == {**json.loads((out / "training.json").read_text()), "out": str(out), "merged": str(merged)}
    assert "houses" in (out / "README.md").read_text()
    before, after = load_file(model / "model.safetensors"), load_file(merged / "model.safetensors")
    assert any((before[name] != after[name]).any() for name in before)
    AutoModelForCausalLM.from_pretrained(merged)

    assert main(_arguments(config, pairs, model, out)) == 2  # something is in the way
    assert main(_arguments(config, pairs, model, out, "--force", "--merged", str(out))) == 2
    assert "expected two folders" in capsys.readouterr().err
    assert main(_arguments(config, pairs, model, out, "--force", "--start", str(out), "--bm25-only")) == 0
    assert (out / ADAPTER).is_file()
    assert json.loads((out / "training.json").read_text())["settings"]["lead_quotes"] == 4
    assert (out / "README.md").read_text().count("    python -m jobs.raft") == 2


def test_files_without_answers_are_refused(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_language_model(tmp_path / "model")
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"question": "Who?", "passage": "Ann."}) + "\n")
    assert main(_arguments(config, path, model, tmp_path / "out")) == 2
    assert "no questions with an answer" in capsys.readouterr().err
