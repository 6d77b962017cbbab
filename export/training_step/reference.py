"""The same step in eager torch, written the ordinary way: modules, autograd, torch.optim.AdamW.

It shares the objectives with the exported step and nothing else: the forward pass is the student's
own modules, with the low-rank paths added to its linear layers. Where the two agree, the traced
forward pass, the unrolled backward pass and the written-out optimiser are all right.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pocketquery.distill.adaptation.low_rank import linear_layers
from pocketquery.export.training_step.function import LOSSES, StepShape
from pocketquery.export.training_step.heads import project
from pocketquery.export.training_step.losses import (
    byol_loss,
    ranking_loss,
    step_losses,
)
from pocketquery.export.training_step.model import student_parameters
from pocketquery.export.training_step.tensors import StepTensors
from pocketquery.sdk.arrays import Floats
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.shared.byol import update_target

__all__ = ["ReferenceStep"]


class ReferenceStep:
    """A student in training; :meth:`run` makes one step.

    Args:
        student: is copied; its weights become those that ``tensors`` holds.
        shape: of the step.
        tensors: frozen and initial values.
    """

    def __init__(self, student: SentenceEncoder, shape: StepShape, tensors: StepTensors) -> None:
        self._shape = shape
        values = tensors.frozen_values() | tensors.trained
        start = {name: torch.from_numpy(value) for name, value in values.items()}
        own = {name: start[name].clone() for name in shape.trained}
        self._online = _Network(student, start | own, shape.trained)
        own = {name: start[name].clone() for name in shape.trained}
        self._target = _Network(student, start | own, ())
        self._optimizer: torch.optim.AdamW | None = None

    def run(self, batch: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
        """One step on ``batch``, the graph's batch and scalars by name.

        Returns:
            The losses as floats and ``vectors`` float32 (views * batch, dim).
        """
        inputs = {name: torch.from_numpy(np.asarray(value)) for name, value in batch.items()}
        scalars = {name: float(value) for name, value in batch.items() if value.ndim == 0}
        with torch.no_grad():
            targets = self._target.encode(inputs["target_ids"], inputs["target_mask"])
            if self._shape.objective == "byol":
                targets = self._target.project(targets, 2)
        optimizer = self._adamw(scalars)
        optimizer.zero_grad()
        vectors = self._online.encode(inputs["online_ids"], inputs["online_mask"])
        losses = self._losses(vectors, targets, inputs)
        losses[0].backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        self._move_target(scalars["ema_rate"])
        named = dict(zip(LOSSES, (float(loss.detach()) for loss in losses), strict=True))
        return named | {"vectors": vectors.detach().numpy()}

    def state(self) -> dict[str, Floats]:
        """The state by the names of the graph's inputs, copied."""
        state = {}
        for name in self._shape.trained:
            parameter = self._online.tensors[name]
            state[f"online.{name}"] = parameter
            moments = {} if self._optimizer is None else self._optimizer.state[parameter]
            for ours, theirs in (("first_moment", "exp_avg"), ("second_moment", "exp_avg_sq")):
                state[f"{ours}.{name}"] = moments.get(theirs, torch.zeros_like(parameter))
        state |= {f"target.{name}": self._target.tensors[name] for name in self._shape.target}
        return {name: value.detach().numpy().copy() for name, value in state.items()}

    def _losses(
        self, vectors: torch.Tensor, targets: torch.Tensor, inputs: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        views = vectors.view(self._shape.views, -1, vectors.shape[-1])
        temperature = inputs["temperature"]
        if self._shape.objective == "index_byol":
            view_loss = ranking_loss(views, targets, inputs["prototypes"], temperature)
        else:
            projections = self._online.project(vectors, self._shape.views)
            view_loss = byol_loss(self._online.predict(projections), targets)
        return step_losses(view_loss, views, inputs)

    def _adamw(self, scalars: Mapping[str, float]) -> torch.optim.AdamW:
        settings: dict[str, Any] = {
            "lr": scalars["learning_rate"],
            "betas": (scalars["beta1"], scalars["beta2"]),
            "eps": scalars["epsilon"],
            "weight_decay": scalars["weight_decay"],
        }
        if self._optimizer is None:
            trained = [self._online.tensors[name] for name in self._shape.trained]
            self._optimizer = torch.optim.AdamW(trained, **settings)
        self._optimizer.param_groups[0].update(settings)
        return self._optimizer

    def _move_target(self, rate: float) -> None:
        moving = self._shape.target
        online = [self._online.tensors[name] for name in moving]
        update_target(online, [self._target.tensors[name] for name in moving], rate)


class _Network:
    """A copy of the student with low-rank paths and heads; ``tensors`` are its own, by name.

    ``values`` are taken as they are, so what is frozen can be shared.
    """

    def __init__(
        self,
        student: SentenceEncoder,
        values: Mapping[str, torch.Tensor],
        trained: tuple[str, ...],
    ) -> None:
        self._student = copy.deepcopy(student).eval()
        own = student_parameters(self._student)
        self.tensors = {name: nn.Parameter(torch.empty(v.shape)) for name, v in values.items()}
        self.tensors |= own
        for name, tensor in self.tensors.items():
            tensor.data = values[name]
            tensor.requires_grad_(name in trained)
        self._add_low_rank_paths(linear_layers(self._student))

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self._student(ids, mask)
        return vectors

    def project(self, vectors: torch.Tensor, views: int) -> torch.Tensor:
        """Projections (views, batch, p) of ``vectors`` (views * batch, d) scaled to order 1."""
        dimension = vectors.shape[-1]
        return project(
            self.tensors, "projector", vectors.view(views, -1, dimension) * dimension**0.5
        )

    def predict(self, projections: torch.Tensor) -> torch.Tensor:
        return project(self.tensors, "predictor", projections)

    def _add_low_rank_paths(self, layers: Mapping[str, nn.Module]) -> None:
        for name, module in layers.items():
            down = self.tensors.get(f"adapter.{name}.down")
            if down is not None:
                up = self.tensors[f"adapter.{name}.up"]
                module.register_forward_hook(_LowRank(down, up))


class _LowRank:
    """A forward hook that adds ``(x down^T) up^T`` to what a linear layer gives."""

    def __init__(self, down: torch.Tensor, up: torch.Tensor) -> None:
        self._down, self._up = down, up

    def __call__(self, module: nn.Module, inputs: tuple[torch.Tensor], result: Any) -> Any:
        return result + inputs[0] @ self._down.T @ self._up.T
