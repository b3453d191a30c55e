"""The language model as the gateway sees it."""

from collections.abc import AsyncIterator
from dataclasses import asdict

from ray.exceptions import RayTaskError
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle

from cluster.deadlines import REPLICA_GONE, RETRY_AFTER_S, own_error
from rag.config import GenerateConfig
from rag.data import Prompt
from rag.errors import ModelError, Overloaded
from rag.generate.sampling import chat_messages, sampling_of


class RemoteGenerator:
    """Implements `rag.protocols.Generator` over the deployment's handle."""

    def __init__(self, handle: DeploymentHandle, config: GenerateConfig) -> None:
        self._write = handle.options(stream=True).write
        self._config = config

    async def generate(self, prompt: Prompt) -> AsyncIterator[str]:
        """Pieces of the answer; closing the iterator cancels the request and frees the engine's slot."""
        sampling = asdict(sampling_of(self._config, prompt))
        response = self._write.remote(chat_messages(prompt), sampling, prompt.scope)
        try:
            async for piece in response:
                yield piece
        except BackPressureError as error:
            raise Overloaded("generate", RETRY_AFTER_S) from error
        except REPLICA_GONE as error:
            raise ModelError("the generator stopped in the middle of an answer; ask again") from error
        except RayTaskError as error:
            raise own_error(error, "generate") from error
        finally:
            response.cancel()
