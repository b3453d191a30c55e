"""A cross-encoder: reads a question and a passage together and gives one relevance logit."""

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from rag.config import RerankConfig
from rag.embed.forward import length_batches, padded, pick_device, quiet_loading, use_threads
from rag.errors import ModelError


class CrossEncoder:
    """Scores passages with the sequence classifier in a directory.

    A pair that exceeds the window loses the end of its passage, never of its question, and counts in `num_truncated`.
    A question that leaves no room for any passage is first cut to half of the window, and counts in
    `num_questions_truncated`.
    """

    def __init__(self, model_directory: Path, config: RerankConfig) -> None:
        use_threads(config.num_threads)
        self._device = pick_device(config.device)
        self._batch_tokens = config.batch_tokens
        try:
            with quiet_loading():
                self._tokenizer = AutoTokenizer.from_pretrained(model_directory, local_files_only=True)
                model = AutoModelForSequenceClassification.from_pretrained(
                    model_directory, local_files_only=True, dtype=torch.float32
                )
        except (OSError, ValueError) as error:
            raise ModelError(f"{model_directory} holds no cross-encoder that transformers can load: {error}") from error
        if model.config.num_labels != 1:
            raise ModelError(f"{model_directory} gives {model.config.num_labels} logits a pair; expected 1")
        self._model = model.eval().to(self._device)
        positions = getattr(model.config, "max_position_embeddings", config.max_tokens)
        self._max_tokens = min(config.max_tokens, positions, self._tokenizer.model_max_length)
        self.num_truncated = 0
        self.num_questions_truncated = 0

    def __repr__(self) -> str:
        return f"CrossEncoder(max_tokens={self._max_tokens}, device={self._device})"

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """One relevance logit a passage, in order; higher is better. Empty in, empty out."""
        return self.score_many([(query, passages)])[0]

    def score_many(self, queries: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        """The logits of several questions' passages, from batches that mix the questions.

        Equal up to float noise to scoring each question alone.
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
        fills = {"input_ids": self._tokenizer.pad_token_id or 0, "attention_mask": 0, "token_type_ids": 0}
        logits = [0.0] * len(pairs)
        for places in length_batches([len(row) for row in encoded["input_ids"]], self._batch_tokens):
            inputs = {
                name: padded([encoded[name][place] for place in places], fill)
                for name, fill in fills.items()
                if name in encoded  # some models know no token types
            }
            for place, logit in zip(places, self._forward(inputs), strict=True):
                logits[place] = logit
        if not all(map(math.isfinite, logits)):
            raise ModelError(f"the cross-encoder gave a logit that is not finite for one of {len(pairs)} pairs")
        return logits

    def _forward(self, inputs: dict[str, torch.Tensor]) -> list[float]:
        moved = {name: values.to(self._device) for name, values in inputs.items()}
        with torch.inference_mode():
            logits: list[float] = self._model(**moved).logits.squeeze(-1).tolist()
        return logits

    def _fitted(self, question: str) -> str:
        """The question, cut where it leaves no room: truncation="only_second" raises on a question like that."""
        room = self._max_tokens - self._tokenizer.num_special_tokens_to_add(pair=True)
        encoding = self._tokenizer(question, add_special_tokens=False, truncation=False).encodings[0]
        if len(encoding.ids) < room:
            return question
        self.num_questions_truncated += 1
        return question[: encoding.offsets[self._max_tokens // 2 - 1][1]]
