"""The job reads pairs, trains a tiny encoder, and writes an adapter and a model that an index can be built with."""

import json
from pathlib import Path

import pytest

from jobs.train_encoder import main
from rag.config import EmbedConfig
from rag.embed.sentence import SentenceEncoder
from tests.tiny_models import tiny_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def arguments(tmp_path: Path, encoder: Path) -> list[str]:
    """Those of a run on forty pairs of forty documents, into the test's folder."""
    config = tmp_path / "rag.yaml"
    config.write_text(
        "store: s\nvar: v\nmodels: m\nembed: {embedder: hashing, model: hashing, num_threads: 1}\n", encoding="utf-8"
    )
    pairs = tmp_path / "pairs.jsonl"
    rows = [
        {"question": f"who signs form {n}", "passage": f"Form {n} is signed by the office of team {n}.", "source": "a"}
        for n in range(40)
    ]
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    given = ["--config", str(config), "--pairs", str(pairs), "--base", str(encoder), "--out", str(tmp_path / "out")]
    return [*given, "--dev-share", "0.3", "--precision", "float32"]


def test_an_adapter_and_a_model_are_written_and_reported(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, merged = tmp_path / "out", tmp_path / "merged"
    assert main([*arguments, "--merged", str(merged), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"mrr", "hit_at_1"} == set(report["before"]["dense"]) == set(report["after"]["interaction"])
    assert report["settings"]["interaction_weight"] == 0.5
    for name in ("README.md", "training.json", "adapter_config.json"):
        assert str(tmp_path) not in (out / name).read_text()
    served = SentenceEncoder(merged, EmbedConfig(engine="torch", device="cpu", num_threads=1))
    assert served.embed_queries(["who signs form 1"]).shape == (1, 32)

    assert main(arguments) == 2
    assert "exists; give another path, or --force" in capsys.readouterr().err
    assert main([*arguments, "--force", "--start", str(out), "--merged", str(tmp_path / "more")]) == 0
    said = capsys.readouterr()
    assert "Before and after" in said.out
    assert f"next: quire reembed --encoder {tmp_path / 'more'}, with" in said.err
    assert "The adapter that training went on from" in (out / "README.md").read_text()


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        (["--pairs", "none.jsonl"], 2, "none.jsonl: no such file or folder"),
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
