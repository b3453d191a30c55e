"""Trains a cross-encoder as a small adapter: the order of each question's candidates, by LoRA over the encoder.

examples -> token ids -> batches of similar length -> listwise loss (on top of the cosine, towards a teacher) -> the
best weights on the dev examples. What is measured is also what `rag/rerank/combine.py` would serve.

Source of LoRA: Hu et al., ICLR 2022.
"""

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from rag.config import RerankConfig
from rag.embed.forward import length_batches, pick_device, quiet_loading
from rag.embed.torch_forward import padded, use_threads
from rag.errors import InputError, ModelError
from rag.rerank.combine import combined_scores
from rag.train.losses import distillation_loss, listwise_loss, residual_logits
from rag.train.negatives import RankingExample

Precision = Literal["auto", "bfloat16", "float32"]
Ranking = Literal["dense", "first_stage", "model", "residual", "combined"]
Stop = Literal["epochs", "time", "no_gain"]

TARGET_MODULES = ("query", "key", "value", "dense")
MODEL_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0)  # of `rerank.model_weight`, tried on the dev examples
WEIGHTS, SETTINGS = "adapter_model.safetensors", "adapter_config.json"
_CLEARLY_FASTER = 1.3
_BATCHES_A_BUCKET = 32  # sorted by length together: wide enough to save padding, narrow enough to stay shuffled


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
class RankingQuality:
    """How well the positives rank among their candidates; a tie counts against them."""

    mrr: float
    hit_at_1: float


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


