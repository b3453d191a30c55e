"""The job fits the entailment scorer and writes weights that can be read."""

import gzip
import json
from pathlib import Path

import pytest

from jobs.train_entailment import main
from rag.evaluate.entailment import read_weights
from tests.conftest import SHARED_DATA


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "rag.yaml"
    path.write_text("store: s\nvar: v\nmodels: m\nembed: {embedder: hashing, model: hashing}\n", encoding="utf-8")
    return path


@pytest.mark.shared_data
def test_weights_are_written_with_the_command_that_made_them(tmp_path: Path, config_file: Path) -> None:
    out = tmp_path / "weights.json"
    arguments = ["--config", str(config_file), "--data", str(SHARED_DATA), "--out", str(out), "--questions", "80"]
    assert main(arguments) == 0
    weights = read_weights(out)
    assert weights.encoder == "hashing"
    assert weights.command == "python -m jobs.train_entailment --data DATA --questions 80 --seed 0"
    first = out.read_bytes()
    assert main(arguments) == 0
    assert out.read_bytes() == first


def test_missing_data_is_named_and_nothing_is_written(
    tmp_path: Path, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "weights.json"
    assert main(["--config", str(config_file), "--data", str(tmp_path), "--out", str(out)]) == 2
    assert "no such file" in capsys.readouterr().err
    assert not out.exists()


def test_a_broken_line_is_named(tmp_path: Path, config_file: Path) -> None:
    for name in ("squad-v1.1-dev", "qed-dev", "nq-open-gold"):
        path = tmp_path / "qa-pairs" / f"{name}.jsonl.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps({"question": "Q"}).encode() + b"\n{"))
    assert main(["--config", str(config_file), "--data", str(tmp_path), "--out", str(tmp_path / "w.json")]) == 2
