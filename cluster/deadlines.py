"""Calls between deployments: each has a deadline, and one that is not waited for any longer is cancelled."""

import asyncio
from typing import Any

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    ReplicaUnavailableError,
    RequestCancelledError,
)
from ray.serve.handle import DeploymentHandle

from rag.errors import DeadlineExceeded, ModelError, Overloaded, RagError

RETRY_AFTER_S = 2.0

REPLICA_GONE = (RayActorError, DeploymentUnavailableError, ReplicaUnavailableError, RequestCancelledError)


async def call(
    method: DeploymentHandle, *args: object, stage: str, deadline_s: float
) -> Any:  # Any: handles are untyped
    """The method's result.

    Raises DeadlineExceeded when it is late or its replica died, Overloaded at its queue limit, and whatever RagError
    the method itself raised.
    """
    response = method.remote(*args)
    try:
        async with asyncio.timeout(deadline_s):
            return await response
    except (TimeoutError, *REPLICA_GONE) as error:
        raise DeadlineExceeded(stage, deadline_s) from error
    except BackPressureError as error:
        raise Overloaded(stage, RETRY_AFTER_S) from error
    except RayTaskError as error:
        raise own_error(error, stage) from error
    finally:
        response.cancel()  # does nothing to a finished call; frees the replica of one that nobody waits for


def own_error(error: RayTaskError, stage: str) -> RagError:
    """The RagError that the other side raised, or a ModelError that names what else it was."""
    cause = error.cause
    return cause if isinstance(cause, RagError) else ModelError(f"{stage} failed: {type(cause).__name__}: {cause}")
