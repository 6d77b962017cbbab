"""Cross entropy over a vocabulary, without the logits of all rows at a time.

The logits of a step's masked tokens are the largest arrays of pretraining by far (440 tokens and a
vocabulary of 16,000: 28 MB, four times over with their gradients), and on a processor fetching that
memory took half of a step. Here some rows' logits are computed, turned into their gradient in place
and multiplied out before the next rows' take their room, as Liger Kernel does on accelerators
(Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024, section 3.2).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from pocketquery.server.modeling.precision import at_least_float32

__all__ = ["vocabulary_cross_entropy"]

# Logits at a time: on processors 8 MB, which their caches hold; accelerators want large launches.
_LOGITS = {"cpu": 2**21}
_LOGITS_ELSEWHERE = 2**26


def vocabulary_cross_entropy(
    states: torch.Tensor, table: torch.Tensor, bias: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The summed cross entropy of ``softmax(states @ table.T + bias)``, and how often it is right.

    Under autocast the products are in its type; logits, softmax and sums are in float32 or wider.

    Args:
        states: float (n, width).
        table: float (vocabulary, width), tied to the encoder's or not.
        bias: float (vocabulary,).
        target: int64 (n,), below ``vocabulary``.

    Returns:
        The sum over rows of ``-log p(target)``, 0 where there are none; how many rows have their
        target as the likeliest token, int64, without gradient. Both scalars.
    """
    total, right = _VocabularyCrossEntropy.apply(states, table, bias, target)  # type: ignore[no-untyped-call]
    return total, right


class _VocabularyCrossEntropy(torch.autograd.Function):
    """Gradients are made on the way forward, where the logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        table: torch.Tensor,
        bias: torch.Tensor,
        target: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        device = states.device.type
        kind = states.dtype
        if torch.is_autocast_enabled(device):
            kind = torch.get_autocast_dtype(device)
        needs_gradient = any(ctx.needs_input_grad[:3])
        with torch.autocast(device, enabled=False):
            hidden, rows = states.to(kind), table.to(kind)
            wide = at_least_float32(bias)
            total = wide.new_zeros(())
            right = target.new_zeros(())
            by_states = torch.empty_like(hidden) if needs_gradient else None
            by_table = torch.zeros_like(rows, dtype=wide.dtype) if needs_gradient else None
            by_bias = torch.zeros_like(wide) if needs_gradient else None
            size = max(1, _LOGITS.get(device, _LOGITS_ELSEWHERE) // len(table))
            for first in range(0, len(target), size):
                part = slice(first, first + size)
                logits = at_least_float32(functional.linear(hidden[part], rows))
                logits += wide
                own = target[part, None]
                highest, likeliest = logits.max(dim=1, keepdim=True)
                right += (likeliest == own).sum()
                chosen = logits.gather(1, own)
                logits -= highest
                sums = logits.exp_().sum(dim=1, keepdim=True)
                total += (sums.log() + highest - chosen).sum()
                if by_states is None or by_table is None or by_bias is None:
                    continue
                logits /= sums
                logits.scatter_add_(1, own, logits.new_full((), -1.0).expand_as(own))
                by_bias += logits.sum(dim=0)
                narrow = logits.to(kind)
                by_states[part] = narrow @ rows
                if kind == wide.dtype:
                    by_table.addmm_(narrow.T, hidden[part])
                else:
                    by_table += narrow.T @ hidden[part]
        if needs_gradient:
            ctx.save_for_backward(by_states, by_table, by_bias)
            ctx.kinds = states.dtype, table.dtype, bias.dtype
        ctx.mark_non_differentiable(right)
        return total, right

    @staticmethod
    def backward(ctx: Any, by_total: torch.Tensor, by_right: None) -> Any:
        return *(
            (by_total * gradient).to(kind)
            for gradient, kind in zip(ctx.saved_tensors, ctx.kinds, strict=True)
        ), None
