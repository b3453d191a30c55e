"""A Ray cluster and the Serve app on this machine: started once, found again by its record, and ended alone.

`ray stop` would end every Ray process of the machine. Here the head node runs under one process of our own
(`ray start --block`), whose end takes its children with it, and its id is kept in `var/cluster.json`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from rag.errors import ConfigError, RagError

PROJECT_ROOT = Path(__file__).resolve().parent.parent
GCS_PORT, DASHBOARD_PORT = 6379, 8265
START_S, STOP_S, POLL_S = 120.0, 30.0, 1.0

Progress = Callable[[str], None]


class ClusterError(RagError):
    """The local cluster or the app on it did not come up or go down."""


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The Ray head that `quire up` started, as `var/cluster.json` keeps it."""

    pid: int
    started: str  # when the operating system says it began: a re-used process id does not match
    address: str  # of the control store, for ray.init
    dashboard: str  # for jobs and Serve
    log: str


def ray_program(name: str) -> str:
    """Ray's own command-line program of the environment that runs this code."""
    return str(Path(sys.executable).parent / name)


def ray_environment() -> dict[str, str]:
    """The variables under which Ray's programs and workers run: token authentication on, our modules importable."""
    inherited = {key: value for key, value in os.environ.items() if key not in {"RAY_ADDRESS", "RAY_JOB_ID"}}
    path = os.pathsep.join(part for part in (str(PROJECT_ROOT), inherited.get("PYTHONPATH", "")) if part)
    return {
        **inherited,
        "PYTHONPATH": path,
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        # A question takes several hops between replicas. Their code is asynchronous and leaves computing to threads, so
        # it needs no event loop of its own, and gRPC between replicas is quicker than calls of actors. HAProxy hands
        # requests straight to the gateway's own server: Serve's Python proxy is a hop more.
        "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
        "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
        "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
        "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "100",
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_HAPROXY_METRICS_ENABLED": "0",  # the gateway counts requests itself, beside Serve's other metrics
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "3",
        # Threads that wait for work must not take the cores from the replica that has some.
        "OMP_WAIT_POLICY": "PASSIVE",
        "RAY_worker_niceness": "0",
    }


def haproxy_environment(gcs_port: int) -> dict[str, str]:
    """HAProxy's own files and ports, apart from those of other clusters on this machine."""
    folder = Path(tempfile.gettempdir()) / f"quire-haproxy-{gcs_port}"  # a socket's path has at most 108 characters
    return {
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "admin.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "server-state"),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(_free_port(0)),
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(_free_port(0)),
    }


def auth_token() -> str:
    """The token that Ray's job and Serve interfaces ask for; made once for this user."""
    shown = _call([ray_program("ray"), "get-auth-token", "--generate"])
    return shown.strip()


# ---------------------------------------------------------------- the Ray head


