"""A call between deployments ends in time, in one of our own errors, and is cancelled when nobody waits for it."""

import asyncio
from collections.abc import Generator

import pytest
from ray.exceptions import RayTaskError
from ray.serve.exceptions import BackPressureError

from cluster.deadlines import call
from rag.errors import DeadlineExceeded, IndexMismatch, ModelError, Overloaded


class Response:
    """A response that ends as it is told to, and remembers whether it was cancelled."""

    def __init__(self, result: object, after_s: float = 0.0) -> None:
        self._result, self._after_s, self.cancelled = result, after_s, False

    def __await__(self) -> Generator[object, None, object]:
        return self._end().__await__()

    async def _end(self) -> object:
        await asyncio.sleep(self._after_s)
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def cancel(self) -> None:
        self.cancelled = True


class Method:
    """A handle's method with one response."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.arguments: tuple[object, ...] = ()

    def remote(self, *arguments: object) -> Response:
        self.arguments = arguments
        return self.response


async def test_a_result_in_time_is_passed_on() -> None:
    method = Method(Response(7))
    assert await call(method, "x", 2, stage="embed", deadline_s=1.0) == 7
    assert method.arguments == ("x", 2)


async def test_a_late_call_is_cancelled_and_named() -> None:
    method = Method(Response(7, after_s=60))
    with pytest.raises(DeadlineExceeded, match=r"rerank did not end within 0\.01 s"):
        await call(method, stage="rerank", deadline_s=0.01)
    assert method.response.cancelled


async def test_a_caller_who_leaves_cancels_the_call() -> None:
    method = Method(Response(7, after_s=60))
    waiting = asyncio.create_task(call(method, stage="rerank", deadline_s=60))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert method.response.cancelled


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (BackPressureError(num_queued_requests=9, max_queued_requests=8), Overloaded),
        (RayTaskError("search", "traceback", IndexMismatch("other version")), IndexMismatch),
        (RayTaskError("search", "traceback", ZeroDivisionError("one over zero")), ModelError),
    ],
)
async def test_what_the_other_side_raised_arrives_as_an_error_of_ours(
    raised: Exception, expected: type[Exception]
) -> None:
    with pytest.raises(expected):
        await call(Method(Response(raised)), stage="search", deadline_s=1.0)
