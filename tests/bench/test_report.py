"""A result file says all that its figures depend on, and no place on the machine that made it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report import PROJECT, Run, hardware, need, percentile, print_table, settings, summary, versions
from rag.config import JwtConfig, RagConfig


def make_config(root: Path) -> RagConfig:
    return RagConfig(store=root / "store", var=root, models=root / "models")


def test_a_result_holds_what_its_figures_depend_on(tmp_path: Path) -> None:
    run = Run("quality", arguments=("--data", "../shared/data", "--k1", "1.2"))
    path = run.write({"ndcg@10": 0.5}, make_config(tmp_path), folder=tmp_path / "results")
    record = json.loads(path.read_text(encoding="utf-8"))
    assert path.name == "quality.json"
    assert record["command"] == "python -m bench.quality --data ../shared/data --k1 1.2"
    assert record["figures"] == {"ndcg@10": 0.5}
    assert record["config"]["index"]["num_shards"] == 2
    assert record["hardware"] == hardware()
    assert record["versions"] == versions()
    assert record["started"] <= record["ended"]
    assert set(record) >= {"commit", "name"}


def test_a_later_run_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    Run("x").write({"n": 1}, folder=tmp_path)
    path = Run("x").write({"n": 2}, folder=tmp_path)
    assert json.loads(path.read_text(encoding="utf-8"))["figures"] == {"n": 2}
    assert list(tmp_path.iterdir()) == [path]


def test_a_result_names_its_module_where_they_differ(tmp_path: Path) -> None:
    path = Run("transport", module="serve", arguments=("--transport",)).write({}, folder=tmp_path)
    assert json.loads(path.read_text(encoding="utf-8"))["command"] == "python -m bench.serve --transport"


def test_no_absolute_path_reaches_a_result(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    key = JwtConfig(key_file=tmp_path / "key.pem")
    config = config.model_copy(
        update={
            "auth": config.auth.model_copy(update={"jwt": key}),
            "embed": config.embed.model_copy(update={"model": str(tmp_path / "minilm")}),
        }
    )
    run = Run("x", arguments=("--data", str(tmp_path / "pages"), "--sample", str(PROJECT / "bench" / "sample")))
    text = run.write({}, config, folder=tmp_path).read_text(encoding="utf-8")
    record = json.loads(text)
    assert str(tmp_path) not in text
    assert str(PROJECT) not in text
    assert record["command"].endswith("--data .../pages --sample bench/sample")
    assert record["config"]["embed"]["model"] == ".../minilm"


def test_settings_leave_out_places_and_keep_meaning(tmp_path: Path) -> None:
    kept = settings(make_config(tmp_path))
    assert not {"store", "var", "models", "auth", "trace"} & set(kept)
    assert kept["rerank"]["k_rerank"] == make_config(tmp_path).rerank.k_rerank


def test_what_is_missing_ends_the_program_with_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        need(tmp_path / "nowhere", "the collection")
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"the collection is not here: {tmp_path / 'nowhere'} does not exist\n"
    assert need(tmp_path, "the folder") == tmp_path


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert summary(values) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert summary([7.0]) == {"p50": 7.0, "p95": 7.0, "p99": 7.0}
    assert summary([]) == {"p50": None, "p95": None, "p99": None}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_percentile_is_the_smallest_value_that_the_share_does_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


def test_a_table_shows_every_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    monkeypatch.setattr("bench.report.out", Console(width=100))
    print_table("speed", ("what", "ms"), [("search", 1.25), ("rerank", None), ("all", 12_345.6)])
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("speed", "search", "1.250", "rerank", "-", "12,346"))
