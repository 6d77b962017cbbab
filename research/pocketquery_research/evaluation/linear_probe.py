"""How well classes can be told apart by a line: softmax regression on frozen vectors."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

__all__ = ["linear_probe"]


def linear_probe(
    vectors: NDArray[np.float32],
    classes: NDArray[np.int64],
    unseen: NDArray[np.float32],
    *,
    count: int,
    decay: float = 1e-2,
) -> NDArray[np.int64]:
    r"""The classes of unseen vectors, by the regression that fits the seen ones best.

    .. math:: \min_{W, b}\; \mathrm{mean}_i\,CE(W \hat x_i + b, y_i) + \tfrac{\lambda}{2}
        \lVert W \rVert^2

    Features are standardised by the seen vectors. The problem is convex, so the result depends on
    no seed and no schedule.

    Args:
        vectors: float32 (n, dimension).
        classes: int64 (n,), below ``count``.
        unseen: float32 (m, dimension).
        count: classes there are; one that is not seen is never predicted.
        decay: lambda.

    Returns:
        int64 (m,).
    """
    mean, spread = vectors.mean(axis=0), vectors.std(axis=0) + 1e-6
    seen = torch.from_numpy(((vectors - mean) / spread).astype(np.float64))
    weight, bias = _fit(seen, torch.from_numpy(classes), count, decay)
    scores = torch.from_numpy(((unseen - mean) / spread).astype(np.float64)) @ weight.T + bias
    distinct = np.unique(classes)
    nearest = scores[:, torch.from_numpy(distinct)].argmax(dim=1).numpy()
    return np.asarray(distinct[nearest], dtype=np.int64)


def _fit(
    seen: torch.Tensor, classes: torch.Tensor, count: int, decay: float
) -> tuple[torch.Tensor, torch.Tensor]:
    weight = torch.zeros(count, seen.shape[1], dtype=seen.dtype, requires_grad=True)
    bias = torch.zeros(count, dtype=seen.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=200, tolerance_grad=1e-7, line_search_fn="strong_wolfe"
    )

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(seen @ weight.T + bias, classes)
        loss = loss + decay / 2 * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()
