"""Several processes that train one encoder: gradients are averaged, nothing is wrapped.

``torchrun`` and ``accelerate launch`` tell each process who it is through the environment. Every
process takes its own micro-batches and holds the same weights; what an objective keeps beside them
(a memory bank) is a process's own. Negatives are not exchanged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling.sentence_encoder import to_device

__all__ = ["Processes", "join_processes"]

Value = TypeVar("Value")

_BUCKET = 2**24  # numbers that are sent at a time


@dataclass(frozen=True)
class Processes:
    """This process among ``count``; alone, all of the below does nothing."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def sum(self, values: Sequence[float], device: torch.device) -> list[float]:
        """Element-wise sums over the processes."""
        if self.count == 1:
            return list(values)
        kind = torch.float32 if device.type == "mps" else torch.float64
        total = torch.tensor(values, dtype=kind, device=device)
        dist.all_reduce(total)
        result: list[float] = total.tolist()
        return result

    def average_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace every gradient by its mean; a process that has none counts as zero.

        A parameter without a gradient anywhere stays without, as it does in one process.
        """
        if self.count == 1:
            return
        device = parameters[0].device
        present = self.sum([float(p.grad is not None) for p in parameters], device)
        trained = [p for p, has_gradient in zip(parameters, present, strict=True) if has_gradient]
        for bucket in _buckets(trained):
            self._average(bucket)

    def _average(self, bucket: Sequence[nn.Parameter]) -> None:
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.count
        pieces = torch.split(flat, [p.numel() for p in bucket])
        for parameter, piece in zip(bucket, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)

    def gather_state(self, module: nn.Module) -> list[dict[str, Any]]:
        """The state of every process's ``module``, in the first; in the others an empty list."""
        if self.count == 1:
            return [module.state_dict()]
        gathered: list[Any] | None = [None] * self.count if self.first else None
        dist.gather_object(_on_processor(module), gathered)
        return gathered or []

    def share(self, value: Value) -> Value:
        """The first process's value."""
        if self.count == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box)
        return box[0]

    def share_weights(self, modules: Sequence[nn.Module]) -> None:
        """Give the first process's parameters and buffers to all."""
        if self.count == 1:
            return
        for module in modules:
            module.load_state_dict(self.share(_on_processor(module)))

    @contextmanager
    def first_goes_ahead(self) -> Iterator[None]:
        """The others enter when the first has left: it writes what they then read."""
        if not self.first:
            dist.barrier()
        yield
        if self.first and self.count > 1:
            dist.barrier()

    def leave(self) -> None:
        """End the group."""
        if self.count > 1:
            dist.destroy_process_group()


def join_processes(device: str = "cpu") -> tuple[Processes, str]:
    """Join the group that the environment describes, if there is one.

    Args:
        device: what the run was asked to train on; on accelerators each process takes its own.

    Returns:
        This process, and the device it trains on.

    Raises:
        InvalidInputError: half of an environment, or this machine has no such device.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count > 1 and "RANK" not in os.environ:
        raise InvalidInputError(
            f"WORLD_SIZE is {count} and RANK is not set; expected both or neither: start the "
            "processes with torchrun or accelerate launch"
        )
    own = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if count > 1 and device == "cuda" else device
    to_device(torch.empty(0), own)
    if count == 1:
        return Processes(), own
    if own != device:
        torch.cuda.set_device(own)
    dist.init_process_group("nccl" if own.startswith("cuda") else "gloo")
    return Processes(dist.get_rank(), dist.get_world_size()), own


def _on_processor(module: nn.Module) -> dict[str, Any]:
    state = module.state_dict()
    return {n: v.cpu() if isinstance(v, torch.Tensor) else v for n, v in state.items()}


def _buckets(parameters: Sequence[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Parameters in their order, in lists of one type and of about ``_BUCKET`` numbers."""
    buckets: list[list[nn.Parameter]] = []
    room = 0
    for parameter in parameters:
        if not buckets or room < parameter.numel() or buckets[-1][0].dtype != parameter.dtype:
            buckets.append([])
            room = _BUCKET
        buckets[-1].append(parameter)
        room -= parameter.numel()
    return buckets
