"""`quire why` and `quire replay` over a small index and its trace database."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from jobs import cli
from jobs.client import Client
from jobs.trace_commands import Replayer, is_operator, open_traces
from rag.config import RagConfig, load_config
from rag.data import Question
from rag.ids import TraceId, VersionId
from rag.trace import Trace
from tests.rag.evaluate.libraries import Library
from tests.rag.index.factories import EVERYONE, make_chunk

Quire = Callable[..., int]
CHUNKS = [
    make_chunk("Every employee has 25 days of paid leave a year.", "leave.md"),
    make_chunk("Parking in zone B costs 12 CHF a day.", "parking.md"),
    make_chunk("The pay band of level four starts at 90 thousand a year.", "pay.md", groups=["people"]),
]
LEAVE = "How many days of paid leave does an employee have?"
GOLDEN = {
    "id": "g1",
    "kind": "lookup",
    "question": LEAVE,
    "as": "ann",
    "history": [],
    "relevant": [{"document": "leave.md", "span": "25 days of paid leave"}],
    "answer": "25 days.",
    "must_include": ["25 days"],
}
KEYS = [
    {"key": "key-of-the-operator", "subject": "ops", "tenant": "acme", "groups": [], "operator": True},
    {"key": "key-of-ann-herself", "subject": "ann", "tenant": "acme", "groups": ["staff"]},
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration, an index, a golden set and keys."""
    folder = tmp_path_factory.mktemp("place")
    settings = {
        "store": "store",
        "var": ".",
        "models": "models",
        "embed": {"embedder": "hashing"},
        "rerank": {"reranker": "overlap"},
        "generate": {"generator": "extractive", "min_evidence": 0.0},
    }
    (folder / "rag.yaml").write_text(yaml.safe_dump(settings))
    (folder / "api_keys.yaml").write_text(yaml.safe_dump(KEYS))
    (folder / "golden.jsonl").write_text(json.dumps(GOLDEN) + "\n")
    return folder


@pytest.fixture(scope="module")
def config(place: Path) -> RagConfig:
    return load_config(place / "rag.yaml")


@pytest.fixture(scope="module")
def library(config: RagConfig) -> Library:
    return Library(config, CHUNKS)


@pytest.fixture
def quire(monkeypatch: pytest.MonkeyPatch) -> Quire:
    def run(*arguments: object) -> int:
        monkeypatch.setattr("sys.argv", ["quire", *map(str, arguments)])
        monkeypatch.setattr("jobs.printing.out.width", 200, raising=False)
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return int(caught.value.code or 0)

    return run


def keep(config: RagConfig, trace: Trace, name: str, **changes: Any) -> Trace:  # Any: any field
    """The trace under that id in the database, once."""
    named = replace(trace, id=TraceId(name), **changes)
    traces = open_traces(config)
    traces.save(named)
    traces.close()
    return named


@pytest.fixture(scope="module")
def answer(config: RagConfig, library: Library) -> Trace:
    return keep(config, asyncio.run(library.ask(Question(LEAVE, EVERYONE))), "answer")


@pytest.fixture(scope="module")
def search(config: RagConfig, library: Library) -> Trace:
    return keep(config, asyncio.run(library.search(Question("the pay band of level four", EVERYONE))), "search")


Capture = pytest.CaptureFixture[str]


def test_a_replayed_trace_is_identical(place: Path, answer: Trace, quire: Quire, capsys: Capture) -> None:
    assert quire("replay", answer.id, "--config", place / "rag.yaml") == 0
    assert capsys.readouterr().out.strip() == "identical"


def test_the_newest_traces_are_replayed_and_counted(
    place: Path, answer: Trace, search: Trace, quire: Quire, capsys: Capture
) -> None:
    assert quire("replay", "--last", 2, "--json", "--config", place / "rag.yaml") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["identical"], shown["different"], shown["not_replayable"]) == (2, 0, 0)
    assert {one["kind"] for one in shown["traces"]} == {"answer", "search"}


def test_what_differs_is_shown_and_exits_1(
    config: RagConfig, place: Path, answer: Trace, quire: Quire, capsys: Capture
) -> None:
    keep(config, answer, "moved", reranked=answer.reranked[::-1])
    assert quire("replay", "answer", "moved", "--config", place / "rag.yaml") == 1
    shown = capsys.readouterr().out
    assert "reranked, rank 1: expected" in shown
    assert "1 identical, 1 different of 2" in shown


