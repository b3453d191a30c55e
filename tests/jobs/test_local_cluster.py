import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.local_cluster import (
    AppState,
    ClusterError,
    ClusterRecord,
    DeploymentState,
    _app_state,
    _forget_address,
    _process_started,
    find_cluster,
    haproxy_environment,
    ray_environment,
    service_url,
    stop_cluster,
)
from rag.errors import ConfigError


def record_for(pid: int, started: str) -> dict[str, object]:
    return {"pid": pid, "started": started, "address": "127.0.0.1:1", "dashboard": "http://127.0.0.1:1", "log": "x"}


def write_record(path: Path, pid: int, started: str) -> None:
    path.write_text(json.dumps(record_for(pid, started)))


def test_no_record_means_no_cluster(tmp_path: Path) -> None:
    said: list[str] = []
    assert find_cluster(tmp_path / "cluster.json") is None
    assert not stop_cluster(tmp_path / "cluster.json", said.append)


def test_a_running_process_is_found_by_id_and_start_time(tmp_path: Path) -> None:
    started = _process_started(os.getpid())
    assert started is not None
    write_record(tmp_path / "cluster.json", os.getpid(), started)
    found = find_cluster(tmp_path / "cluster.json")
    assert isinstance(found, ClusterRecord)
    assert found.pid == os.getpid()


def test_a_process_that_only_has_the_same_id_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        write_record(tmp_path / "cluster.json", other.pid, "another start time")
        assert find_cluster(tmp_path / "cluster.json") is None
        assert not stop_cluster(tmp_path / "cluster.json", lambda _: None)
        assert other.poll() is None
        assert not (tmp_path / "cluster.json").exists()
    finally:
        other.kill()
        other.wait()


def test_a_process_that_waits_to_be_reaped_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not reaped
        assert _process_started(child.pid) is None
    finally:
        child.wait()


def test_stopping_ends_the_recorded_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        write_record(tmp_path / "cluster.json", head.pid, _process_started(head.pid) or "")
        monkeypatch.setattr("ray._common.utils.get_ray_address_file", lambda _: str(tmp_path / "note"))
        monkeypatch.setattr("jobs.local_cluster.ray_program", lambda name: "false")  # Serve is not there to be asked
        assert stop_cluster(tmp_path / "cluster.json", lambda _: None)
        assert head.wait(timeout=5) == -signal.SIGTERM
        assert not (tmp_path / "cluster.json").exists()
    finally:
        head.kill()
        head.wait()


@pytest.mark.parametrize(("noted", "stays"), [("127.0.0.1:1", False), ("10.0.0.1:6379", True)])
def test_only_our_own_address_note_goes_with_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: str, stays: bool
) -> None:
    note = tmp_path / "ray_current_cluster"
    note.write_text(noted)
    monkeypatch.setattr("ray._common.utils.get_ray_address_file", lambda _: str(note))
    _forget_address(ClusterRecord(1, "x", "127.0.0.1:1", "http://127.0.0.1:1", "log"))
    assert note.exists() is stays


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(ClusterError, match=r"cluster\.json"):
        find_cluster(tmp_path / "cluster.json")


def test_ray_programs_do_not_inherit_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    environment = ray_environment()
    assert "RAY_ADDRESS" not in environment
    assert environment["RAY_AUTH_MODE"] == "token"


def test_two_clusters_on_a_machine_share_no_file_and_no_port_of_haproxy() -> None:
    one, other = haproxy_environment(6379), haproxy_environment(6380)
    assert set(one) == set(other)
    assert not set(one.values()) & set(other.values())
    assert all(len(place) < 108 for place in one.values())  # a socket's path


def test_the_service_url_comes_from_the_serve_file(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("http_options: {host: 0.0.0.0, port: 9000}\napplications: []\n")
    assert service_url(file) == "http://127.0.0.1:9000"
    file.write_text("applications: []\n")
    assert service_url(file) == "http://127.0.0.1:8000"
    file.write_text("- a list\n")
    with pytest.raises(ConfigError, match="found list"):
        service_url(file)
    with pytest.raises(ConfigError, match="no such file"):
        service_url(tmp_path / "missing.yaml")


def test_an_apps_state_names_what_it_waits_for_and_why() -> None:
    state = _app_state(
        {
            "status": "DEPLOYING",
            "message": "",
            "deployments": {
                "shard-0": {"status": "HEALTHY", "message": "", "replicas": [{"state": "RUNNING"}]},
                "gateway": {
                    "status": "UPDATING",
                    "message": "no index version is live",
                    "replicas": [{"state": "STARTING"}],
                },
            },
        }
    )
    assert state == AppState(
        "DEPLOYING",
        "",
        (
            DeploymentState("gateway", "UPDATING", 0, "no index version is live"),
            DeploymentState("shard-0", "HEALTHY", 1, ""),
        ),
    )
    assert state.waiting_for == ("gateway",)
    assert state.problems == "gateway: no index version is live"
