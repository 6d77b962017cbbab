"""Learning-rate schedules as pure functions of the step."""

from __future__ import annotations

__all__ = ["warmup_constant", "warmup_linear"]


def warmup_linear(step: int, total: int, warmup: float = 0.1) -> float:
    """Factor in (0, 1]: linear rise over the first ``warmup`` share of steps, then linear fall.

    Args:
        step: 0-based index of the step about to be taken.
        total: number of steps of the run.
        warmup: share of ``total``.
    """
    rising = max(1, round(total * warmup))
    if step < rising:
        return (step + 1) / rising
    return max(total - step, 1) / max(total - rising + 1, 1)


def warmup_constant(step: int, total: int, warmup: float = 0.1) -> float:
    """Factor in (0, 1]: the same rise, then 1."""
    return min(1.0, (step + 1) / max(1, round(total * warmup)))
