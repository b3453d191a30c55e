"""Trains the extractive reader: an adapter over the encoder, and a head of two logits a token.

examples -> pairs of question and passage in batches of similar length -> cross-entropy of where the answer begins and
ends, the first token standing for none -> the weights with the best answers on held-out documents.

Source: Devlin et al., NAACL 2019.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from rag.config import RerankConfig
from rag.data import Reading
from rag.embed.forward import pick_device, quiet_loading
from rag.embed.torch_forward import padded, use_threads
from rag.errors import InputError, ModelError
from rag.evaluate.calibration import area_under_roc
from rag.evaluate.generation import normal_answer, token_f1
from rag.generate.reader import MAX_SPAN_TOKENS, best_span, text_before
from rag.models import SPAN_HEAD
from rag.train.fit import FitState, Precision, Stop, fit, pick_precision, plan_batches
from rag.train.lora import adapted, save_adapter, trained
from rag.train.span_examples import SpanExample


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """How the adapter is trained."""

    rank: int = 64
    alpha: int = 128
    learning_rate: float = 6e-4
    weight_decay: float = 0.01
    warmup_share: float = 0.05  # of the run, until the full learning rate
    max_gradient_norm: float = 1.0
    epochs: int = 4  # each with negatives, windows and tables of its own
    max_minutes: float = 60.0  # training and evaluations together
    max_tokens: int = 224  # of question and passage
    batch_tokens: int = 8_192  # padded
    batch_questions: int = 32
    evaluate_every: int = 250  # steps
    patience: int = 5  # evaluations without a gain until training stops
    precision: Precision = "auto"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ReaderEvaluation:
    """How held-out questions are answered from passages of which one, or none, holds the answer."""

    step: int
    exact: float  # share of the answerable whose best span is the answer, normalized
    f1: float  # of its words
    separated: float  # share of (answerable, unanswerable) pairs in which the first has the higher score: the AUC

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        values = {name: round(getattr(self, name), 4) for name in ("exact", "f1", "separated")}
        return {"step": self.step, **values}


@dataclass(frozen=True, slots=True)
class ReaderReport:
    """What a training run did."""

    before: ReaderEvaluation
    after: ReaderEvaluation  # of the weights that were kept
    evaluations: tuple[ReaderEvaluation, ...]
    steps: int
    examples: int
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


class ReaderTrainer:
    """An encoder with an adapter and a span head that can be trained and saved.

    `base` is the directory of an encoder; `start` that of an adapter with its head to go on from. Raises ModelError.
    """

    def __init__(self, base: Path, options: ReaderOptions, serving: RerankConfig, start: Path | None = None) -> None:
        use_threads(serving.num_threads)
        torch.manual_seed(options.seed)
        self._options = options
        self._device = pick_device(serving.device)
        self.precision = pick_precision(options.precision, self._device)
        try:
            with quiet_loading():
                # Matrix products in bfloat16 are fast on a CPU that has them; its fused attention is not, backwards.
                bare = AutoModel.from_pretrained(
                    base, local_files_only=True, dtype=torch.float32, attn_implementation="eager"
                )
                self._tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ModelError(f"{base} holds no encoder that transformers can load: {error}") from error
        self._head = torch.nn.Linear(bare.config.hidden_size, 2).to(self._device)
        if self.precision == "bfloat16":
            bare = bare.to(torch.bfloat16)  # frozen; what is trained stays in float32
        self._model = adapted(bare, "FEATURE_EXTRACTION", options.rank, options.alpha, start).to(self._device)
        if start is not None:
            try:
                self._head.load_state_dict(load_file(start / SPAN_HEAD))
            except OSError as error:
                raise ModelError(f"{start} holds no reader: {error}") from error

    def train(
        self,
        train: Sequence[SpanExample],
        dev: Sequence[Sequence[SpanExample]],
        progress: Callable[[FitState[ReaderEvaluation]], None] = lambda state: None,
    ) -> ReaderReport:
        """Train, and keep the weights that answer the dev questions best.

        Each of `dev` are the passages of one question. Raises ModelError when the loss is not a number.
        """
        if not train or not dev:
            raise InputError(f"{len(train)} examples to train on and {len(dev)} to measure with; expected some of both")
        encoded = [self._encoded(example) for example in train]
        done = fit(
            [*trained(self._model), *self._head.parameters()],
            plan_batches([[len(one.token_ids)] for one in encoded], self._options),
            lambda places: self._loss([encoded[place] for place in places]),
            lambda step: self._measured(step, dev),
            self._options,
            progress,
        )
        return ReaderReport(
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
        """Write the adapter in PEFT's format, in float16, as one of the model of that name, and the head beside it."""
        save_adapter(self._model, directory, base_name)
        head = {name: value.detach().cpu() for name, value in self._head.state_dict().items()}
        save_file(head, directory / SPAN_HEAD)

    # ---------------------------------------------------------------- one step

    def _encoded(self, example: SpanExample) -> "_Encoded":
        """The pair as token ids, and the tokens of the answer; the first token where the window holds none."""
        before = text_before(Reading(example.above, example.passage, ()))
        encoding = self._tokenizer(
            example.question,
            before + example.passage,
            truncation="only_second",
            max_length=self._options.max_tokens,
            return_offsets_mapping=True,
        )
        tokens: list[int] = []
        if example.answer is not None:
            start, end = (place + len(before) for place in example.answer)
            tokens = [
                token
                for token, (offsets, side) in enumerate(
                    zip(encoding["offset_mapping"], encoding.sequence_ids(), strict=True)
                )
                if side == 1 and offsets[0] < end and offsets[1] > start
            ]
        span = (tokens[0], tokens[-1]) if tokens else (0, 0)
        offsets = [
            (begin - len(before), stop - len(before)) if side == 1 else None
            for (begin, stop), side in zip(encoding["offset_mapping"], encoding.sequence_ids(), strict=True)
        ]
        return _Encoded(encoding["input_ids"], encoding["token_type_ids"], span, offsets)

    def _logits(self, batch: Sequence["_Encoded"]) -> torch.Tensor:
        """(n, tokens, 2); the lowest number where no answer may stand: in the question and behind the passage."""
        ids = padded([one.token_ids for one in batch], self._model.config.pad_token_id or 0).to(self._device)
        types = padded([one.types for one in batch], 0).to(self._device)
        mask = padded([[1] * len(one.token_ids) for one in batch], 0).to(self._device)
        with torch.autocast(self._device, torch.bfloat16, enabled=self.precision == "bfloat16"):
            states = self._model(input_ids=ids, token_type_ids=types, attention_mask=mask).last_hidden_state
        allowed = types.bool()
        allowed[:, 0] = True
        logits: torch.Tensor = self._head(states.float())
        return logits.masked_fill(~allowed[:, :, None], torch.finfo(torch.float32).min)

    def _loss(self, batch: Sequence["_Encoded"]) -> torch.Tensor:
        self._model.train()
        logits = self._logits(batch)
        wanted = torch.tensor([one.span for one in batch], device=self._device)
        losses = [torch.nn.functional.cross_entropy(logits[:, :, side], wanted[:, side]) for side in (0, 1)]
        return torch.stack(losses).mean()

    # ---------------------------------------------------------------- measuring

    def _measured(self, step: int, dev: Sequence[Sequence[SpanExample]]) -> tuple[ReaderEvaluation, float]:
        """The evaluation, and the value that decides: the mean of F1 and of the AUC."""
        self._model.eval()
        exact, f1, scores, labels = [], [], [], []
        with torch.no_grad():
            for passages in dev:
                encoded = [self._encoded(one) for one in passages]
                logits = self._logits(encoded).float().cpu().numpy()
                found = []
                for one, example, of_tokens in zip(encoded, passages, logits, strict=True):
                    places = [token for token, offset in enumerate(one.offsets) if offset is not None]
                    first, last, score = best_span(of_tokens[places], MAX_SPAN_TOKENS)
                    start, end = one.offsets[places[first]], one.offsets[places[last]]
                    assert start is not None
                    assert end is not None
                    found.append((score - float(of_tokens[0].sum()), example.passage[start[0] : end[1]]))
                score, said = max(found)
                answers = [one.passage[one.answer[0] : one.answer[1]] for one in passages if one.answer]
                scores.append(score)
                labels.append(bool(answers))
                if answers:
                    exact.append(float(normal_answer(said) == normal_answer(answers[0])))
                    f1.append(token_f1(said, answers[:1]))
        separated = area_under_roc(np.asarray(scores), np.asarray(labels)) if len(set(labels)) > 1 else 0.5
        evaluation = ReaderEvaluation(step, fmean(exact or [0.0]), fmean(f1 or [0.0]), separated)
        return evaluation, (evaluation.f1 + separated) / 2


@dataclass(frozen=True, slots=True)
class _Encoded:
    token_ids: list[int]
    types: list[int]
    span: tuple[int, int]  # first and last token of the answer; (0, 0): none
    offsets: list[tuple[int, int] | None]  # of each token in the passage; None for one that is not of it
