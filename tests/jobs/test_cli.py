import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml

from jobs import cli
from jobs.client import Client

Quire = Callable[..., int]


@pytest.fixture
def config_dir(tmp_path: Path) -> Path:
    settings = {"store": "store", "var": "var", "models": "models", "embed": {"embedder": "hashing"}}
    (tmp_path / "rag.yaml").write_text(yaml.safe_dump(settings))
    (tmp_path / "serve.yaml").write_text("http_options: {port: 1}\napplications: []\n")
    (tmp_path / "principals.yaml").write_text("principals: [{name: ada, tenant: acme, groups: [staff]}]\n")
    return tmp_path


@pytest.fixture
def quire(monkeypatch: pytest.MonkeyPatch) -> Quire:
    """Run the command as a shell would; the exit code."""

    def run(*arguments: object) -> int:
        monkeypatch.setattr("sys.argv", ["quire", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return int(caught.value.code or 0)

    return run


def test_a_misspelt_key_is_named_and_exits_2(
    config_dir: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    (config_dir / "rag.yaml").write_text("store: s\nvar: v\nmodels: m\nindex: {num_shard: 2}\n")
    assert quire("ingest", config_dir, "--config", config_dir / "rag.yaml") == 2
    assert "index.num_shard: Extra inputs are not permitted" in capsys.readouterr().err


def test_a_corpus_that_does_not_exist_exits_2_before_ray_starts(
    config_dir: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quire("ingest", config_dir / "nowhere", "--config", config_dir / "rag.yaml") == 2
    shown = capsys.readouterr()
    assert "nowhere: no such file or folder" in shown.err
    assert shown.out == ""


def test_a_wrong_option_exits_2(quire: Quire) -> None:
    assert quire("ingest", "--no-such-option") == 2


def test_without_an_index_status_says_so(config_dir: Path, quire: Quire, capsys: pytest.CaptureFixture[str]) -> None:
    assert quire("status", "--config-dir", config_dir, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["index"]["version"] is None
    assert shown["cluster"] is None
    assert shown["service"]["healthy"] is False


def test_rolling_back_nothing_is_one_clear_error(
    config_dir: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quire("rollback", "--config", config_dir / "rag.yaml") == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert quire("publish", "v-0123456789abcdef", "--config", config_dir / "rag.yaml") == 1
    assert "quire versions" in capsys.readouterr().err


def test_stopping_nothing_is_fine(config_dir: Path, quire: Quire, capsys: pytest.CaptureFixture[str]) -> None:
    assert quire("down", "--config-dir", config_dir) == 0
    assert "nothing to stop" in capsys.readouterr().out


def test_submitting_without_a_cluster_says_how_to_start_one(
    config_dir: Path, quire: Quire, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quire("ingest", config_dir, "--submit", "--config", config_dir / "rag.yaml") == 1
    assert "quire up --no-serve" in capsys.readouterr().err


ANSWER = {
    "answer": "Five days [1].",
    "citations": [{"number": 1, "uri": "hr/leave.md", "title": "Leave [draft]", "headings": ["Carry-over"], "page": 3}],
    "version": "v-1",
    "trace_id": "trace-7",
    "stages": [{"name": "rerank", "start_ms": 40.0, "wall_ms": 61.2, "compute_ms": 55.5, "counts": {"pairs": 30}}],
}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    """A service that streams one answer; the requests that it got."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in {"", "nobody"}:
            return httpx.Response(401, json={"error": "Unauthenticated", "message": "unknown key"})
        if not json.loads(request.content)["stream"]:
            return httpx.Response(200, json=ANSWER)
        events = [("token", {"text": "Five days "}), ("token", {"text": "[1]."}), ("done", ANSWER)]
        return httpx.Response(200, text="".join(f"event: {n}\ndata: {json.dumps(d)}\n\n" for n, d in events))

    def build(url: str, token: str) -> Client:
        return Client(url, token, transport=httpx.MockTransport(answer))

    monkeypatch.setattr(cli, "Client", build)
    monkeypatch.setattr("jobs.printing.out.width", 120, raising=False)
    return requests


def test_an_answer_is_shown_with_its_sources_and_stages(
    config_dir: Path, quire: Quire, service: list[httpx.Request], capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_dir / "rag.yaml"
    assert quire("keys", config_dir / "principals.yaml", "--config", config) == 0
    capsys.readouterr()
    assert quire("ask", "How many days?", "--as", "ada", "--config", config) == 0
    shown = capsys.readouterr().out
    for words in ("Five days [1].", "Leave [draft]", "hr/leave.md", "Carry-over", "rerank", "61.2", "55.5", "pairs 30"):
        assert words in shown
    key = yaml.safe_load((config_dir / "var" / "api_keys.yaml").read_text())[0]["key"]
    assert service[0].headers["Authorization"] == f"Bearer {key}"


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_json_is_the_whole_answer_and_nothing_else(
    config_dir: Path, quire: Quire, service: list[httpx.Request], capsys: pytest.CaptureFixture[str], how: str
) -> None:
    assert quire("ask", "How many?", "--as", "a-token", how, "--json", "--config", config_dir / "rag.yaml") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["citations"][0]["uri"] == "hr/leave.md"
    assert json.loads(service[0].content)["stream"] is (how == "--stream")


def test_an_unknown_caller_is_told_what_to_do(
    config_dir: Path, quire: Quire, service: list[httpx.Request], capsys: pytest.CaptureFixture[str]
) -> None:
    assert quire("ask", "How many?", "--as", "nobody", "--config", config_dir / "rag.yaml") == 1
    assert "unknown key; give a name from the key file or a token with --as" in capsys.readouterr().err


def test_an_empty_question_exits_2(config_dir: Path, quire: Quire, service: list[httpx.Request]) -> None:
    assert quire("ask", " ", "--as", "a-token", "--config", config_dir / "rag.yaml") == 2
    assert service == []
