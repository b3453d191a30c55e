"""Connecting a job to Ray, and saying what went wrong there in this project's own errors."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rag.errors import RagError

MIN_LOCAL_CPUS = 2  # the encoder holds one; parsing needs another


class RayFailure(RagError):
    """A worker, or Ray itself, failed in a way that is no single document's fault."""

    @classmethod
    @contextmanager
    def translated(cls, doing: str) -> Iterator[None]:
        """Raise what our own code raised on a worker as itself, and anything else of Ray's as RayFailure."""
        from ray.exceptions import RayError

        try:
            yield
        except RagError:
            raise
        except Exception as error:
            if (ours := _our_error(error)) is not None:
                raise ours from error
            if isinstance(error, RayError):
                raise cls(f"{doing} failed: {_last_line(error)}") from error
            raise


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """How many encoders fit the cluster."""

    num_encoders: int
    gpus_per_encoder: float


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Ray, connected: inside a job its own cluster, else the one at the address or a running one, else a new one here.

    A connection that was there before stays; one that is made here is closed at the end.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    if address or "RAY_ADDRESS" in os.environ or "RAY_JOB_ID" in os.environ:
        ray.init(address=address, log_to_driver=False)
    else:
        try:
            ray.init(address="auto", logging_level="ERROR", log_to_driver=False)
        except ConnectionError:
            ray.init(
                address="local",
                num_cpus=max(MIN_LOCAL_CPUS, os.cpu_count() or 1),
                include_dashboard=False,
                logging_level="ERROR",
                log_to_driver=False,
            )
    quiet_ray_data()
    try:
        yield
    finally:
        ray.shutdown()


def quiet_ray_data() -> None:
    """Ray Data's own progress bars and plans off: the job shows its own progress."""
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    for name, level in (
        ("ray.data._internal.execution", logging.WARNING),
        ("ray.data._internal.progress", logging.ERROR),
    ):
        logging.getLogger(name).setLevel(level)


def cluster_shape(device: str) -> ClusterShape:
    """One encoder a GPU where there are any and they are wanted, else one a node."""
    import ray

    gpus = int(ray.cluster_resources().get("GPU", 0)) if device != "cpu" else 0
    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    return ClusterShape(gpus, 1.0) if gpus else ClusterShape(max(1, nodes), 0.0)


def _our_error(error: BaseException | None) -> RagError | None:
    """The first of our own errors among the causes; Ray wraps what a worker raises, at times more than once."""
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, RagError):
            return error
        error = getattr(error, "cause", None) or error.__cause__
        seen += 1
    return None


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
