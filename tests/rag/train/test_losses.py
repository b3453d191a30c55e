"""The losses on numbers that can be checked by hand."""

import math

import pytest
import torch

from rag.train.losses import distillation_loss, listwise_loss, residual_logits

ALL = torch.ones(1, 2, dtype=torch.bool)


def test_equal_logits_of_two_cost_log_2() -> None:
    assert float(listwise_loss(torch.tensor([[3.0, 3.0]]), ALL)) == pytest.approx(math.log(2))


def test_the_loss_is_the_mean_over_questions_of_the_positives_log_share() -> None:
    logits = torch.tensor([[math.log(3.0), 0.0, 0.0], [0.0, math.log(4.0), 99.0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    expected = (-math.log(3 / 5) - math.log(1 / 5)) / 2
    assert float(listwise_loss(logits, mask)) == pytest.approx(expected, rel=1e-6)


def test_what_is_masked_gets_no_gradient() -> None:
    logits = torch.tensor([[1.0, 2.0, 5.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False]])
    (listwise_loss(logits, mask) + distillation_loss(logits, torch.tensor([[0.0, 1.0, 7.0]]), mask)).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 2] == 0.0
    assert logits.grad[0, 0] < 0.0 < logits.grad[0, 1] + 1.0


def test_the_cosine_is_added_under_the_logit() -> None:
    found = residual_logits(torch.tensor([[1.0, -1.0]]), torch.tensor([[0.5, 0.25]]), 20.0)
    assert found.tolist() == [[11.0, 4.0]]


def test_a_model_that_starts_at_zero_has_the_loss_of_the_encoder() -> None:
    cosines = torch.tensor([[0.6, 0.5]])
    loss = listwise_loss(residual_logits(torch.zeros(1, 2), cosines, 10.0), ALL)
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-1)))


def test_distillation_is_zero_up_to_a_constant_and_else_the_divergence() -> None:
    teacher = torch.tensor([[math.log(3.0), 0.0]])  # shares 3/4 and 1/4
    assert float(distillation_loss(teacher + 5, teacher, ALL)) == pytest.approx(0.0, abs=1e-6)
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert float(distillation_loss(torch.zeros(1, 2), teacher, ALL)) == pytest.approx(expected, rel=1e-5)
    doubled = distillation_loss(torch.zeros(1, 2), 2 * teacher, ALL, temperature=2.0)
    assert float(doubled) == pytest.approx(4 * expected, rel=1e-5)
