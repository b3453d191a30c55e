"""The sample corpus is gated against its committed baseline; with cheap parts, the defects are caught as well."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from bench.gate import BASELINE, DEFECTS, NOTHING, Lab, Outcome, RememberingEmbedder, RememberingReranker
from bench.sample.build import SAMPLE
from jobs.quality_commands import print_verdict
from rag.config import load_config
from rag.data import Vectors
from rag.embed.hashing import HashingEmbedder
from rag.evaluate.gate import GateVerdict, gate
from rag.evaluate.golden import read_golden
from rag.evaluate.run import EvaluationRun, read_run, without_machine
from rag.rerank.overlap import OverlapReranker

LOCAL = Path(__file__).resolve().parents[2] / "serve_configs" / "local" / "rag.yaml"


@pytest.mark.models
def test_the_sample_has_not_fallen_below_its_baseline(tmp_path: Path) -> None:
    """To accept a change that this refuses: python -m bench.gate --write-baseline."""
    found = gate(read_run(BASELINE), Lab(tmp_path, load_config(LOCAL)).run())
    if not found.ok:
        print_verdict(found)
    assert found.ok


def test_the_baseline_asks_the_whole_golden_set_and_names_no_machine() -> None:
    baseline = read_run(BASELINE)
    assert baseline.ids == tuple(question.id for question in read_golden(SAMPLE / "golden.jsonl"))
    assert without_machine(baseline) == baseline
    assert set(baseline.broken().values()) == {0}
    assert "/" not in "".join(baseline.settings.values())
    assert BASELINE.stat().st_size < 150_000


# ---------------------------------------------------------------- with cheap parts


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The sample with the hashing embedder and the overlap reranker: other numbers, and the same machinery."""
    config = load_config(LOCAL)
    return Lab(
        tmp_path_factory.mktemp("lab"),
        config.model_copy(
            update={
                "embed": config.embed.model_copy(update={"embedder": "hashing"}),
                "rerank": config.rerank.model_copy(update={"reranker": "overlap"}),
                "generate": config.generate.model_copy(update={"generator": "extractive"}),
            }
        ),
    )


@pytest.fixture(scope="module")
def before(lab: Lab) -> EvaluationRun:
    return lab.run()


@pytest.fixture(scope="module")
def said(lab: Lab, before: EvaluationRun) -> Callable[[str], GateVerdict]:
    """What the gate says to a variant; each is tried once."""
    return cache(lambda name: gate(before, (DEFECTS.get(name) or NOTHING[name])(lab)))


@pytest.mark.parametrize("name", ["k1 = 0", "last passage not shown", "access filter off", "stale version"])
def test_a_defect_is_caught(name: str, said: Callable[[str], GateVerdict]) -> None:
    assert not said(name).ok


@pytest.mark.parametrize("name", ["three segments", "ingested anew"])
def test_a_change_that_changes_nothing_passes(name: str, said: Callable[[str], GateVerdict]) -> None:
    assert said(name).ok
    assert said(name).num_changed == 0


def test_a_leak_is_counted_for_every_asker(said: Callable[[str], GateVerdict]) -> None:
    (broken,) = said("access filter off").broken
    assert broken.name == "forbidden"
    assert len(broken.questions) == 155


def test_a_stale_version_is_named_as_such(said: Callable[[str], GateVerdict]) -> None:
    assert "wrong_version" in {broken.name for broken in said("stale version").broken}


def test_there_are_ten_changes_that_change_nothing() -> None:
    assert len(NOTHING) == 10


class Counting(HashingEmbedder):
    num_texts = 0

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.num_texts += len(texts)
        return super().embed_passages(texts)


def test_what_was_embedded_and_scored_before_is_not_done_again() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner)
    first = embedder.embed_passages(["a", "b", "a"])
    assert (embedder.embed_passages(["b", "a"]) == first[[1, 0]]).all()
    assert inner.num_texts == 2
    reranker = RememberingReranker(OverlapReranker())
    assert reranker.score("a b", ["a", "c", "a"]) == OverlapReranker().score("a b", ["a", "c", "a"])
    assert reranker.score_many([("a b", ["c"])]) == [OverlapReranker().score("a b", ["c"])]


def test_an_outcome_is_right_when_a_defect_is_caught_and_a_no_op_passes() -> None:
    passed = gate(read_run(BASELINE), read_run(BASELINE))
    assert Outcome("x", False, passed, 0.0).right
    assert not Outcome("x", True, passed, 0.0).right
