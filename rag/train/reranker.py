"""Trains a cross-encoder as a small adapter: the order of each question's candidates, by LoRA over the encoder.

examples -> token ids -> batches of similar length -> listwise loss (on top of the cosine, towards a teacher) -> the
best weights on the dev examples. What is measured is also what `rag/rerank/combine.py` would serve.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from rag.config import RerankConfig
from rag.embed.forward import length_batches, pick_device, quiet_loading
from rag.embed.torch_forward import padded, use_threads
from rag.errors import InputError, ModelError
from rag.rerank.combine import combined_scores
from rag.train.fit import FitState, Precision, Stop, fit, pick_precision, plan_batches
from rag.train.lora import adapted, save_adapter, trained
from rag.train.losses import distillation_loss, listwise_loss, residual_logits
from rag.train.negatives import RankingExample
from rag.train.ranking_quality import RankingQuality, ranking_quality

Ranking = Literal["dense", "first_stage", "model", "residual", "combined"]

MODEL_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0)  # of `rerank.model_weight`, tried on the dev examples


@dataclass(frozen=True, slots=True)
class RerankerOptions:
    """How the adapter is trained."""

    rank: int = 32
    alpha: int = 64
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    warmup_share: float = 0.05  # of the run, until the full learning rate
    max_gradient_norm: float = 1.0
    epochs: int = 1
    max_minutes: float = 10.0  # training and evaluations together
    max_tokens: int = 192  # of a pair; the longer of the two is cut
    batch_tokens: int = 8_192  # padded
    batch_questions: int = 16
    residual_scale: float = 0.0  # of the cosine under the model's logit; 0 trains the logit alone
    distill_weight: float = 0.0  # of the teacher's term; the listwise term has the rest of 1
    evaluate_every: int = 100  # steps
    patience: int = 5  # evaluations without a gain until training stops
    precision: Precision = "auto"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The quality of every ranking of the dev examples after so many steps.

    `dense` is the cosine, `first_stage` the served score without a model, `model` the logit alone, `residual` the
    logit on top of the cosine as it is trained, `combined` the served score.
    """

    step: int
    rankings: Mapping[Ranking, RankingQuality]


@dataclass(frozen=True, slots=True)
class RerankerReport:
    """What a training run did."""

    before: Evaluation
    after: Evaluation  # of the weights that were kept
    evaluations: tuple[Evaluation, ...]
    model_weights: Mapping[float, float]  # `rerank.model_weight` -> MRR of the served score, of the weights kept
    steps: int
    examples: int  # seen in training, repetitions included
    seconds: float
    stopped: Stop
    precision: str
    device: str

    @property
    def examples_per_s(self) -> float:
        return self.examples / self.seconds if self.seconds else 0.0

    @property
    def best_model_weight(self) -> float:
        """The weight with the highest MRR on the dev examples, the lowest of equals."""
        return max(self.model_weights, key=lambda weight: (self.model_weights[weight], -weight))

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        return {
            "before": _evaluation_json(self.before),
            "after": _evaluation_json(self.after),
            "evaluations": [_evaluation_json(evaluation) for evaluation in self.evaluations],
            "combined_mrr_by_model_weight": {str(weight): round(v, 4) for weight, v in self.model_weights.items()},
            "best_model_weight": self.best_model_weight,
            "steps": self.steps,
            "examples": self.examples,
            "examples_per_s": round(self.examples_per_s, 2),
            "seconds": round(self.seconds, 1),
            "stopped": self.stopped,
            "precision": self.precision,
            "device": self.device,
        }


TrainingState = FitState[Evaluation]


