"""Distillation objectives: pure functions of tensors that return a scalar."""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["cosine_loss", "ranking_loss", "similarity_loss"]


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
    student: torch.Tensor,
    teacher: torch.Tensor,
    documents: torch.Tensor,
    temperature: float = 0.05,
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


def similarity_loss(
    student: torch.Tensor, teacher: torch.Tensor, temperature: float = 0.05
) -> torch.Tensor:
    r"""KL between the rows of the in-batch cosine matrices, each row's own column removed.

    .. math:: \tau^2\, \mathrm{mean}_i\; KL\big(\mathrm{softmax}(T_i/\tau) \,\|\, \mathrm{softmax}(S_i/\tau)\big)

    It knows the geometry up to a rotation only, so a student needs :func:`cosine_loss` beside it
    to stay in the teacher's space; the widths of the two may differ.

    Args:
        student: float (batch, any dim), unit rows.
        teacher: float (batch, dim), unit rows.
        temperature: tau.

    Returns:
        Scalar in [0, inf), 0 for a rotated teacher.
    """  # noqa: E501
    own = torch.eye(len(student), dtype=torch.bool, device=student.device)

    def rows(vectors: torch.Tensor) -> torch.Tensor:
        cosines = vectors @ vectors.T / temperature
        others = cosines[~own].view(len(vectors), len(vectors) - 1)  # (batch, batch - 1)
        return functional.log_softmax(others, dim=-1)

    divergence = functional.kl_div(
        rows(student), rows(teacher.detach()), reduction="batchmean", log_target=True
    )
    return temperature**2 * divergence
