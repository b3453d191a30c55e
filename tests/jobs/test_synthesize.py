"""The job makes questions of an index or of a collection, and writes rows that name their readers."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jobs import cli, local_cluster
from jobs.synthesize import arguments_of, check_source, main
from rag.config import load_config
from rag.embed.hashing import HashingEmbedder
from rag.errors import InputError, RagError
from rag.index.store import IndexStore
from rag.train.synthesize import SynthesisOptions
from tests.rag.index.factories import commit, make_chunk

TEXTS = {
    "leave.md": "Every employee has 25 days of paid leave a year. You can move five unused days into the next year.",
    "parking.md": "Parking in zone B costs 12 CHF a day. To renew a permit, send the form to the garage desk.",
    "vpn.md": "The company network is reached with a hardware token. A token is a small device that shows a code.",
}


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "rag.yaml"
    path.write_text(
        "store: store\nvar: var\nmodels: models\nembed: {embedder: hashing}\nrerank: {reranker: overlap}\n"
        "generate: {generator: extractive}\n",
        encoding="utf-8",
    )
    return path


@pytest.fixture
def published(config_file: Path) -> Path:
    """An index of three pages, one of them for a group of its own."""
    config = load_config(config_file)
    chunks = [
        make_chunk(
            text, uri, title=uri.removesuffix(".md").title(), groups=("garage",) if "park" in uri else ("staff",)
        )
        for uri, text in TEXTS.items()
    ]
    store = IndexStore(config.index_root)
    vectors = HashingEmbedder().embed_passages([chunk.embedded_text for chunk in chunks])
    store.publish(commit(store, chunks, vectors, config).version)
    return config_file


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_rows_of_an_index_name_the_readers_of_their_chunk(published: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "questions.jsonl"
    assert main(["--config", str(published), "--out", str(out)]) == 0
    rows = rows_of(out)
    assert {row["uri"] for row in rows} == set(TEXTS)
    assert {tuple(row["groups"]) for row in rows if row["uri"] == "parking.md"} == {("garage",)}
    assert {row["tenant"] for row in rows} == {"acme"}
    assert all(row["answer"] in TEXTS[row["uri"]] and row["positive"].endswith(TEXTS[row["uri"]]) for row in rows)
    assert out.stat().st_mode & 0o077 == 0  # nobody but their owner


def test_the_same_seed_writes_the_same_bytes(published: Path, tmp_path: Path) -> None:
    written = []
    for number, seed in enumerate((0, 0)):
        out = tmp_path / f"{number}.jsonl"
        main(["--config", str(published), "--out", str(out), "--seed", str(seed), "--questions-per-chunk", "1"])
        written.append(out.read_bytes())
    assert written[0] == written[1]


def test_the_report_counts_add_up(published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "questions.jsonl"
    assert main(["--config", str(published), "--out", str(out), "--json", "--max-chunks", "2", "--source", "both"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["chunks_used"] == 2
    assert sum(report["drafted"].values()) == sum(report["dropped"].values()) + sum(report["kept"].values())
    assert sum(report["kept"].values()) == len(rows_of(out))
    assert report["drafted"]["llm"] > 0


def test_a_collection_takes_the_place_of_the_index(config_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    documents = [{"_id": uri, "title": "Handbook > Page", "text": text} for uri, text in TEXTS.items()]
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, documents)).encode()))
    out = tmp_path / "questions.jsonl"
    assert main(["--config", str(config_file), "--out", str(out), "--corpus", str(folder)]) == 0
    assert {row["uri"] for row in rows_of(out)} == set(TEXTS)


def test_without_an_index_one_line_says_so(config_file: Path, tmp_path: Path) -> None:
    assert main(["--config", str(config_file), "--out", str(tmp_path / "x.jsonl")]) == 1
    assert main(["--config", str(tmp_path / "none.yaml"), "--out", str(tmp_path / "x.jsonl")]) == 2
    assert not (tmp_path / "x.jsonl").exists()


def test_the_command_line_does_the_same(published: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    main(["--config", str(published), "--out", str(first), "--k", "2"])
    result = CliRunner().invoke(
        cli.app, ["synthesize", "--config", str(published), "--out", str(second), "--k", "2", "--json"]
    )
    assert result.exit_code == 0
    assert first.read_bytes() == second.read_bytes()


def test_a_source_that_does_not_exist_is_named() -> None:
    assert check_source("both") == "both"
    with pytest.raises(InputError, match="source 'people': expected one of rules, llm, both"):
        check_source("people")


def test_a_submitted_job_gets_the_same_options_with_whole_paths(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SynthesisOptions("rules", 2, 1, 3, seed=7)
    arguments = arguments_of(published, Path("here.jsonl"), options, Path("corpus"), as_json=True)
    assert arguments[arguments.index("--out") + 1] == str(Path("here.jsonl").resolve())
    out = tmp_path / "direct.jsonl"
    assert main(arguments_of(published, out, options, None, as_json=False)) == 0
    assert len({row["chunk_id"] for row in rows_of(out)}) <= 2

    monkeypatch.setattr(local_cluster, "find_cluster", lambda record: None)
    submitted = CliRunner().invoke(cli.app, ["synthesize", "--config", str(published), "--out", str(out), "--submit"])
    assert isinstance(submitted.exception, RagError)
    assert "no cluster to submit to" in str(submitted.exception)