class RerankerTrainer:
    """A cross-encoder with an adapter that can be trained and saved.

    `base` is the directory of an encoder; `start` that of an adapter of it to go on from, else the adapter and the
    head are new. Raises ModelError.
    """

    def __init__(self, base: Path, options: RerankerOptions, serving: RerankConfig, start: Path | None = None) -> None:
        use_threads(serving.num_threads)
        torch.manual_seed(options.seed)
        self._options, self._serving = options, serving
        self._device = pick_device(serving.device)
        self.precision = pick_precision(options.precision, self._device)
        try:
            with quiet_loading():
                bare = AutoModelForSequenceClassification.from_pretrained(
                    base, num_labels=1, local_files_only=True, dtype=torch.float32
                )
                self._tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ModelError(f"{base} holds no encoder that transformers can load: {error}") from error
        self._model = adapted(bare, "SEQ_CLS", options.rank, options.alpha, start).to(self._device)
        self._max_tokens = min(
            options.max_tokens,
            getattr(bare.config, "max_position_embeddings", options.max_tokens),
            self._tokenizer.model_max_length,
        )

    def train(
        self,
        train: Sequence[RankingExample],
        dev: Sequence[RankingExample],
        teacher: Sequence[Sequence[float]] | None = None,
        progress: Callable[[TrainingState], None] = lambda state: None,
    ) -> RerankerReport:
        """Train, and keep the weights that rank the dev examples best; what was measured on the way.

        `teacher` holds a score for each passage of each training example. The learning rate falls to zero by the end
        of the epochs or of the time, whichever comes first. Raises ModelError when the loss is not a number.
        """
        if not train or not dev:
            raise InputError(f"{len(train)} examples to train on and {len(dev)} to measure with; expected some of both")
        options, scale = self._options, self._options.residual_scale
        encoded, dev_encoded = self._encoded(train, teacher), self._encoded(dev)
        logits_at: dict[int, list[list[float]]] = {}

        def measure(step: int) -> tuple[Evaluation, float]:
            logits_at[step] = self._logits(dev_encoded)
            evaluation = evaluate_rankings(step, dev, logits_at[step], self._serving, scale)
            return evaluation, evaluation.rankings["residual" if scale else "model"].mrr

        done = fit(
            trained(self._model),
            plan_batches([[len(row) for row in example.input_ids] for example in encoded], options),
            lambda places: self._loss([encoded[place] for place in places]),
            measure,
            options,
            progress,
        )
        return RerankerReport(
            before=done.evaluations[0],
            after=done.best,
            evaluations=done.evaluations,
            model_weights=mrr_by_model_weight(dev, logits_at[done.best.step], self._serving),
            steps=done.steps,
            examples=done.examples,
            seconds=done.seconds,
            stopped=done.stopped,
            precision=self.precision,
            device=self._device,
        )

    def logits(self, examples: Sequence[RankingExample]) -> list[list[float]]:
        """The model's logit for each passage of each example."""
        return self._logits(self._encoded(examples))

    def save(self, directory: Path, base_name: str) -> None:
        """Write the adapter in PEFT's format, in float16, as one of the model of that name."""
        save_adapter(self._model, directory, base_name)

    # ---------------------------------------------------------------- one step

    def _loss(self, batch: Sequence["_Encoded"]) -> torch.Tensor:
        options = self._options
        self._model.train()
        sizes = [len(example.input_ids) for example in batch]
        flat = self._forward([row for example in batch for row in example.rows()])
        logits = torch.nn.utils.rnn.pad_sequence(flat.split(sizes), batch_first=True)
        mask = (torch.arange(max(sizes))[None, :] < torch.tensor(sizes)[:, None]).to(self._device)
        logits = residual_logits(logits, self._rows([e.cosines for e in batch]), options.residual_scale)
        loss = listwise_loss(logits, mask)
        taught = [example.teacher for example in batch if example.teacher is not None]
        if taught:
            distilled = distillation_loss(logits, self._rows(taught), mask)
            loss = (1 - options.distill_weight) * loss + options.distill_weight * distilled
        return loss

    def _rows(self, rows: Sequence[Sequence[float]]) -> torch.Tensor:
        tensors = [torch.tensor(row, dtype=torch.float32) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True).to(self._device)

    def _forward(self, rows: Sequence["_Row"]) -> torch.Tensor:
        """One float32 logit a row."""
        inputs = {
            "input_ids": padded([row.input_ids for row in rows], self._model.config.pad_token_id or 0),
            "attention_mask": padded([[1] * len(row.input_ids) for row in rows], 0),
        }
        if rows[0].token_types is not None:
            inputs["token_type_ids"] = padded([row.token_types or [] for row in rows], 0)
        on_device = {name: values.to(self._device) for name, values in inputs.items()}
        with torch.autocast(self._device, torch.bfloat16, enabled=self.precision == "bfloat16"):
            logits = self._model(**on_device).logits.squeeze(-1)
        return logits.float()

    def _encoded(
        self, examples: Sequence[RankingExample], teacher: Sequence[Sequence[float]] | None = None
    ) -> list["_Encoded"]:
        found = []
        for place, example in enumerate(examples):
            passages = [passage.text for passage in example.passages]
            rows = self._tokenizer(
                [example.question] * len(passages), passages, truncation="longest_first", max_length=self._max_tokens
            )
            cosines = [passage.first.dense for passage in example.passages]
            taught = None if teacher is None else teacher[place]
            found.append(_Encoded(rows["input_ids"], rows.get("token_type_ids"), cosines, taught))
        return found

    # ---------------------------------------------------------------- measuring

    def _logits(self, encoded: Sequence["_Encoded"]) -> list[list[float]]:
        self._model.eval()
        rows = [row for example in encoded for row in example.rows()]
        flat = [0.0] * len(rows)
        with torch.no_grad():
            for places in length_batches([len(row.input_ids) for row in rows], self._options.batch_tokens):
                for place, logit in zip(places, self._forward([rows[p] for p in places]).tolist(), strict=True):
                    flat[place] = logit
        values = iter(flat)
        return [[next(values) for _ in example.input_ids] for example in encoded]


