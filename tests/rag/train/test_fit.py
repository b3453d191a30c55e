"""The loop keeps the best weights, stops when told to, and plans its batches."""

import math
import random
from dataclasses import dataclass, replace

import pytest
import torch

from rag.errors import ModelError
from rag.train.fit import Fit, FitState, fit, pick_precision, plan_batches, rate_at


@dataclass(frozen=True)
class Options:
    learning_rate: float = 0.1
    weight_decay: float = 0.0
    warmup_share: float = 0.0
    max_gradient_norm: float = 1.0
    max_minutes: float = 1.0
    evaluate_every: int = 2
    patience: int = 3
    epochs: int = 1
    batch_questions: int = 6
    batch_tokens: int = 1_000
    seed: int = 0


def descend(
    weight: torch.nn.Parameter, options: Options, num_batches: int = 12, wanted: float = 0.25
) -> tuple[Fit[float], list[FitState[float]]]:
    """Towards 3 from 0, measured by how near it is to `wanted`."""

    def measure(step: int) -> tuple[float, float]:
        value = float(weight.detach())
        return value, -abs(value - wanted)

    told: list[FitState[float]] = []
    done = fit([weight], [[0]] * num_batches, lambda _: (weight - 3.0) ** 2, measure, options, told.append)
    return done, told


def test_the_weights_that_measured_best_are_kept() -> None:
    weight = torch.nn.Parameter(torch.zeros(()))
    done, told = descend(weight, Options())
    assert done.best == pytest.approx(float(weight.detach()))
    assert done.best == min(done.evaluations, key=lambda value: abs(value - 0.25))
    assert (done.evaluations[0], told[0].step, told[-1].step) == (0.0, 0, done.steps)
    assert told[0].evaluation == 0.0


def test_training_stops_where_nothing_is_gained_or_the_time_or_the_batches_end() -> None:
    gained, _ = descend(torch.nn.Parameter(torch.zeros(())), Options(patience=2), num_batches=40, wanted=0.0)
    assert (gained.stopped, gained.steps) == ("no_gain", 4)
    timed, _ = descend(torch.nn.Parameter(torch.zeros(())), Options(max_minutes=0.0))
    assert (timed.stopped, timed.steps) == ("time", 1)
    whole, _ = descend(torch.nn.Parameter(torch.zeros(())), Options(patience=99))
    assert (whole.stopped, whole.steps, whole.examples) == ("epochs", 12, 12)


def test_a_loss_that_is_no_number_is_an_error() -> None:
    weight = torch.nn.Parameter(torch.tensor(math.nan))
    with pytest.raises(ModelError, match="the loss is nan"):
        descend(weight, Options())


def test_batches_hold_every_example_once_an_epoch_within_their_limits() -> None:
    drawn = random.Random(0)
    lengths = [[drawn.randint(5, 60) for _ in range(drawn.randint(2, 5))] for _ in range(200)]
    lengths[7] = [400] * 5  # larger than a batch
    options = replace(Options(), epochs=2)
    batches = plan_batches(lengths, options)
    assert sorted(place for batch in batches for place in batch) == sorted([*range(200), *range(200)])
    for batch in batches:
        padded = sum(len(lengths[place]) for place in batch) * max(max(lengths[place]) for place in batch)
        assert len(batch) <= 6
        assert padded <= 1_000 or len(batch) == 1
    assert batches == plan_batches(lengths, options)


def test_the_learning_rate_rises_and_falls() -> None:
    assert [round(rate_at(done, 0.1), 3) for done in (0.0, 0.05, 0.1, 0.55, 1.0)] == [0.01, 0.5, 1.0, 0.5, 0.0]


def test_the_precision_is_chosen_by_the_device_unless_it_is_given() -> None:
    assert pick_precision("auto", "cuda:1") == "bfloat16"
    assert pick_precision("auto", "cpu") in ("bfloat16", "float32")
    assert pick_precision("float32", "cuda") == "float32"
