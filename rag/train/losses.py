"""What a reranker learns from: the order of one question's candidates, and the scores of a teacher.

Every tensor is (b, n): one row a question, the positive in column 0, `mask` false where a question has fewer
candidates than n.
"""

import torch


def residual_logits(logits: torch.Tensor, cosines: torch.Tensor, residual_scale: float) -> torch.Tensor:
    """The model's logits on top of the encoder's cosines, in float32: logit + residual_scale * cosine.

    Trained on this the model learns what the encoder lacks, and need not repeat what it knows.
    """
    return logits.float() + residual_scale * cosines.float()


def listwise_loss(logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean over questions of -log softmax(logits)[positive]; a scalar.

    With two equal logits it is log 2.

    Source: Cao et al., ICML 2007 (ListNet), with one right passage.
    """
    return -_log_softmax(logits, mask)[:, 0].mean()


def distillation_loss(
    logits: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor, temperature: float = 1.0
) -> torch.Tensor:
    """The mean over questions of KL(teacher || model), both softmax over the candidates at `temperature`; a scalar.

    It is 0 where the scores differ by a constant. It is multiplied by temperature², so that its gradients keep their
    size.

    Source: Hinton, Vinyals and Dean, 2015.
    """
    wanted = _log_softmax(teacher / temperature, mask)
    given = _log_softmax(logits / temperature, mask)
    terms = torch.where(mask, wanted.exp() * (wanted - given), 0.0)
    return terms.sum(dim=1).mean() * temperature**2


def _log_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    # The lowest number and not -inf: -inf minus -inf would make the gradients of the KL term NaN.
    lowest = torch.finfo(torch.float32).min
    return torch.log_softmax(scores.float().masked_fill(~mask, lowest), dim=1)
