"""Distillation objectives: pure functions of tensors that return a scalar."""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["cosine_loss", "ranking_loss", "share_loss"]


def cosine_loss(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    r"""Mean of ``1 - cos(student, teacher)``: regress the teacher's own vectors.

    For unit vectors this is half their squared distance, the loss of LEAF ("LEAF: Knowledge
    Distillation of Text Embedding Models with Teacher-Aligned Representations"). It pins the
    student into the teacher's space, and it only pulls: alone it shrinks noisy queries towards a
    mean and costs retrieval, so it goes with :func:`ranking_loss`.

    Args:
        student: float (batch, dim).
        teacher: float (batch, dim), no gradient.

    Returns:
        Scalar in [0, 2].
    """
    return (1.0 - functional.cosine_similarity(student, teacher.detach(), dim=-1)).mean()


def ranking_loss(
    student: torch.Tensor, teacher: torch.Tensor, documents: torch.Tensor, temperature: float = 0.05
) -> torch.Tensor:
    r"""The student ranks a sample of documents as the teacher does.

    .. math:: \mathrm{mean}_i\; KL\big(\mathrm{softmax}(D t_i/\tau) \,\|\, \mathrm{softmax}(D s_i/\tau)\big)

    Relative to the documents that will be searched, hence nothing to rotate and nothing that
    collapses: the one objective that helped mistyped queries without harming clean ones.

    Args:
        student: float (batch, dim), unit rows.
        teacher: float (batch, dim), unit rows: the teacher on the *clean* text.
        documents: float (n, dim), unit rows: teacher vectors of documents near the batch and at
            random.
        temperature: tau of both softmaxes.

    Returns:
        Scalar in [0, inf), 0 where both rank alike.
    """  # noqa: E501
    target = functional.log_softmax(teacher.detach() @ documents.T / temperature, dim=-1)
    online = functional.log_softmax(student @ documents.T / temperature, dim=-1)  # (batch, n)
    return functional.kl_div(online, target, reduction="batchmean", log_target=True)


def share_loss(
    student: torch.Tensor, shares: torch.Tensor, documents: torch.Tensor, temperature: float = 0.05
) -> torch.Tensor:
    r"""The student ranks a sample of documents as a given ranking does, whatever made it.

    .. math:: \mathrm{mean}_i\; KL\big(p_i \,\|\, \mathrm{softmax}(D s_i/\tau)\big)

    Args:
        student: float (batch, dim), unit rows.
        shares: float (batch, n), p: rows that sum to 1.
        documents: float (n, dim), unit rows.
        temperature: tau.

    Returns:
        Scalar in [0, inf), 0 where both rank alike.
    """
    online = functional.log_softmax(student @ documents.T / temperature, dim=-1)  # (batch, n)
    return functional.kl_div(online, shares, reduction="batchmean")
