"""The language model inside this process, through transformers. The cluster runs the same model in its own engine."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from rag.config import GenerateConfig
from rag.data import Prompt
from rag.errors import ModelError
from rag.generate.sampling import Sampling, chat_messages, sampling_of


class LanguageModelGenerator:
    """Streams answers of a causal language model with a chat template.

    One answer is computed at a time; others wait for their turn. Equal prompts get equal answers on one machine: the
    seed of the sampling comes from the prompt.
    """

    def __init__(self, model_directory: Path, config: GenerateConfig) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._config = config
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(str(model_directory), local_files_only=True)
            model = AutoModelForCausalLM.from_pretrained(
                str(model_directory), local_files_only=True, dtype=torch.float32
            )
        except (OSError, ValueError) as error:
            raise ModelError(f"{model_directory}: not a causal language model: {error}") from error
        if self._tokenizer.chat_template is None:
            raise ModelError(f"{model_directory}: the tokenizer has no chat template")
        self._model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self._turn = threading.Lock()  # torch's random state is one for the process

    async def generate(self, prompt: Prompt) -> AsyncIterator[str]:
        """The answer in pieces. Closing the iterator stops the model at its next token.

        Raises ModelError for a prompt that leaves no room for an answer in the model's window.
        """
        token_ids = self._token_ids(prompt)
        num_prompt_tokens = len(token_ids)
        sampling = sampling_of(self._config, prompt)
        if num_prompt_tokens + sampling.max_tokens > self._config.max_model_tokens:
            raise ModelError(
                f"the prompt has {num_prompt_tokens} tokens and the answer may have {sampling.max_tokens}; "
                f"the model reads {self._config.max_model_tokens}"
            )
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        stopped = threading.Event()

        def put(piece: str | None) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        def work() -> None:
            try:
                with self._turn:
                    if not stopped.is_set():
                        self._run(token_ids, sampling, put, stopped)
            finally:
                put(None)  # also after an error, which awaiting the worker raises

        worker = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            while (piece := await pieces.get()) is not None:
                if piece:
                    yield piece
            await worker
        finally:
            stopped.set()
            if not worker.done():
                await asyncio.wait([worker])

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, without special tokens."""
        return (
            [len(ids) for ids in self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]] if texts else []
        )

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        """The number of tokens of the prompt with its chat template."""
        return len(self._token_ids(prompt))

    def _token_ids(self, prompt: Prompt) -> list[int]:
        rendered = self._tokenizer.apply_chat_template(
            chat_messages(prompt),
            add_generation_prompt=not prompt.lead,
            continue_final_message=bool(prompt.lead),
            tokenize=True,
            return_dict=True,
        )
        return list(rendered["input_ids"])

    def _run(
        self, token_ids: list[int], sampling: Sampling, put: Callable[[str | None], None], stopped: threading.Event
    ) -> None:
        import torch
        from transformers import StoppingCriteria, StoppingCriteriaList, TextStreamer

        class Pieces(TextStreamer):  # type: ignore[misc]  # mypy skips transformers
            def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
                put(text)

        class Stopped(StoppingCriteria):  # type: ignore[misc]
            def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:  # Any: tensors, mypy skips torch
                return torch.full((input_ids.shape[0],), stopped.is_set(), device=input_ids.device, dtype=torch.bool)

        sampled = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
        greedy = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        torch.manual_seed(sampling.seed)
        inputs = torch.tensor([token_ids], device=self._model.device)
        with torch.inference_mode():
            self._model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=sampling.max_tokens,
                repetition_penalty=sampling.repetition_penalty,
                pad_token_id=self._tokenizer.pad_token_id or self._tokenizer.eos_token_id,
                streamer=Pieces(self._tokenizer, skip_prompt=True, skip_special_tokens=True),
                stopping_criteria=StoppingCriteriaList([Stopped()]),
                **(sampled if sampling.temperature > 0 else greedy),
            )
