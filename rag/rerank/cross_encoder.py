"""A cross-encoder: reads a question and a passage together and gives one relevance logit."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from rag.config import RerankConfig
from rag.embed.bert_int8 import Int8Bert
from rag.embed.forward import length_batches, pick_device, pick_engine, quiet_loading
from rag.embed.torch_forward import padded, use_threads
from rag.errors import ModelError

Pairs: TypeAlias = Mapping[str, Sequence[Sequence[int]]]  # a tokenizer's output: name -> one row a pair


class CrossEncoder:
    """Scores passages with the sequence classifier in a directory.

    A pair that exceeds the window loses the end of its passage, never of its question, and counts in `num_truncated`.
    A question that leaves no room for any passage is first cut to half of the window, and counts in
    `num_questions_truncated`.
    """

    def __init__(self, model_directory: Path, config: RerankConfig) -> None:
        device = pick_device(config.device)
        self._engine = pick_engine(config.engine, device, model_directory)
        try:
            with quiet_loading():
                self._tokenizer = AutoTokenizer.from_pretrained(model_directory, local_files_only=True)
                settings = AutoConfig.from_pretrained(model_directory, local_files_only=True)
                if settings.num_labels != 1:
                    raise ModelError(f"{model_directory} gives {settings.num_labels} logits a pair; expected 1")
                self._run = self._open(model_directory, device, config)
        except (OSError, ValueError) as error:
            raise ModelError(f"{model_directory} holds no cross-encoder that transformers can load: {error}") from error
        positions = getattr(settings, "max_position_embeddings", config.max_tokens)
        self._max_tokens = min(config.max_tokens, positions, self._tokenizer.model_max_length)
        self.num_truncated = 0
        self.num_questions_truncated = 0

    def __repr__(self) -> str:
        return f"CrossEncoder(max_tokens={self._max_tokens}, engine={self._engine})"

    def _open(self, directory: Path, device: str, config: RerankConfig) -> Callable[[Pairs], list[float]]:
        if self._engine == "torch":
            return _TorchCrossEncoder(directory, device, config).run
        model = Int8Bert(directory, "logit", config.num_threads)
        return lambda pairs: [float(logit) for (logit,) in model.run(pairs["input_ids"], pairs["token_type_ids"])]

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """One relevance logit a passage, in order; higher is better. Empty in, empty out."""
        return self.score_many([(query, passages)])[0]

    def score_many(self, queries: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        """The logits of several questions' passages.

        In 8 bits each pair is a pass of its own, and has the same bits as alone. In torch the questions share batches,
        which pays on a GPU, and the logits are equal up to float noise to those of each question alone.
        """
        pairs = [(question, passage) for question, passages in queries for passage in passages]
        logits = iter(self._logits(pairs))
        return [[next(logits) for _ in passages] for _, passages in queries]

    def _logits(self, pairs: list[tuple[str, str]]) -> list[float]:
        if not pairs:
            return []
        fitted = {question: self._fitted(question) for question in {question for question, _ in pairs}}
        encoded = self._tokenizer(
            [fitted[question] for question, _ in pairs],
            [passage for _, passage in pairs],
            truncation="only_second",
            max_length=self._max_tokens,
            padding=False,
        )
        self.num_truncated += sum(1 for encoding in encoded.encodings if encoding.overflowing)
        logits = self._run(encoded)
        if not all(map(math.isfinite, logits)):
            raise ModelError(f"the cross-encoder gave a logit that is not finite for one of {len(pairs)} pairs")
        return logits

    def _fitted(self, question: str) -> str:
        """The question, cut where it leaves no room: truncation="only_second" raises on a question like that."""
        room = self._max_tokens - self._tokenizer.num_special_tokens_to_add(pair=True)
        encoding = self._tokenizer(question, add_special_tokens=False, truncation=False).encodings[0]
        if len(encoding.ids) < room:
            return question
        self.num_questions_truncated += 1
        return question[: encoding.offsets[self._max_tokens // 2 - 1][1]]


class _TorchCrossEncoder:
    """The logits of tokenized pairs, in padded batches of similar length."""

    def __init__(self, directory: Path, device: str, config: RerankConfig) -> None:
        use_threads(config.num_threads)
        # A GPU multiplies bfloat16 several times faster, and an order of passages needs no more digits.
        dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
        model = AutoModelForSequenceClassification.from_pretrained(directory, local_files_only=True, dtype=dtype)
        self._model = model.eval().to(device)
        self._device, self._batch_tokens = device, config.batch_tokens

    def run(self, pairs: Pairs) -> list[float]:
        """One logit a pair, in order."""
        fills = {"input_ids": self._model.config.pad_token_id or 0, "attention_mask": 0, "token_type_ids": 0}
        logits = [0.0] * len(pairs["input_ids"])
        for places in length_batches([len(row) for row in pairs["input_ids"]], self._batch_tokens):
            inputs = {
                name: padded([pairs[name][place] for place in places], fill).to(self._device)
                for name, fill in fills.items()
                if name in pairs  # some models know no token types
            }
            with torch.inference_mode():
                found = self._model(**inputs).logits.squeeze(-1).tolist()
            for place, logit in zip(places, found, strict=True):
                logits[place] = logit
        return logits
