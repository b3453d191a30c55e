"""The language model as the gateway sees it: what crosses to the engine."""

from collections.abc import AsyncIterator
from typing import Any

from cluster.language_model import RemoteGenerator
from rag.config import GenerateConfig
from rag.data import Message, Prompt


class Engine:
    """Stands for the deployment's handle: keeps what it was sent, and answers in two pieces."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.cancelled = False

    def options(self, **options: bool) -> "Engine":
        assert options == {"stream": True}
        return self

    @property
    def write(self) -> "Engine":
        return self

    def remote(self, *arguments: Any) -> "Engine":
        self.sent.append(arguments)
        return self

    async def __aiter__(self) -> AsyncIterator[str]:
        yield "Two "
        yield "days."

    def cancel(self) -> None:
        self.cancelled = True


async def test_a_prompt_crosses_with_its_sampling_and_its_scope() -> None:
    engine = Engine()
    prompt = Prompt((Message("user", "How long?"),), (), scope="staff of acme")
    pieces = [piece async for piece in RemoteGenerator(engine, GenerateConfig(temperature=0.0)).generate(prompt)]
    assert pieces == ["Two ", "days."]
    ((messages, sampling, scope),) = engine.sent
    assert messages == [{"role": "user", "content": "How long?"}]
    assert sampling["temperature"] == 0.0
    assert scope == "staff of acme"
    assert engine.cancelled
