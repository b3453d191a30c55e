"""An extractive reader: which words of a passage answer a question, and how sure it is that any do.

question, passage -> the encoder reads both together -> two logits a token, that an answer begins or ends there; the
first token's say that there is none. For each stretch that is asked about (a sentence, a row) the best span in it.

Source: Devlin et al., NAACL 2019 (spans for SQuAD 2.0).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Encoding

from rag.config import RerankConfig
from rag.data import NO_SPAN, Reading, ReadSpan
from rag.embed.forward import open_encoder
from rag.embed.tokenizer import load_tokenizer
from rag.errors import ModelError
from rag.models import SPAN_HEAD

MAX_TOKENS = 320  # of question and passage together
_MAX_QUESTION_TOKENS = 64
MAX_SPAN_TOKENS = 24


class SpanReader:
    """Reads passages with the model in a directory: an encoder, and the head in `SPAN_HEAD`.

    Each passage is a pass of its own with the question, so its numbers do not depend on the others. A passage is cut at
    the window; a stretch behind it scores `NO_SPAN`. Raises ModelError.
    """

    def __init__(self, model_directory: Path, config: RerankConfig) -> None:
        self._model, self._engine = open_encoder(model_directory, "states", config)
        self._max_tokens = min(MAX_TOKENS, self._model.max_positions or MAX_TOKENS)
        self._questions, self._pairs = load_tokenizer(model_directory), load_tokenizer(model_directory)
        self._pairs.enable_truncation(self._max_tokens, strategy="only_second")
        try:
            head = load_file(model_directory / SPAN_HEAD)
            self._weight, self._bias = head["weight"].astype(np.float32), head["bias"].astype(np.float32)
        except (OSError, SafetensorError, KeyError) as error:
            raise ModelError(f"{model_directory} holds no reader: {SPAN_HEAD}: {error}") from error

    def __repr__(self) -> str:
        return f"SpanReader(max_tokens={self._max_tokens}, engine={self._engine})"

    def read(self, question: str, passages: Sequence[Reading]) -> list[list[ReadSpan]]:
        """For each passage the best span of each of its stretches, in order."""
        if not passages:
            return []
        asked = self._question(question)
        texts = [(asked, text_before(passage) + passage.text) for passage in passages]
        encodings: list[Encoding] = self._pairs.encode_batch(texts)
        states = self._model.run([e.ids for e in encodings], [e.type_ids for e in encodings])
        return [
            self._spans(passage, encoding, of_tokens @ self._weight.T + self._bias)
            for passage, encoding, of_tokens in zip(passages, encodings, states, strict=True)
        ]

    def _question(self, question: str) -> str:
        """The question, cut where it would leave a passage little room."""
        encoding = self._questions.encode(question, add_special_tokens=False)
        if len(encoding.ids) <= _MAX_QUESTION_TOKENS:
            return question
        return question[: encoding.offsets[_MAX_QUESTION_TOKENS - 1][1]]

    def _spans(self, passage: Reading, encoding: Encoding, logits: npt.NDArray[np.float32]) -> list[ReadSpan]:
        """`logits` is (tokens, 2)."""
        shift = len(text_before(passage))
        tokens = np.flatnonzero(np.asarray(encoding.sequence_ids, dtype=object) == 1)
        offsets = np.asarray([encoding.offsets[token] for token in tokens]).reshape(-1, 2) - shift
        none = float(logits[0].sum())
        return [self._best(logits[tokens], offsets, stretch, none) for stretch in passage.stretches]

    def _best(
        self,
        logits: npt.NDArray[np.float32],
        offsets: npt.NDArray[np.int64],
        stretch: tuple[int, int],
        none: float,
    ) -> ReadSpan:
        start, end = stretch
        inside = np.flatnonzero((offsets[:, 0] >= start) & (offsets[:, 1] <= end))
        if not len(inside):
            return ReadSpan(start, start, NO_SPAN)
        first, last, score = best_span(logits[inside], MAX_SPAN_TOKENS)
        return ReadSpan(int(offsets[inside[first], 0]), int(offsets[inside[last], 1]), score - none)


def best_span(logits: npt.NDArray[np.float32], max_tokens: int) -> tuple[int, int, float]:
    """(first token, last token, sum of their logits) of the best span of at most so many tokens; logits (tokens, 2)."""
    pairs = logits[:, 0][:, None] + logits[:, 1][None, :]
    allowed = np.triu(np.tril(np.ones_like(pairs, dtype=bool), max_tokens - 1))
    first, last = np.unravel_index(int(np.where(allowed, pairs, -np.inf).argmax()), pairs.shape)
    return int(first), int(last), float(pairs[first, last])


def text_before(passage: Reading) -> str:
    """What stands before the passage's text when it is read."""
    return f"{passage.above}: " if passage.above else ""
