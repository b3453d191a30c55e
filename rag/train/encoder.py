"""Adapts the encoder to a team's own documents: an adapter over it, taught by questions and the passages they are of.

examples -> batches in which each question meets the passages of all others and one hard negative of each -> a
contrastive loss on the pooled vectors, which dense search compares, and on the token states, which late interaction
compares -> the best weights on held-out documents. The one model then serves both, as before.

Sources: Henderson et al., 2017 (the others of a batch as negatives); Khattab and Zaharia, SIGIR 2020 (the sum of
maximal similarities).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer

from rag.config import EmbedConfig
from rag.embed.forward import length_batches, pick_device, quiet_loading
from rag.embed.sentence import pooling_of
from rag.embed.torch_forward import padded, use_threads
from rag.errors import InputError, ModelError
from rag.train.fit import FitState, Precision, Stop, fit, pick_precision, plan_batches
from rag.train.lora import adapted, save_adapter, trained
from rag.train.negatives import RankingExample, ScoredPassage
from rag.train.ranking_quality import RankingQuality, ranking_quality

_COSINE_SCALE, _INTERACTION_SCALE = 20.0, 30.0  # of similarities under the softmax
_MAX_QUESTION_TOKENS = 48


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """How the adapter is trained."""

    rank: int = 16
    alpha: int = 32
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    warmup_share: float = 0.05  # of the run, until the full learning rate
    max_gradient_norm: float = 1.0
    epochs: int = 1
    max_minutes: float = 10.0  # training and evaluations together
    max_tokens: int = 160  # of a passage
    batch_tokens: int = 16_384  # padded
    batch_questions: int = 32
    interaction_weight: float = 0.5  # of the loss on token states; that on vectors has the rest of 1
    evaluate_every: int = 50  # steps
    patience: int = 5  # evaluations without a gain until training stops
    precision: Precision = "auto"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class EncoderEvaluation:
    """How the held-out questions' passages rank after so many steps: by vectors, and by token states alone."""

    step: int
    dense: RankingQuality
    interaction: RankingQuality

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        return {"step": self.step, "dense": self.dense.to_json(), "interaction": self.interaction.to_json()}


@dataclass(frozen=True, slots=True)
class EncoderReport:
    """What a training run did."""

    before: EncoderEvaluation
    after: EncoderEvaluation  # of the weights that were kept
    evaluations: tuple[EncoderEvaluation, ...]
    steps: int
    examples: int  # seen in training, repetitions included
    seconds: float
    stopped: Stop
    precision: str
    device: str

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "evaluations": [evaluation.to_json() for evaluation in self.evaluations],
            "steps": self.steps,
            "examples": self.examples,
            "seconds": round(self.seconds, 1),
            "stopped": self.stopped,
            "precision": self.precision,
            "device": self.device,
        }


