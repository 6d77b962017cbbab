"""A rotation learned from nothing but two clouds of vectors, to start the refinement from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pocketquery.sdk.arrays import AnyFloats
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery_research.calibration.csls import mutual_neighbours

__all__ = ["AdversarialConfig", "adversarial_start", "discriminator", "orthogonalized"]


@dataclass(frozen=True)
class AdversarialConfig(Settings):
    """Settings of :func:`adversarial_start`; the defaults are those of the released MUSE code."""

    hidden: Annotated[
        int, "width of the discriminator's two layers; 0 for 2,048, or 256 up to 256 dimensions"
    ] = 0
    epochs: Annotated[
        int, whole(), "after each the rotation is judged and the learning rate falls"
    ] = 5
    steps: Annotated[int, whole(), "of the rotation, an epoch"] = 1000
    discriminator_steps: Annotated[int, whole(), "for each of them"] = 5
    batch_size: Annotated[int, whole(), "vectors of either language a step"] = 32
    learning_rate: Annotated[float, number(above=0), "of both, plain SGD"] = 0.1
    decay: Annotated[float, "of the learning rate, an epoch"] = 0.98
    smoothing: Annotated[float, "of the labels"] = 0.1
    dropout: Annotated[float, "of the discriminator's input"] = 0.1
    orthogonality: Annotated[float, "b in W <- (1 + b) W - b W W^T W"] = 0.001
    restarts: Annotated[
        int,
        whole(),
        "the first from no rotation, each other from a random one; the best by mean CSLS cosine "
        "is kept",
    ] = 1


class _Found(NamedTuple):
    rotation: NDArray[np.float64]
    cosine: float


def discriminator(dimension: int, hidden: int, dropout: float) -> nn.Sequential:
    """Which language a vector (n, dimension) is of, as logits (n, 1)."""
    hidden = hidden or (256 if dimension <= 256 else 2048)
    return nn.Sequential(
        nn.Dropout(dropout),
        nn.Linear(dimension, hidden),
        nn.LeakyReLU(0.2),
        nn.Linear(hidden, hidden),
        nn.LeakyReLU(0.2),
        nn.Linear(hidden, 1),
    )


def orthogonalized(rotation: torch.Tensor, strength: float) -> torch.Tensor:
    """A step towards the orthogonal matrices: (1 + b) W - b W W^T W."""
    return (1 + strength) * rotation - strength * rotation @ rotation.T @ rotation


def adversarial_start(
    source: AnyFloats, target: AnyFloats, config: AdversarialConfig, *, seed: int
) -> NDArray[np.float64]:
    """A rotation after which a discriminator cannot tell the two languages apart.

    Of all epochs and restarts the one with the highest mean cosine of CSLS-matched pairs is kept:
    no translation is looked at. ("Word Translation Without Parallel Data", section 2.1.) Nothing
    guarantees success: the further the rotation, the more restarts it takes, and a low cosine after
    the refinement is the sign that none of them got there.

    Args:
        source: rows of unit length (n, dim).
        target: rows of unit length (m, dim).
        config: how.
        seed: everything random follows from it; torch's own generator is left as it was.

    Returns:
        float64 (dim, dim), orthogonal.
    """
    one, other = (torch.from_numpy(rows.astype(np.float32)) for rows in (source, target))
    found = []
    for restart in range(config.restarts):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + 1000 * restart)
            start = _random_orthogonal(one.shape[1]) if restart else torch.eye(one.shape[1])
            found.append(_train(start, one, other, config))
    return max(found, key=lambda one: one.cosine).rotation


def _random_orthogonal(dimension: int) -> torch.Tensor:
    """Uniform over the orthogonal matrices, reflections among them: no gradient leads to those."""
    q, r = torch.linalg.qr(torch.randn(dimension, dimension))
    turned: torch.Tensor = q * r.diagonal().sign()
    return turned


def _train(
    start: torch.Tensor, source: torch.Tensor, target: torch.Tensor, config: AdversarialConfig
) -> _Found:
    judge = discriminator(source.shape[1], config.hidden, config.dropout)
    rotation = start.clone().requires_grad_(True)
    best = _judged(rotation, source, target)
    rate = config.learning_rate
    for _ in range(config.epochs):
        judging = torch.optim.SGD(judge.parameters(), lr=rate)
        for _ in range(config.steps):
            for _ in range(config.discriminator_steps):
                _judge_step(judge, judging, rotation.detach(), source, target, config)
            _rotation_step(judge, rotation, source, target, rate, config)
        best = max(best, _judged(rotation, source, target), key=lambda one: one.cosine)
        rate *= config.decay
    return best


def _judge_step(
    judge: nn.Sequential,
    optimizer: torch.optim.Optimizer,
    rotation: torch.Tensor,
    source: torch.Tensor,
    target: torch.Tensor,
    config: AdversarialConfig,
) -> None:
    rows, labels = _batch(rotation, source, target, config)
    optimizer.zero_grad()
    loss = functional.binary_cross_entropy_with_logits(judge(rows).squeeze(1), labels)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _rotation_step(
    judge: nn.Sequential,
    rotation: torch.Tensor,
    source: torch.Tensor,
    target: torch.Tensor,
    rate: float,
    config: AdversarialConfig,
) -> None:
    judge.eval()  # the rotation is to fool the whole discriminator
    rows, labels = _batch(rotation, source, target, config)
    loss = functional.binary_cross_entropy_with_logits(judge(rows).squeeze(1), 1 - labels)
    (gradient,) = torch.autograd.grad(loss, rotation)
    judge.train()
    with torch.no_grad():
        rotation.copy_(orthogonalized(rotation - rate * gradient, config.orthogonality))


def _batch(
    rotation: torch.Tensor, source: torch.Tensor, target: torch.Tensor, config: AdversarialConfig
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotated source rows and target rows, with smoothed labels: source 1, target 0."""
    size = config.batch_size
    left = source[torch.randint(len(source), (size,))] @ rotation.T
    right = target[torch.randint(len(target), (size,))]
    labels = torch.full((2 * size,), config.smoothing)
    labels[:size] = 1 - config.smoothing
    return torch.cat([left, right]), labels


def _judged(rotation: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> _Found:
    """The nearest orthogonal matrix, and the mean cosine of the pairs it makes."""
    u, _, v = np.linalg.svd(rotation.detach().numpy().astype(np.float64))
    nearest: NDArray[np.float64] = u @ v
    matches = mutual_neighbours(source.numpy() @ nearest.T, target.numpy())
    return _Found(nearest, matches.cosine)