@dataclass(frozen=True, slots=True)
class _Row:
    input_ids: list[int]
    token_types: list[int] | None  # some models know none


@dataclass(frozen=True, slots=True)
class _Encoded:
    """The token ids of an example's pairs, and what its loss needs beside them; the positive first."""

    input_ids: list[list[int]]
    token_types: list[list[int]] | None
    cosines: list[float]
    teacher: Sequence[float] | None

    def rows(self) -> Iterator[_Row]:
        for place, ids in enumerate(self.input_ids):
            yield _Row(ids, self.token_types[place] if self.token_types else None)


def evaluate_rankings(
    step: int,
    examples: Sequence[RankingExample],
    logits: Sequence[Sequence[float]],
    serving: RerankConfig,
    residual_scale: float,
) -> Evaluation:
    """The quality of each ranking of the examples' passages, logits[i] being those of examples[i]."""
    dense = [[passage.first.dense for passage in example.passages] for example in examples]
    residual = [
        [logit + residual_scale * cosine for logit, cosine in zip(*pair, strict=True)]
        for pair in zip(logits, dense, strict=True)
    ]
    rankings: dict[Ranking, RankingQuality] = {
        "dense": ranking_quality(dense),
        "first_stage": ranking_quality(_served(examples, None, serving)),
        "model": ranking_quality(logits),
        "combined": ranking_quality(_served(examples, logits, serving)),
    }
    if residual_scale:
        rankings["residual"] = ranking_quality(residual)
    return Evaluation(step, rankings)


def mrr_by_model_weight(
    examples: Sequence[RankingExample], logits: Sequence[Sequence[float]], serving: RerankConfig
) -> dict[float, float]:
    """The MRR of the served score at each of `MODEL_WEIGHTS`."""
    settings = {weight: serving.model_copy(update={"model_weight": weight}) for weight in MODEL_WEIGHTS}
    return {weight: ranking_quality(_served(examples, logits, each)).mrr for weight, each in settings.items()}


def _served(
    examples: Sequence[RankingExample], logits: Sequence[Sequence[float]] | None, serving: RerankConfig
) -> list[list[float]]:
    return [
        combined_scores([p.first for p in example.passages], None if logits is None else logits[place], serving)
        for place, example in enumerate(examples)
    ]


def _evaluation_json(evaluation: Evaluation) -> dict[str, Any]:  # Any: JSON
    rankings: dict[str, Any] = {name: quality.to_json() for name, quality in evaluation.rankings.items()}
    return {"step": evaluation.step, **rankings}