def test_what_can_not_be_repeated_says_why(
    config: RagConfig, place: Path, answer: Trace, quire: Quire, capsys: Capture
) -> None:
    keep(config, answer, "gone", versions=replace(answer.versions, index=VersionId("v-0123456789abcdef")))
    keep(config, answer, "partial", partial=("shard 1",))
    keep(config, answer, "other", settings={**answer.settings, "search.k_dense": "7"})
    for name, reason in (
        ("gone", "no index version v-0123456789abcdef"),
        ("partial", "it is partial, without shard 1"),
        ("other", "search.k_dense is 50 here, 7 in the trace"),
    ):
        assert quire("replay", name, "--config", place / "rag.yaml") == 1
        shown = " ".join(capsys.readouterr().out.split())
        assert shown.startswith("not replayable:")
        assert reason in shown
    assert quire("replay", "answer", "partial", "--config", place / "rag.yaml") == 0


@pytest.mark.parametrize("arguments", [(), ("answer", "--all"), ("--last", 1, "--all")])
def test_which_traces_is_said_in_exactly_one_way(
    place: Path, quire: Quire, capsys: Capture, arguments: tuple[object, ...]
) -> None:
    assert quire("replay", *arguments, "--config", place / "rag.yaml") == 2
    assert "--last N" in capsys.readouterr().err


def test_an_unknown_trace_is_one_clear_error(place: Path, quire: Quire, capsys: Capture) -> None:
    assert quire("replay", "nothing", "--config", place / "rag.yaml") == 1
    assert "no trace nothing" in capsys.readouterr().err


async def test_versions_are_opened_one_at_a_time_and_models_once(config: RagConfig, answer: Trace) -> None:
    replayer = Replayer(config)
    assert [(await replayer.replay(answer)).verdict for _ in range(2)] == ["identical"] * 2
    first = replayer._pipeline(answer.versions.index)
    assert replayer._pipeline(answer.versions.index) is first
    (embedder,) = replayer._embedders.values()
    replayer._open = None
    assert (await replayer.replay(answer)).verdict == "identical"
    assert list(replayer._embedders.values()) == [embedder]


# ---------------------------------------------------------------- why


def test_why_looks_the_question_up_in_the_golden_set(place: Path, answer: Trace, quire: Quire, capsys: Capture) -> None:
    golden = place / "golden.jsonl"
    assert quire("why", answer.id, "--local", "--golden", golden, "--config", place / "rag.yaml") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("fine: leave.md was in the prompt as [1]")
    assert "25 days of paid leave" in shown
    assert quire("why", answer.id, "--local", "--golden", golden, "--json", "--config", place / "rag.yaml") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cause"], len(found["spans"][0]["stages"])) == ("fine", 8)


def test_an_operator_learns_what_the_asker_may_not_read(
    place: Path, search: Trace, quire: Quire, capsys: Capture
) -> None:
    assert quire("why", search.id, "--local", "--gold-document", "pay.md", "--config", place / "rag.yaml") == 0
    assert capsys.readouterr().out.startswith("not_permitted: pay.md is there")


def test_what_the_ingest_said_is_part_of_the_answer(
    config: RagConfig, place: Path, search: Trace, quire: Quire, capsys: Capture
) -> None:
    errors = config.index_root / "errors"
    errors.mkdir()
    row = {"uri": "scan.pdf", "stage": "parse", "error": "ParseError", "message": "scanned; needs OCR"}
    (errors / "run-1.jsonl").write_text(json.dumps(row) + "\n")
    assert quire("why", search.id, "--local", "--gold-document", "scan.pdf", "--config", place / "rag.yaml") == 0
    assert "ParseError at parse: scanned; needs OCR" in " ".join(capsys.readouterr().out.split())


def test_nothing_to_look_for_exits_2(place: Path, answer: Trace, quire: Quire, capsys: Capture) -> None:
    assert quire("why", answer.id, "--local", "--config", place / "rag.yaml") == 2
    assert "--gold" in capsys.readouterr().err


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, search: Trace) -> None:
    """A service that gives out one trace to anyone with a key."""

    def answer_request(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=search.to_json(), headers={"Content-Type": "application/json"})

    def build(url: str, token: str) -> Client:
        return Client(url, token, transport=httpx.MockTransport(answer_request))

    monkeypatch.setattr(cli, "Client", build)


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(
    ("identity", "cause"), [("ann", "not_indexed"), ("a-token", "not_indexed"), ("ops", "not_permitted")]
)
def test_over_http_only_an_operator_learns_that_a_document_exists(
    place: Path, quire: Quire, capsys: Capture, identity: str, cause: str
) -> None:
    arguments = ("--as", identity, "--gold-document", "pay.md", "--config", place / "rag.yaml")
    assert quire("why", "search", *arguments) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{cause}: ")
    assert ("people" in shown) == (cause == "not_permitted")


def test_who_is_an_operator_is_in_the_key_file(config: RagConfig) -> None:
    assert is_operator("ops", config)
    assert is_operator("key-of-the-operator", config)
    assert not is_operator("ann", config)
    assert not is_operator("", config)