@dataclass(frozen=True, slots=True)
class TrainingState:
    """How far a run is: told after each step, and after each evaluation with what it found."""

    step: int
    total_steps: int
    seconds: float
    loss: float
    evaluation: Evaluation | None = None


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
        self._model = _adapted(bare, options, start).to(self._device)
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
        options, started = self._options, time.monotonic()
        encoded, dev_encoded = self._encoded(train, teacher), self._encoded(dev)
        batches = plan_batches([[len(row) for row in example.input_ids] for example in encoded], options)
        optimizer = torch.optim.AdamW(self._trained(), lr=options.learning_rate, weight_decay=options.weight_decay)

        before = best = self._measured(0, dev, dev_encoded)
        evaluations = [before.evaluation]
        progress(TrainingState(0, len(batches), time.monotonic() - started, 0.0, before.evaluation))
        # What it took so far, the last evaluation takes again.
        deadline_s = max(options.max_minutes * 60 - (time.monotonic() - started), 0.0)
        since_gain = seen = step = 0
        stopped: Stop | None = None
        while stopped is None:
            elapsed_s = time.monotonic() - started
            done = max(step / len(batches), min(elapsed_s / deadline_s, 1.0) if deadline_s else 1.0)
            for group in optimizer.param_groups:
                group["lr"] = options.learning_rate * rate_at(done, options.warmup_share)
            loss = self._backward([encoded[place] for place in batches[step]])
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            seen += len(batches[step])
            step += 1
            elapsed_s = time.monotonic() - started
            if step == len(batches):
                stopped = "epochs"
            elif elapsed_s >= deadline_s:
                stopped = "time"
            found = None
            if stopped or step % options.evaluate_every == 0:
                measured = self._measured(step, dev, dev_encoded)
                found = measured.evaluation
                evaluations.append(found)
                since_gain += 1
                if measured.value > best.value:
                    best, since_gain = measured, 0
                if since_gain >= options.patience:
                    stopped = stopped or "no_gain"
            progress(TrainingState(step, len(batches), elapsed_s, loss, found))
        self._restore(best.weights)
        return RerankerReport(
            before=before.evaluation,
            after=best.evaluation,
            evaluations=tuple(evaluations),
            model_weights=mrr_by_model_weight(dev, best.logits, self._serving),
            steps=step,
            examples=seen,
            seconds=time.monotonic() - started,
            stopped=stopped,
            precision=self.precision,
            device=self._device,
        )

    def logits(self, examples: Sequence[RankingExample]) -> list[list[float]]:
        """The model's logit for each passage of each example."""
        return self._logits(self._encoded(examples))

    def save(self, directory: Path, base_name: str) -> None:
        """Write the adapter in PEFT's format, in float16, as one of the model of that name."""
        self._model.save_pretrained(directory, save_embedding_layers=False)
        (directory / "README.md").unlink(missing_ok=True)  # PEFT's own is an empty form
        path = directory / SETTINGS
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings["base_model_name_or_path"] = base_name  # not the folder of this machine
        settings["target_modules"] = sorted(settings["target_modules"])
        settings["modules_to_save"] = sorted(set(settings["modules_to_save"] or ()))
        path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        weights = {name: tensor.half().contiguous() for name, tensor in load_file(directory / WEIGHTS).items()}
        save_file(weights, directory / WEIGHTS, metadata={"format": "pt"})

    # ---------------------------------------------------------------- one step

    def _backward(self, batch: Sequence["_Encoded"]) -> float:
        """The loss of the batch; its clipped gradients are in the parameters."""
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
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ModelError(f"the loss is {value}; a lower learning rate than {options.learning_rate} may help")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._trained(), options.max_gradient_norm)
        return value

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

    def _measured(self, step: int, dev: Sequence[RankingExample], encoded: Sequence["_Encoded"]) -> "_Measured":
        logits = self._logits(encoded)
        scale = self._options.residual_scale
        evaluation = evaluate_rankings(step, dev, logits, self._serving, scale)
        weights = [parameter.detach().cpu().clone() for parameter in self._trained()]
        return _Measured(evaluation, evaluation.rankings["residual" if scale else "model"].mrr, logits, weights)

    # ---------------------------------------------------------------- weights

    def _trained(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def _restore(self, weights: Sequence[torch.Tensor]) -> None:
        with torch.no_grad():
            for parameter, kept in zip(self._trained(), weights, strict=True):
                parameter.copy_(kept)


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


@dataclass(frozen=True, slots=True)
class _Measured:
    """The weights of one moment with what they are worth; the one with the highest `value` is kept."""

    evaluation: Evaluation
    value: float  # MRR of the score that is trained
    logits: list[list[float]]
    weights: list[torch.Tensor]


def pick_precision(precision: Precision, device: str) -> str:
    """`bfloat16` or `float32`; `auto` takes bfloat16 on a GPU, and on a CPU where it proves to be clearly faster.

    The CPU's own flags do not tell: many that name bfloat16 multiply it no faster than float32.
    """
    if precision != "auto":
        return precision
    if device.startswith("cuda"):
        return "bfloat16"
    return "bfloat16" if _seconds(torch.bfloat16) * _CLEARLY_FASTER < _seconds(torch.float32) else "float32"


def _seconds(dtype: torch.dtype) -> float:
    """The shortest of a few products of the size that a small encoder's layers have, on the CPU."""
    states, weights = torch.ones(1024, 384, dtype=dtype), torch.ones(1536, 384, dtype=dtype)
    times = []
    for _ in range(6):
        started = time.perf_counter()
        torch.nn.functional.linear(states, weights)
        times.append(time.perf_counter() - started)
    return min(times)


def rate_at(done: float, warmup_share: float) -> float:
    """The share of the full learning rate when that share of the run is done: up in a line, and down to 0."""
    if done < warmup_share:
        return max(done / warmup_share, 0.01)
    return (1.0 - done) / (1.0 - warmup_share)


def plan_batches(lengths: Sequence[Sequence[int]], options: RerankerOptions) -> list[list[int]]:
    """The places of the examples, epoch by epoch, in batches drawn by the seed; lengths[i] are those of i's pairs.

    A batch holds examples of similar length, at most `batch_questions`, and at most `batch_tokens` with the padding;
    an example that is larger is a batch of its own.
    """
    drawn = random.Random(options.seed)
    longest = [max(row) for row in lengths]
    planned: list[list[int]] = []
    for _ in range(options.epochs):
        places = list(range(len(lengths)))
        drawn.shuffle(places)
        batches: list[list[int]] = []
        size = options.batch_questions * _BATCHES_A_BUCKET
        for start in range(0, len(places), size):
            bucket = sorted(places[start : start + size], key=lambda place: -longest[place])
            batches += _filled(bucket, lengths, longest, options)
        drawn.shuffle(batches)
        planned += batches
    return planned


def _filled(
    longest_first: Sequence[int], lengths: Sequence[Sequence[int]], longest: Sequence[int], options: RerankerOptions
) -> list[list[int]]:
    batches: list[list[int]] = []
    num_pairs = 0
    for place in longest_first:
        num_pairs += len(lengths[place])
        full = not batches or len(batches[-1]) == options.batch_questions
        if full or num_pairs * longest[batches[-1][0]] > options.batch_tokens:
            batches.append([])
            num_pairs = len(lengths[place])
        batches[-1].append(place)
    return batches


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


def ranking_quality(scores: Sequence[Sequence[float]]) -> RankingQuality:
    """The quality of rankings by these scores, the positive's in place 0 of each."""
    ranks = [1 + sum(score >= row[0] for score in row[1:]) for row in scores]
    return RankingQuality(mrr=fmean(1 / rank for rank in ranks), hit_at_1=fmean(rank == 1 for rank in ranks))


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


def _adapted(bare: torch.nn.Module, options: RerankerOptions, start: Path | None) -> PeftModel:
    if start is not None:
        if not (start / SETTINGS).is_file():
            raise ModelError(f"{start} holds no adapter: {SETTINGS} is missing")
        try:
            return PeftModel.from_pretrained(bare, start, is_trainable=True)
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"the adapter in {start} is not one of this encoder: {error}") from error
    settings = LoraConfig(
        task_type="SEQ_CLS",
        r=options.rank,
        lora_alpha=options.alpha,
        lora_dropout=0.0,
        target_modules=list(TARGET_MODULES),
        modules_to_save=["classifier"],
    )
    try:
        return get_peft_model(bare, settings)
    except ValueError as error:
        raise ModelError(f"the encoder has no layers named {', '.join(TARGET_MODULES)}: {error}") from error


def _evaluation_json(evaluation: Evaluation) -> dict[str, Any]:  # Any: JSON
    rankings: dict[str, Any] = {
        name: {"mrr": round(quality.mrr, 4), "hit_at_1": round(quality.hit_at_1, 4)}
        for name, quality in evaluation.rankings.items()
    }
    return {"step": evaluation.step, **rankings}
