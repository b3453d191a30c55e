"""The language model's deployment: Ray Serve LLM with vLLM underneath.

The only module that imports `ray.serve.llm` or vLLM, which takes many seconds; callers use `cluster.language_model`.

No `from __future__ import annotations` here: Ray Serve would see a string in place of EngineArgs, not validate it, and
pass a dict.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from ray.llm._internal.common.callbacks.base import CallbackBase
from ray.serve.deployment import Application
from ray.serve.llm import LLMConfig, build_llm_deployment
from ray.serve.llm.deployment import LLMServer
from ray.serve.llm.openai_api_models import ChatCompletionRequest

from cluster.places import GENERATOR, place_path
from rag.config import load_config
from rag.errors import ModelError
from rag.generate.precision import fast_dtype
from rag.models import resolve

MODEL_ID = "generator"


class EngineArgs(BaseModel):
    """The `args` of the application in serve.yaml: how the engine runs on this place's hardware."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: Path = Field(description="rag.yaml; a relative path starts at the project's folder.")
    engine_kwargs: dict[str, Any] = Field({}, description="Arguments of vLLM's engine.")  # Any: vLLM's own vocabulary
    env_vars: dict[str, str] = Field({}, description="Environment of the engine's processes.")
    bundles: list[dict[str, float]] = Field([{"CPU": 1}], description="Resources of the engine's workers.")
    accelerator_type: str | None = Field(None, description="Kind of GPU, where there is one.")


class ModelIsLocal(CallbackBase):  # type: ignore[misc]  # Ray has no type information
    """Tells Ray that the model's directory is on every node, which is what `rag.models.resolve` promises."""

    async def on_before_node_init(self) -> None:
        self.ctx.run_init_node = False


class GeneratorServer(LLMServer):  # type: ignore[misc]  # Ray has no type information
    """vLLM behind Serve, with a method that streams plain text; healthy means that it generates."""

    async def write(
        self, messages: list[dict[str, str]], sampling: Mapping[str, float], scope: str = ""
    ) -> AsyncGenerator[str]:
        """The model's text in pieces. Closing the generator frees the engine's slot. Raises ModelError.

        What the engine keeps of a prompt is used again for prompts of the same scope alone: how soon a first token
        comes tells nobody what others read. On a CPU the seed is left out: vLLM 0.32 ends the whole engine when the
        prompt of a seeded request is read in more than one step ("CPU Generator does not use offset").
        """
        salt = {"cache_salt": scope} if scope else {}
        settings = {name: value for name, value in sampling.items() if name != "seed" or torch.cuda.is_available()}
        begun = messages[-1]["role"] == "assistant"  # the answer: the model goes on behind it
        turn = {"add_generation_prompt": not begun, "continue_final_message": begun}
        request = ChatCompletionRequest(model=MODEL_ID, messages=messages, stream=True, **turn, **settings, **salt)
        replies = await self.chat(request)
        try:
            async for events in replies:
                text = "".join(_text(event) for event in (events if isinstance(events, list) else [events]))
                if text:
                    yield text
        finally:
            await replies.aclose()

    async def check_health(self) -> None:
        await super().check_health()
        async for _ in self.write([{"role": "user", "content": "Hi"}], {"max_tokens": 1, "temperature": 0.0}):
            pass


def build_engine(args: EngineArgs) -> Application:
    """The application `engine`: the configured model. It is apart from the graph, so that a new graph, or another
    index, does not restart it, and so that it can load its weights while documents are indexed."""
    settings = load_config(place_path(args.config))
    directory = resolve(settings.generate.model, settings.models)
    config = LLMConfig(
        model_loading_config={"model_id": MODEL_ID, "model_source": str(directory)},
        engine_kwargs={
            "max_model_len": settings.generate.max_model_tokens,
            "dtype": fast_dtype(),
            **args.engine_kwargs,
        },
        placement_group_config={"bundles": args.bundles},
        accelerator_type=args.accelerator_type,
        runtime_env={"env_vars": args.env_vars},
        experimental_configs={"stream_batching_interval_ms": 20},
        # A task that downloads the model would find it there, after importing the engine once more.
        callback_config={"callback_class": ModelIsLocal},
    )
    return build_llm_deployment(config, deployment_cls=GeneratorServer, override_serve_options={"name": GENERATOR})


def _text(event: object) -> str:
    """The text in one server-sent event of the engine, `data: {...}`. Raises ModelError for an error in it."""
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
    return "".join(pieces)
