import json
from dataclasses import replace

import pytest

from bench.capacity import Assumptions, main, make_plan, plan_rows, read_options

DEFAULT = Assumptions()


def test_five_million_pages_come_to_the_worked_figures() -> None:
    plan = make_plan(DEFAULT)
    assert plan.vectors == 35e6
    assert plan.flat_gb == pytest.approx(107.5, abs=0.05)
    assert plan.links_gb == pytest.approx(8.96)
    assert plan.codes_gb == pytest.approx(3.36)
    assert plan.vectors_later == pytest.approx(60.5e6, rel=1e-3)
    assert plan.tokens == pytest.approx(5.25e9)
    assert plan.encoder_flop == pytest.approx(1.16e18, rel=5e-3)
    assert plan.gpu_hours == pytest.approx(3.2, abs=0.05)
    assert plan.questions_per_day == pytest.approx(50e3)
    assert plan.input_tokens_per_day == pytest.approx(150e6)
    assert plan.output_tokens_per_day == pytest.approx(10e6)
    assert plan.peak_qps == pytest.approx(2.1, abs=0.05)


@pytest.mark.parametrize(("vectors", "nprobe", "scanned"), [(35e6, 32, 68e3), (60e6, 64, 234e3)])
def test_an_ivf_query_scans_its_share_of_the_lists(vectors: float, nprobe: int, scanned: float) -> None:
    plan = make_plan(replace(DEFAULT, pages=vectors / 7, nprobe=nprobe))
    assert plan.rows_scanned == pytest.approx(scanned, rel=0.01)


def test_each_kind_of_index_has_its_bytes() -> None:
    each = {kind: make_plan(replace(DEFAULT, index=kind)).bytes_per_vector for kind in ("flat", "ivf_pq", "hnsw")}
    assert each == {"flat": 3072, "ivf_pq": 104, "hnsw": 3072 + 256}
    assert make_plan(replace(DEFAULT, precision="float16", index="flat")).bytes_per_vector == 1536


def test_shards_hold_what_fits_below_their_headroom() -> None:
    plan = make_plan(replace(DEFAULT, index="flat", shard_gb=48.0, headroom=0.25))
    assert (plan.shards, plan.shards_later) == (3, 6)  # 107.5 and 185.8 GB over 36 GB
    assert make_plan(replace(DEFAULT, pages=10)).shards == 1


def test_tokens_cost_what_their_prices_say() -> None:
    assert make_plan(replace(DEFAULT, input_price=0.5, output_price=2.0)).cost_per_day == pytest.approx(75 + 20)


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="annoy"):
        make_plan(replace(DEFAULT, index="annoy"))


def test_every_assumption_is_an_option_and_the_plan_comes_as_a_table_or_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given, as_json = read_options(["--pages", "1e6", "--dim", "384", "--nprobe", "6e1", "--index", "ivf_pq"])
    assert (given.pages, given.dim, given.nprobe, given.index, as_json) == (1e6, 384, 60, "ivf_pq", False)
    rows = {what: how_much for what, how_much, _ in plan_rows(make_plan(DEFAULT), DEFAULT)}
    assert (rows["vectors"], rows["flat vectors"], rows["peak rate"]) == ("35 million", "107.5 GB", "2.1 questions/s")
    monkeypatch.setattr("sys.argv", ["capacity", "--json"])
    main()
    assert json.loads(capsys.readouterr().out)["plan"]["vectors"] == 35e6
