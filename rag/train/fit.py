"""The loop that trains an adapter of an encoder: batches, a rate that rises and falls, a limit on time, and the weights
that measured best.

What a batch's loss is and what is measured are the trainer's own (`rag/train/reranker.py`, `rag/train/encoder.py`).
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

import torch

from rag.errors import ModelError

Precision = Literal["auto", "bfloat16", "float32"]
Stop = Literal["epochs", "time", "no_gain"]

_CLEARLY_FASTER = 1.3
_BATCHES_A_BUCKET = 32  # sorted by length together: wide enough to save padding, narrow enough to stay shuffled

Measured = TypeVar("Measured")


class FitOptions(Protocol):
    """What the loop asks of a trainer's options."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def warmup_share(self) -> float: ...
    @property
    def max_gradient_norm(self) -> float: ...
    @property
    def max_minutes(self) -> float: ...
    @property
    def evaluate_every(self) -> int: ...
    @property
    def patience(self) -> int: ...


class BatchOptions(Protocol):
    """What `plan_batches` asks of a trainer's options."""

    @property
    def epochs(self) -> int: ...
    @property
    def batch_questions(self) -> int: ...
    @property
    def batch_tokens(self) -> int: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FitState(Generic[Measured]):
    """How far a run is: told after each step, and after each measurement with what it found."""

    step: int
    total_steps: int
    seconds: float
    loss: float
    evaluation: Measured | None = None


@dataclass(frozen=True, slots=True)
class Fit(Generic[Measured]):
    """What a run did. The parameters hold the weights that `best` was measured of."""

    evaluations: tuple[Measured, ...]  # the first is of the weights that the run began with
    best: Measured
    steps: int
    examples: int  # seen in training, repetitions included
    seconds: float
    stopped: Stop


def fit(
    parameters: Sequence[torch.nn.Parameter],
    batches: Sequence[Sequence[int]],
    backward: Callable[[Sequence[int]], torch.Tensor],
    measure: Callable[[int], tuple[Measured, float]],
    options: FitOptions,
    progress: Callable[[FitState[Measured]], None],
) -> Fit[Measured]:
    """Train over the batches, once each, and end with the weights of the highest value.

    `backward` returns the loss of a batch; `measure` what the weights are worth after so many steps, and the value that
    decides. The learning rate falls to zero by the end of the batches or of the time, whichever comes first. Raises
    ModelError when the loss is not a number.
    """
    started = time.monotonic()
    optimizer = torch.optim.AdamW(parameters, lr=options.learning_rate, weight_decay=options.weight_decay)
    best, best_value = measure(0)
    best_weights = _copied(parameters)
    evaluations = [best]
    progress(FitState(0, len(batches), time.monotonic() - started, 0.0, best))
    # What it took so far, the last evaluation takes again.
    deadline_s = max(options.max_minutes * 60 - (time.monotonic() - started), 0.0)
    since_gain = seen = step = 0
    stopped: Stop | None = None
    while stopped is None:
        elapsed_s = time.monotonic() - started
        done = max(step / len(batches), min(elapsed_s / deadline_s, 1.0) if deadline_s else 1.0)
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * rate_at(done, options.warmup_share)
        loss = _step(optimizer, parameters, backward(batches[step]), options)
        seen += len(batches[step])
        step += 1
        elapsed_s = time.monotonic() - started
        if step == len(batches):
            stopped = "epochs"
        elif elapsed_s >= deadline_s:
            stopped = "time"
        found = None
        if stopped or step % options.evaluate_every == 0:
            found, value = measure(step)
            evaluations.append(found)
            since_gain += 1
            if value > best_value:
                best, best_value, best_weights, since_gain = found, value, _copied(parameters), 0
            if since_gain >= options.patience:
                stopped = stopped or "no_gain"
        progress(FitState(step, len(batches), elapsed_s, loss, found))
    with torch.no_grad():
        for parameter, kept in zip(parameters, best_weights, strict=True):
            parameter.copy_(kept)
    return Fit(tuple(evaluations), best, step, seen, time.monotonic() - started, stopped)


def _step(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[torch.nn.Parameter],
    loss: torch.Tensor,
    options: FitOptions,
) -> float:
    value = float(loss.detach())
    if not math.isfinite(value):
        raise ModelError(f"the loss is {value}; a lower learning rate than {options.learning_rate} may help")
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, options.max_gradient_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return value


def _copied(parameters: Sequence[torch.nn.Parameter]) -> list[torch.Tensor]:
    return [parameter.detach().cpu().clone() for parameter in parameters]


def rate_at(done: float, warmup_share: float) -> float:
    """The share of the full learning rate when that share of the run is done: up in a line, and down to 0."""
    if done < warmup_share:
        return max(done / warmup_share, 0.01)
    return (1.0 - done) / (1.0 - warmup_share)


# ---------------------------------------------------------------- batches


def plan_batches(lengths: Sequence[Sequence[int]], options: BatchOptions) -> list[list[int]]:
    """The places of the examples, epoch by epoch, in batches drawn by the seed; lengths[i] are those of i's texts.

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
    longest_first: Sequence[int], lengths: Sequence[Sequence[int]], longest: Sequence[int], options: BatchOptions
) -> list[list[int]]:
    batches: list[list[int]] = []
    num_texts = 0
    for place in longest_first:
        num_texts += len(lengths[place])
        full = not batches or len(batches[-1]) == options.batch_questions
        if full or num_texts * longest[batches[-1][0]] > options.batch_tokens:
            batches.append([])
            num_texts = len(lengths[place])
        batches[-1].append(place)
    return batches


# ---------------------------------------------------------------- number formats


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
