"""One real service for all end-to-end tests: sample corpus, Ray, the real models, vLLM; through the command line."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.sample.build import build_sample
from jobs.client import Client
from rag.config import RagConfig, load_config

PROJECT = Path(__file__).resolve().parents[2]
LOCAL = PROJECT / "serve_configs" / "local"
SAMPLE = PROJECT / "bench" / "sample"


@dataclass(frozen=True, slots=True)
class LiveService:
    """A running service and what it was made from."""

    url: str
    place: Path  # its rag.yaml and serve.yaml
    corpus: Path
    config: RagConfig
    ingested: subprocess.CompletedProcess[str]
    keys: dict[str, str]  # API key of every principal

    @contextmanager
    def client(self, principal: str) -> Iterator[Client]:
        with Client(self.url, self.keys[principal], timeout_s=180.0) as client:
            yield client

    def quire(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return _quire(*arguments, check=check)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    root = tmp_path_factory.mktemp("live")
    corpus, place = root / "sample", root / "place"
    build_sample(corpus)
    url = _write_place(place, root)
    config = load_config(place / "rag.yaml")
    _quire("keys", str(SAMPLE / "principals.yaml"), "--config", str(place / "rag.yaml"))
    keys = {row["subject"]: row["key"] for row in yaml.safe_load((root / "api_keys.yaml").read_text())}
    try:
        _quire("up", "--app", "engine", "--config-dir", str(place))
        ingested = _quire("ingest", "--submit", "--config", str(place / "rag.yaml"), str(corpus), check=False)
        _quire("up", "--config-dir", str(place), "--timeout-s", "600")
        yield LiveService(url, place, corpus, config, ingested, keys)
    finally:
        _quire("down", "--config-dir", str(place))


def _write_place(place: Path, root: Path) -> str:
    """The local place with its folders under `root` and a port of its own, so that a running demo is not disturbed."""
    place.mkdir()
    settings: dict[str, Any] = yaml.safe_load((LOCAL / "rag.yaml").read_text())  # Any: YAML
    settings.update(store=str(root / "store"), var=str(root), models=str((LOCAL / settings["models"]).resolve()))
    settings["auth"]["api_keys_file"] = str(root / "api_keys.yaml")
    settings["sources"]["rules_file"] = str(SAMPLE / "access.yaml")
    settings["rewrite"]["glossary_file"] = str(LOCAL / "glossary.yaml")
    settings["generate"]["evidence_file"] = str(PROJECT / "rag" / "generate" / "evidence.json")
    settings["smoke"]["golden_file"] = str(SAMPLE / "golden.jsonl")
    (place / "rag.yaml").write_text(yaml.safe_dump(settings))
    serve: dict[str, Any] = yaml.safe_load((LOCAL / "serve.yaml").read_text())  # Any: YAML
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        serve["http_options"]["port"] = probe.getsockname()[1]
    for application in serve["applications"]:
        application["args"]["config"] = str(place / "rag.yaml")
    (place / "serve.yaml").write_text(yaml.safe_dump(serve))
    return f"http://127.0.0.1:{serve['http_options']['port']}"


def _quire(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "jobs.cli", *arguments],
        cwd=PROJECT,
        env={key: value for key, value in os.environ.items() if not key.startswith("RAY_")},
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"quire {' '.join(arguments)} -> {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done
