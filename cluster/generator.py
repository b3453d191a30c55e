"""The language model: Ray Serve LLM with vLLM underneath. The only module that imports `ray.serve.llm` or vLLM."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from ray.serve.deployment import Application
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle
from ray.serve.llm import LLMConfig, build_llm_deployment
from ray.serve.llm.deployment import LLMServer

from cluster.deadlines import REPLICA_GONE, RETRY_AFTER_S
from rag.config import GenerateConfig
from rag.data import Prompt
from rag.errors import ModelError, Overloaded

MODEL_ID = "generator"


class EngineArgs(BaseModel):
    """How the engine runs on this place's hardware; from `serve.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine_kwargs: dict[str, Any] = Field({}, description="Arguments of vLLM's engine.")  # Any: vLLM's own vocabulary
    env_vars: dict[str, str] = Field({}, description="Environment of the engine's processes.")
    bundles: list[dict[str, float]] = Field([{"CPU": 1}], description="Resources of the engine's workers.")
    accelerator_type: str | None = Field(None, description="Kind of GPU, where there is one.")


class GeneratorServer(LLMServer):  # type: ignore[misc]  # Ray has no type information
    """vLLM behind Serve; healthy means that it generates."""

    async def check_health(self) -> None:
        await super().check_health()
        request = _chat_request([{"role": "user", "content": "Hi"}], max_tokens=1, temperature=0.0)
        async for reply in await self.chat(request):
            if not getattr(reply, "choices", None):
                raise ModelError(f"the engine answered its health check with {type(reply).__name__}")


def bind_generator(model_directory: Path, generate: GenerateConfig, engine: EngineArgs) -> Application:
    """The deployment of the configured model."""
    config = LLMConfig(
        model_loading_config={"model_id": MODEL_ID, "model_source": str(model_directory)},
        engine_kwargs={"max_model_len": generate.max_model_tokens, "dtype": _dtype(), **engine.engine_kwargs},
        placement_group_config={"bundles": engine.bundles},
        accelerator_type=engine.accelerator_type,
        runtime_env={"env_vars": engine.env_vars},
        experimental_configs={"stream_batching_interval_ms": 20},
    )
    return build_llm_deployment(config, deployment_cls=GeneratorServer, override_serve_options={"name": "generator"})


def _dtype() -> str:
    """The engine's number format on this node's hardware, where serve.yaml does not name one.

    A CPU without bfloat16 instructions emulates them: reading a prompt took five times as long as in float32.
    """
    if torch.cuda.is_available() or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported():
        return "bfloat16"
    return "float32"


class RemoteGenerator:
    """Implements `rag.protocols.Generator` over the deployment's handle."""

    def __init__(self, handle: DeploymentHandle, config: GenerateConfig) -> None:
        self._stream = handle.options(stream=True)
        self._sampling = {
            "max_tokens": config.max_output_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "repetition_penalty": config.repetition_penalty,
        }

    async def generate(self, prompt: Prompt) -> AsyncIterator[str]:
        """Pieces of the answer; closing the iterator cancels the request and frees the engine's slot."""
        messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
        response = self._stream.chat.remote(_chat_request(messages, stream=True, **self._sampling))
        try:
            async for events in response:
                for event in events if isinstance(events, list) else [events]:
                    for piece in _pieces(event):
                        yield piece
        except BackPressureError as error:
            raise Overloaded("generate", RETRY_AFTER_S) from error
        except REPLICA_GONE as error:
            raise ModelError("the generator stopped in the middle of an answer; ask again") from error
        finally:
            response.cancel()


def _chat_request(messages: list[dict[str, str]], **settings: object) -> Any:  # Any: a pydantic class without types
    from ray.serve.llm.openai_api_models import ChatCompletionRequest

    return ChatCompletionRequest(model=MODEL_ID, messages=messages, **settings)


def _pieces(event: object) -> list[str]:
    """The text in one server-sent event of the engine, `data: {...}`; an error in it is raised."""
    if not isinstance(event, str):
        raise ModelError(f"the engine refused the request: {event}")
    pieces: list[str] = []
    for line in event.splitlines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        chunk: Mapping[str, Any] = json.loads(data)  # Any: OpenAI's chunk format
        if "error" in chunk:
            raise ModelError(f"the engine failed: {chunk['error']}")
        pieces.extend(choice["delta"].get("content") or "" for choice in chunk.get("choices", []))
    return [piece for piece in pieces if piece]
