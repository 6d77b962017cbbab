"""Gradient norms of each loss at the encoder's token states, to compare the losses.

At the states and not at the sentence's vector: there a loss that does not pass through the vector,
such as MLM's, can be compared too. Losses that work together should pull within two orders of
magnitude of each other; weights are chosen by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from pocketquery.server.modeling import SentenceEncoder

__all__ = ["gradient_norms", "token_states"]


@contextmanager
def token_states(encoder: SentenceEncoder, *, enabled: bool = True) -> Iterator[list[torch.Tensor]]:
    """The token states with gradient that the encoder gives, in a list that grows as it does.

    Args:
        encoder: any; a :class:`ChunkedEncoder` gives states for every chunk.
        enabled: whether to keep any; without, the list stays empty.
    """
    states: list[torch.Tensor] = []
    if not enabled:
        yield states
        return

    def keep(module: nn.Module, arguments: Any, output: Any) -> None:
        if output[0].requires_grad:
            states.append(output[0])

    hook = encoder.backbone.register_forward_hook(keep)
    try:
        yield states
    finally:
        hook.remove()


def gradient_norms(
    losses: Mapping[str, torch.Tensor], states: list[torch.Tensor]
) -> dict[str, float]:
    """The norm of each loss's gradient at the states, over all texts together.

    Costs a backward pass from each loss to the states, not through the encoder; the graph stays.

    Args:
        losses: scalars by name, un-weighted.
        states: what the encoder gave on the way to them.
    """
    norms = {}
    for name, loss in losses.items():
        if states and loss.requires_grad:
            gradients = torch.autograd.grad(loss, states, retain_graph=True, allow_unused=True)
            squares = [float(one.float().square().sum()) for one in gradients if one is not None]
            norms[name] = sum(squares) ** 0.5
    return norms