class EncoderTrainer:
    """An encoder with an adapter that can be trained and saved.

    `base` is the directory of an encoder; `start` that of an adapter of it to go on from, else the adapter is new.
    Raises ModelError.
    """

    def __init__(self, base: Path, options: EncoderOptions, serving: EmbedConfig, start: Path | None = None) -> None:
        use_threads(serving.num_threads)
        torch.manual_seed(options.seed)
        self._options, self._serving = options, serving
        self._device = pick_device(serving.device)
        self._pooling = pooling_of(base)
        self.precision = pick_precision(options.precision, self._device)
        try:
            with quiet_loading():
                bare = AutoModel.from_pretrained(base, local_files_only=True, dtype=torch.float32)
                self._tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ModelError(f"{base} holds no encoder that transformers can load: {error}") from error
        self._model = adapted(bare, "FEATURE_EXTRACTION", options.rank, options.alpha, start).to(self._device).eval()
        self._max_tokens = min(
            options.max_tokens,
            getattr(bare.config, "max_position_embeddings", options.max_tokens),
            self._tokenizer.model_max_length,
        )

    def train(
        self,
        train: Sequence[RankingExample],
        dev: Sequence[RankingExample],
        progress: Callable[[FitState[EncoderEvaluation]], None] = lambda state: None,
    ) -> EncoderReport:
        """Train, and keep the weights that rank the dev examples best; what was measured on the way.

        Raises ModelError when the loss is not a number.
        """
        if not train or not dev:
            raise InputError(f"{len(train)} examples to train on and {len(dev)} to measure with; expected some of both")
        drawn = random.Random(self._options.seed)
        lengths = [[len(row) for row in self._passages([p.text for p in example.passages[:2]])] for example in train]
        done = fit(
            trained(self._model),
            plan_batches(lengths, self._options),
            lambda places: self._loss([train[place] for place in places], drawn),
            lambda step: self._measured(step, dev),
            self._options,
            progress,
        )
        return EncoderReport(
            before=done.evaluations[0],
            after=done.best,
            evaluations=done.evaluations,
            steps=done.steps,
            examples=done.examples,
            seconds=done.seconds,
            stopped=done.stopped,
            precision=self.precision,
            device=self._device,
        )

    def save(self, directory: Path, base_name: str) -> None:
        """Write the adapter in PEFT's format, in float16, as one of the model of that name."""
        save_adapter(self._model, directory, base_name)

    def _loss(self, batch: Sequence[RankingExample], drawn: random.Random) -> torch.Tensor:
        """The loss of the batch, without dropout: most texts are seen once, and nothing is gained by blurring them."""
        shown = [example.positive for example in batch]
        shown += [drawn.choice(example.negatives) for example in batch if example.negatives]
        questions = self._encoded(self._questions([example.question for example in batch]))
        passages = self._encoded(self._passages([passage.text for passage in shown]))
        own = torch.arange(len(batch), device=self._device)
        hidden = torch.tensor(also_right(batch, shown), device=self._device)

        def contrastive(similarities: torch.Tensor, scale: float) -> torch.Tensor:
            logits = (scale * similarities).masked_fill(hidden, torch.finfo(torch.float32).min)
            return torch.nn.functional.cross_entropy(logits, own)

        share = self._options.interaction_weight
        dense = contrastive(questions.pooled @ passages.pooled.T, _COSINE_SCALE)
        return (1 - share) * dense + share * contrastive(interaction(questions, passages), _INTERACTION_SCALE)

    # ---------------------------------------------------------------- forward

    def _questions(self, texts: Sequence[str]) -> list[list[int]]:
        return self._rows([self._serving.query_prefix + text for text in texts], _MAX_QUESTION_TOKENS)

    def _passages(self, texts: Sequence[str]) -> list[list[int]]:
        return self._rows([self._serving.passage_prefix + text for text in texts], self._max_tokens)

    def _rows(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        rows: list[list[int]] = self._tokenizer(list(texts), truncation=True, max_length=max_tokens)["input_ids"]
        return rows

    def _encoded(self, rows: Sequence[Sequence[int]]) -> "TokenBatch":
        input_ids = padded(rows, self._model.config.pad_token_id or 0).to(self._device)
        mask = padded([[1] * len(row) for row in rows], 0).to(self._device)
        with torch.autocast(self._device, torch.bfloat16, enabled=self.precision == "bfloat16"):
            states = self._model(input_ids=input_ids, attention_mask=mask).last_hidden_state
        states = states.float()
        if self._pooling == "cls":
            pooled = states[:, 0]
        else:
            pooled = (states * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        normalize = torch.nn.functional.normalize
        return TokenBatch(normalize(pooled, dim=-1), normalize(states, dim=-1), mask.bool())

    # ---------------------------------------------------------------- measuring

    def _measured(self, step: int, dev: Sequence[RankingExample]) -> tuple[EncoderEvaluation, float]:
        """The evaluation, and the value that decides: the mean of both MRR."""
        texts = list(dict.fromkeys(passage.text for example in dev for passage in example.passages))
        rows = self._passages(texts)
        encoded: dict[str, TokenBatch] = {}
        with torch.no_grad():
            for places in length_batches([len(row) for row in rows], self._options.batch_tokens):
                batch = self._encoded([rows[place] for place in places])
                encoded |= {texts[place]: batch.one(at) for at, place in enumerate(places)}
            dense, token = [], []
            for example in dev:
                question = self._encoded(self._questions([example.question]))
                passages = [encoded[passage.text] for passage in example.passages]
                dense.append([float(question.pooled[0] @ passage.pooled[0]) for passage in passages])
                token.append([float(interaction(question, passage)) for passage in passages])
        found = EncoderEvaluation(step, ranking_quality(dense), ranking_quality(token))
        return found, (found.dense.mrr + found.interaction.mrr) / 2


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Texts as the encoder sees them, all vectors of length 1."""

    pooled: torch.Tensor  # (n, dim)
    states: torch.Tensor  # (n, tokens, dim)
    mask: torch.Tensor  # bool (n, tokens); false where a text is over

    def one(self, place: int) -> "TokenBatch":
        """The text in that place, without what it was padded with."""
        length = int(self.mask[place].sum())
        return TokenBatch(
            self.pooled[place : place + 1],
            self.states[place : place + 1, :length],
            self.mask[place : place + 1, :length],
        )


def interaction(questions: TokenBatch, passages: TokenBatch) -> torch.Tensor:
    """(questions, passages): the mean over a question's tokens of the largest cosine to a token of the passage."""
    cosines = torch.einsum("qid,pjd->qpij", questions.states, passages.states)
    best = cosines.masked_fill(~passages.mask[None, :, None, :], -1.0).amax(dim=-1)
    counted = questions.mask[:, None, :]
    return (best * counted).sum(dim=-1) / counted.sum(dim=-1)


def also_right(batch: Sequence[RankingExample], shown: Sequence[ScoredPassage]) -> list[list[bool]]:
    """Row i: which of the passages beside its own answer question i too, so that they are no negatives: texts of a
    chunk that does, be it with its heading or without. The first passages are the questions' own, in order."""
    right: dict[str, set[str]] = {}
    for example in batch:
        right.setdefault(example.question.casefold(), set()).add(example.positive.chunk)
    return [
        [place != at and passage.chunk in right[example.question.casefold()] for at, passage in enumerate(shown)]
        for place, example in enumerate(batch)
    ]
