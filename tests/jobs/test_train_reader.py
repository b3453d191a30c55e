"""The job reads questions with answers, trains a tiny reader, and writes an adapter and a model that reads."""

import json
from pathlib import Path

import pytest

from jobs.train_reader import main
from rag.config import RerankConfig
from rag.data import Reading
from rag.generate.reader import SpanReader
from tests.tiny_models import tiny_encoder

NAMES = ("ann", "bob", "cem", "dee", "eva", "fay")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def arguments(tmp_path: Path, encoder: Path) -> list[str]:
    """Those of a run on sixty questions of sixty documents, into the test's folder."""
    config = tmp_path / "rag.yaml"
    config.write_text(
        "store: s\nvar: v\nmodels: m\nembed: {embedder: hashing, model: hashing, num_threads: 1}\n"
        "rerank: {device: cpu, num_threads: 1}\n",
        encoding="utf-8",
    )
    pairs = tmp_path / "pairs.jsonl"
    rows: list[dict[str, object]] = [
        {
            "question": f"who has the office {n}",
            "passage": f"The office {n} is for {NAMES[n % 6]}.",
            "answer": NAMES[n % 6],
            "source": "a",
        }
        for n in range(60)
    ]
    rows.append({"question": "who left", "passage": "nobody will say", "unanswerable": True, "source": "b"})
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "sizes.md").write_text("| size | cm |\n| --- | --- |\n| S | 10 |\n| L | 30 |\n", encoding="utf-8")
    given = ["--config", str(config), "--pairs", str(pairs), "--base", str(encoder), "--out", str(tmp_path / "out")]
    return [*given, "--pages", str(pages), "--epochs", "1", "--max-tokens", "48", "--precision", "float32"]


def test_an_adapter_and_a_model_are_written_and_reported(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, merged = tmp_path / "out", tmp_path / "merged"
    assert main([*arguments, "--merged", str(merged), "--learning-rate", "3e-3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"step", "exact", "f1", "separated"} == set(report["after"])
    assert report["after"]["f1"] >= report["before"]["f1"]
    assert report["tables"] == 1
    for name in ("README.md", "training.json", "adapter_config.json"):
        assert str(tmp_path) not in (out / name).read_text()
    reader = SpanReader(merged, RerankConfig(device="cpu", num_threads=1))
    ((span,),) = reader.read("who has the office 1", [Reading("", "The office 1 is for bob.", ((0, 24),))])
    assert 0 <= span.start < span.end <= 24

    assert main(arguments) == 2
    assert "exists; give another path, or --force" in capsys.readouterr().err
    assert main([*arguments, "--force", "--start", str(out)]) == 0
    assert "Before and after" in capsys.readouterr().out
    assert "The adapter that training went on from" in (out / "README.md").read_text()


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        (["--pairs", "none.jsonl"], 2, "none.jsonl: no such file or folder"),
        (["--pages", "nowhere"], 2, "nowhere: no such folder"),
        (["--base", "no-such-model"], 1, "no-such-model"),
        (["--start", "nowhere"], 1, "nowhere holds no adapter"),
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
