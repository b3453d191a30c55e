"""The job reads pairs, trains a tiny model, and writes an adapter and a model that the configuration can name."""

import json
from pathlib import Path

import pytest

from jobs.printing import told_command
from jobs.train_reranker import main
from rag.config import RerankConfig
from rag.rerank.cross_encoder import CrossEncoder
from tests.tiny_models import tiny_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def arguments(tmp_path: Path, encoder: Path) -> list[str]:
    """Those of a run on forty pairs of forty documents, into the test's folder."""
    config = tmp_path / "rag.yaml"
    config.write_text(
        "store: s\nvar: v\nmodels: m\nembed: {embedder: hashing, model: hashing}\n"
        "rerank: {engine: torch, device: cpu, num_threads: 1}\n",
        encoding="utf-8",
    )
    pairs = tmp_path / "pairs.jsonl"
    rows = [
        {"question": f"who signs form {n}", "passage": f"Form {n} is signed by the office of team {n}.", "source": "a"}
        for n in range(40)
    ]
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    given = ["--config", str(config), "--pairs", str(pairs), "--base", str(encoder), "--out", str(tmp_path / "out")]
    return [*given, "--dev-share", "0.3", "--max-tokens", "48", "--precision", "float32"]


def test_an_adapter_and_a_model_are_written_and_reported(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, merged = tmp_path / "out", tmp_path / "merged"
    assert main([*arguments, "--merged", str(merged), "--residual-scale", "20", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"mrr", "hit_at_1"} == set(report["before"]["residual"])
    assert report["settings"]["mining"]["num_encoder"] == 2
    assert json.loads((out / "training.json").read_text())["after"] == report["after"]
    card = (out / "README.md").read_text()
    assert str(tmp_path) not in card
    assert str(tmp_path) not in (out / "training.json").read_text()
    assert str(tmp_path) not in (out / "adapter_config.json").read_text()
    model = CrossEncoder(merged, RerankConfig(engine="torch", device="cpu", num_threads=1))
    assert len(model.score("who signs form 1", ["Form 1.", "Form 2."])) == 2

    assert main(arguments) == 2
    assert "exists; give another path, or --force" in capsys.readouterr().err
    more = ["--force", "--start", str(out), "--teacher", str(merged)]
    assert main([*arguments, *more]) == 0
    assert "Before and after" in capsys.readouterr().out
    assert "The adapter that training went on from" in (out / "README.md").read_text()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        (["--pairs", "none.jsonl"], 2, "none.jsonl: no such file or folder"),
        (["--leave-out", "a"], 2, "no pairs of question and passage"),
        (["--dev-share", "0.0001"], 2, "give more documents or another --dev-share"),
        (["--base", "no-such-model"], 1, "no-such-model"),
        (["--start", "nowhere"], 1, "nowhere holds no adapter"),
        (["--config", "none.yaml"], 2, "none.yaml"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    tmp_path: Path,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    changed: list[str],
    code: int,
    message: str,
) -> None:
    assert main([*arguments, *changed]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_numbers_out_of_range_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--negatives", "0"])
    assert caught.value.code == 2
    assert "expected 1 or more" in capsys.readouterr().err


def test_a_published_command_names_no_folders() -> None:
    told = told_command(
        "python -m jobs.train_reranker", ["--pairs", "/home/me/qa-pairs", "--out", "var/x", "--seed", "3"]
    )
    assert told == "python -m jobs.train_reranker --pairs qa-pairs --out x --seed 3"
