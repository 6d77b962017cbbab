"""One local training step as a flat pure function: state and batch go in, state and losses out.

Nothing is kept between calls and nothing is random, so the function can be traced once, exported,
and run by any runtime that computes products and sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pocketquery.export.settings import Objective
from pocketquery.export.training_step.heads import project
from pocketquery.export.training_step.losses import (
    byol_loss,
    ranking_loss,
    step_losses,
)
from pocketquery.export.training_step.model import EncoderShape, TorchTensors, encode

__all__ = ["LOSSES", "SCALARS", "StepShape", "training_step"]

SCALARS = (
    "temperature",
    "anchor_weight",
    "opened_loss_weight",
    "learning_rate",
    "weight_decay",
    "beta1",
    "beta2",
    "epsilon",
    "ema_rate",
    "step",
)
"""Hyper-parameters, inputs of shape (): none is baked in, so one graph serves every setting."""

LOSSES = ("loss", "view_loss", "anchor_loss", "opened_loss")


@dataclass(frozen=True)
class StepShape:
    """What a step computes, beside its tensors.

    Attributes:
        encoder: shape of the encoder.
        objective: ``"index_byol"`` (2 views, the first clean) or ``"byol"`` (2 or 4 views).
        views: of each query that the online network sees.
        trained: names of the trained tensors.
        target: those of them the target network has.
    """

    encoder: EncoderShape
    objective: Objective
    views: int
    trained: tuple[str, ...]
    target: tuple[str, ...]

    @property
    def target_views(self) -> int:
        """How many views the target network sees: the clean one, or BYOL's two."""
        return 1 if self.objective == "index_byol" else 2


def training_step(
    shape: StepShape, frozen: TorchTensors, inputs: TorchTensors
) -> dict[str, torch.Tensor]:
    """One step of AdamW on the objective, then the target's move.

    Args:
        shape: of the step.
        frozen: the encoder's tensors that do not change.
        inputs: batch, scalars and state by the names of the graph's inputs.

    Returns:
        The losses, ``vectors`` and the next state by the names of the graph's outputs.
    """
    target = {**frozen, **{name: inputs[f"target.{name}"] for name in shape.target}}
    with torch.no_grad():
        targets = _targets(shape, target, inputs)
    with torch.enable_grad():
        trained = {
            name: inputs[f"online.{name}"].detach().requires_grad_(True) for name in shape.trained
        }
        losses, vectors = _losses(shape, {**frozen, **trained}, targets, inputs)
        gradients = torch.autograd.grad(losses["loss"], list(trained.values()))
    with torch.no_grad():
        results = {name: value.detach() for name, value in losses.items()}
        results["vectors"] = vectors.detach()
        for name, gradient in zip(shape.trained, gradients, strict=True):
            results |= _adamw(name, gradient.detach(), inputs)
        rate = inputs["ema_rate"]
        for name in shape.target:
            moved = rate * inputs[f"target.{name}"] + (1.0 - rate) * results[f"next.online.{name}"]
            results[f"next.target.{name}"] = moved
    return results


def _targets(shape: StepShape, target: TorchTensors, inputs: TorchTensors) -> torch.Tensor:
    """What the online network is to predict: vectors (batch, d), or projections (2, batch, p)."""
    vectors = encode(target, shape.encoder, inputs["target_ids"], inputs["target_mask"])
    if shape.objective == "index_byol":
        return vectors
    return _project(target, "projector", _by_view(vectors, 2))


def _losses(
    shape: StepShape, online: TorchTensors, targets: torch.Tensor, inputs: TorchTensors
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    temperature = inputs["temperature"]
    vectors = encode(online, shape.encoder, inputs["online_ids"], inputs["online_mask"])
    views = _by_view(vectors, shape.views)  # (views, batch, d)
    if shape.objective == "index_byol":
        view_loss = ranking_loss(views, targets, inputs["prototypes"], temperature)
    else:
        projections = _project(online, "projector", views)
        view_loss = byol_loss(project(online, "predictor", projections), targets)
    losses = step_losses(view_loss, views, inputs)
    return dict(zip(LOSSES, losses, strict=True)), vectors


def _by_view(vectors: torch.Tensor, views: int) -> torch.Tensor:
    return vectors.view(views, vectors.shape[0] // views, vectors.shape[1])


def _project(tensors: TorchTensors, head: str, views: torch.Tensor) -> torch.Tensor:
    # Entries of a unit row are small beside the epsilon of the normalisation; of order 1 they are
    # not, whatever the dimension.
    return project(tensors, head, views * views.shape[-1] ** 0.5)


def _adamw(name: str, gradient: torch.Tensor, inputs: TorchTensors) -> dict[str, torch.Tensor]:
    """ "Decoupled Weight Decay Regularization", algorithm 2, as torch.optim.AdamW rounds it."""
    beta1, beta2, step = inputs["beta1"], inputs["beta2"], inputs["step"]
    first = beta1 * inputs[f"first_moment.{name}"] + (1.0 - beta1) * gradient
    second = beta2 * inputs[f"second_moment.{name}"] + (1.0 - beta2) * gradient * gradient
    size = inputs["learning_rate"] / (1.0 - torch.pow(beta1, step))
    root = torch.sqrt(second) / torch.sqrt(1.0 - torch.pow(beta2, step))
    decayed = inputs[f"online.{name}"] * (1.0 - inputs["learning_rate"] * inputs["weight_decay"])
    return {
        f"next.online.{name}": decayed - size * first / (root + inputs["epsilon"]),
        f"next.first_moment.{name}": first,
        f"next.second_moment.{name}": second,
    }