def find_cluster(record_file: Path) -> ClusterRecord | None:
    """The running cluster of the record, or None when there is none (any more)."""
    try:
        record = ClusterRecord(**json.loads(record_file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(f"{record_file}: not a cluster record: {error}") from error
    return record if _process_started(record.pid) == record.started else None


def start_cluster(record_file: Path, progress: Progress, num_cpus: int | None = None) -> ClusterRecord:
    """A running Ray head on this machine: the recorded one, or a new one whose record is written."""
    if (running := find_cluster(record_file)) is not None:
        progress(f"Ray runs at {running.address}")
        return running
    token = auth_token()
    port, dashboard_port = _free_port(GCS_PORT), _free_port(DASHBOARD_PORT)
    log = record_file.with_name("ray.log")
    record_file.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(ray_program("ray"), "start", "--head", "--block", "--disable-usage-stats"),
        f"--port={port}",
        *("--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard_port}"),
        *([f"--num-cpus={num_cpus}"] if num_cpus else []),
    ]
    with log.open("ab") as output:
        head = subprocess.Popen(
            command,
            cwd=PROJECT_ROOT,
            env={**ray_environment(), **haproxy_environment(port)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C on the terminal ends quire, not the cluster
        )
    record = ClusterRecord(
        pid=head.pid,
        started=_process_started(head.pid) or "",
        address=f"{_node_address()}:{port}",
        dashboard=f"http://127.0.0.1:{dashboard_port}",
        log=str(log),
    )
    record_file.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")
    deadline = time.monotonic() + START_S
    progress(f"starting Ray; its log is {log}")
    while not _dashboard_answers(record, token):
        if head.poll() is not None:
            record_file.unlink(missing_ok=True)
            raise ClusterError(f"Ray did not start (exit code {head.returncode}): {_last_lines(log)}")
        if time.monotonic() > deadline:
            stop_cluster(record_file, progress)
            raise ClusterError(f"Ray's dashboard did not answer within {START_S:.0f} s; see {log}")
        time.sleep(POLL_S)
    progress(f"Ray runs at {record.address}, dashboard {record.dashboard}")
    return record


def stop_cluster(record_file: Path, progress: Progress) -> bool:
    """End the recorded cluster and all that runs on it; False when none was running."""
    record = find_cluster(record_file)
    if record is None:
        record_file.unlink(missing_ok=True)
        return False
    with suppress(RagError):  # what can't be shut down politely ends with its cluster
        _call([ray_program("serve"), "shutdown", "--yes", "--address", record.dashboard])
        _wait_until_serve_is_gone(record)
    progress("stopping Ray")
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(record.pid, sign)
        deadline = time.monotonic() + STOP_S
        while _process_started(record.pid) == record.started and time.monotonic() < deadline:
            time.sleep(0.2)
        if _process_started(record.pid) != record.started:
            _forget_address(record)
            record_file.unlink(missing_ok=True)
            return True
    raise ClusterError(f"process {record.pid} does not end; its record stays in {record_file}")


def _forget_address(record: ClusterRecord) -> None:
    """Remove the note by which `ray.init()` finds this cluster: only `ray stop` does so itself, and a stale one makes
    the next `ray.init()` of anybody on the machine look for a cluster that is gone."""
    from ray._common.utils import get_ray_address_file

    note = Path(get_ray_address_file(None))
    with suppress(FileNotFoundError):
        if note.read_text(encoding="utf-8").strip() == record.address:
            note.unlink()


# ---------------------------------------------------------------- the Serve app on it


@dataclass(frozen=True, slots=True)
class DeploymentState:
    """How one deployment of the app does."""

    name: str
    status: str  # HEALTHY, UPDATING, UNHEALTHY, ...
    replicas: int
    message: str


@dataclass(frozen=True, slots=True)
class AppState:
    """How the Serve app does, with its deployments."""

    status: str  # RUNNING, DEPLOYING, DEPLOY_FAILED, ...
    message: str
    deployments: tuple[DeploymentState, ...]

    @property
    def waiting_for(self) -> tuple[str, ...]:
        return tuple(deployment.name for deployment in self.deployments if deployment.status != "HEALTHY")

    @property
    def problems(self) -> str:
        """What the app and its unhealthy deployments say, one line each."""
        lines = [self.message] if self.message else []
        lines += [f"{d.name}: {d.message}" for d in self.deployments if d.status != "HEALTHY" and d.message]
        return "\n".join(lines)


def service_url(serve_file: Path) -> str:
    """Where the app of this Serve config file answers."""
    settings = _load_serve_file(serve_file)
    options = settings.get("http_options") or {}
    host = str(options.get("host", "127.0.0.1"))
    return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{options.get('port', 8000)}"


def deploy(record: ClusterRecord, serve_file: Path, progress: Progress, only: str | None = None) -> None:
    """Hand the Serve config file to the cluster, or one app of it beside those that run; apps that run as it says are
    left alone. Raises ConfigError for an app that is not in it, ClusterError when Serve refuses it."""
    settings = _load_serve_file(serve_file)
    names = _app_names(settings)
    if only is not None and only not in names:
        raise ConfigError(f"{serve_file}: no app {only!r}; it has {', '.join(names)}")
    running = app_states(record, auth_token()) if only else {}
    settings["applications"] = [
        app for app in settings["applications"] if only in (None, app.get("name")) or app.get("name") in running
    ]
    progress(f"deploying {', '.join(_app_names(settings))} of {serve_file}")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as chosen:
        yaml.safe_dump(settings, chosen)
        chosen.flush()
        _call([ray_program("serve"), "deploy", chosen.name, "--address", record.dashboard])


def wait_until_healthy(record: ClusterRecord, serve_file: Path, timeout_s: float, progress: Progress) -> None:
    """Returns when every app of the file is healthy. Raises ClusterError with the reason why not."""
    names = _app_names(_load_serve_file(serve_file))
    token, deadline, shown = auth_token(), time.monotonic() + timeout_s, ""
    while True:
        states = app_states(record, token)
        current = {name: states.get(name, AppState("DEPLOYING", "", ())) for name in names}
        if current and all(state.status == "RUNNING" for state in current.values()):
            return
        for name, state in current.items():
            if state.status == "DEPLOY_FAILED":
                raise ClusterError(f"the app {name!r} failed to deploy:\n{state.problems}")
        waiting = sorted({name for state in current.values() for name in state.waiting_for})
        if (line := f"waiting for {', '.join(waiting) or 'the app to be built'}") != shown:
            progress(line)
            shown = line
        if time.monotonic() > deadline:
            problems = "\n".join(state.problems for state in current.values() if state.problems)
            raise ClusterError(f"not healthy after {timeout_s:.0f} s, {line}\n{problems}".rstrip())
        time.sleep(POLL_S)


def _app_names(settings: Mapping[str, Any]) -> list[str]:  # Any: YAML, checked by Ray itself
    return [str(app.get("name", "default")) for app in settings.get("applications", [])]


def app_states(record: ClusterRecord, token: str) -> Mapping[str, AppState]:
    """The state of every app on the cluster, by name."""
    try:
        response = httpx.get(
            f"{record.dashboard}/api/serve/applications/", headers={"Authorization": f"Bearer {token}"}, timeout=30.0
        )
        response.raise_for_status()
        applications = response.json().get("applications", {})
    except httpx.HTTPError as error:
        raise ClusterError(f"{record.dashboard} does not say how the app does: {error}") from error
    return {str(name): _app_state(app) for name, app in applications.items()}


def _app_state(app: Mapping[str, Any]) -> AppState:  # Any: JSON of Ray's dashboard
    deployments = tuple(
        DeploymentState(
            name=str(name),
            status=str(details.get("status", "")),
            replicas=sum(replica.get("state") == "RUNNING" for replica in details.get("replicas", [])),
            message=str(details.get("message", "")),
        )
        for name, details in sorted((app.get("deployments") or {}).items())
    )
    return AppState(status=str(app.get("status", "")), message=str(app.get("message", "")), deployments=deployments)


def _wait_until_serve_is_gone(record: ClusterRecord) -> None:
    """Replicas that are still answering get a moment: a cluster that ends under them cuts their answers."""
    token, deadline = auth_token(), time.monotonic() + STOP_S
    while app_states(record, token) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _load_serve_file(serve_file: Path) -> dict[str, Any]:  # Any: YAML, checked by Ray itself
    try:
        loaded = yaml.safe_load(serve_file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{serve_file}: no such file") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{serve_file}: not readable as YAML: {error}") from error
    if not isinstance(loaded, dict):
        raise ConfigError(f"{serve_file}: expected a Serve config file, found {type(loaded).__name__}")
    return loaded


# ---------------------------------------------------------------- processes and ports


def _call(command: list[str]) -> str:
    """What the program prints. Raises ClusterError with its last words when it fails."""
    done = subprocess.run(command, cwd=PROJECT_ROOT, env=ray_environment(), capture_output=True, text=True)
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip())[-2_000:]
        raise ClusterError(f"{' '.join(Path(part).name if '/' in part else part for part in command[:2])}: {words}")
    return done.stdout


def _process_started(pid: int) -> str | None:
    """When the process began, in the system's own words; None when it is gone or only waits to be reaped."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in {"Z", "X"} else fields[19]  # state; starttime, field 22 of proc(5)
    shown = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return None if not shown or shown.startswith("Z") else shown.partition(" ")[2].strip()


def _node_address() -> str:
    """The address under which Ray's processes find each other; Ray turns 127.0.0.1 into it in any case."""
    from ray.util import get_node_ip_address

    return str(get_node_ip_address())


def _free_port(preferred: int) -> int:
    """The preferred port when nothing listens on it, else any free one."""
    for port in dict.fromkeys((preferred, 0)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(("", port))  # on every address: Ray listens on more than one
                return int(probe.getsockname()[1])
    raise ClusterError("no free port on this machine")


def _dashboard_answers(record: ClusterRecord, token: str) -> bool:
    with suppress(ClusterError):
        app_states(record, token)
        return True
    return False


def _last_lines(log: Path, count: int = 5) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
