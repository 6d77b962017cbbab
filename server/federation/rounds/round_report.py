"""What became of a round: numbers a person or a dashboard reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["RoundReport"]


@dataclass(frozen=True)
class RoundReport:
    """One closed round.

    Attributes:
        round: its number.
        base_version: the release it started from.
        asked: how many devices were asked.
        received: how many replies came, good and bad.
        accepted: how many are in the sum.
        quarantined: how many are not, by reason code.
        clipped: how many of the accepted the server had to clip.
        skipped: None, or why nothing was changed.
        weight: sum of the accepted weights.
        mean_norm: mean L2 norm of the accepted changes, before the server clipped them.
        change_norm: L2 norm of the aggregated change.
        step_norm: L2 norm of the optimizer's step: new adapter minus old.
        aggregation, optimizer: how the step was made.
        fallback: None, or why it was the mean where the settings say otherwise.
        filled_shards: how many shards had updates.
        seconds: how long the round was open.
    """

    round: int
    base_version: str
    asked: int
    received: int
    accepted: int
    quarantined: Mapping[str, int] = field(default_factory=dict)
    clipped: int = 0
    skipped: str | None = None
    weight: float = 0.0
    mean_norm: float = 0.0
    change_norm: float = 0.0
    step_norm: float = 0.0
    aggregation: str = "mean"
    optimizer: str = "fedavg"
    fallback: str | None = None
    filled_shards: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self) | {"quarantined": dict(self.quarantined)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> RoundReport:
        """The report that :meth:`to_dict` described."""
        return cls(**found)

    def __str__(self) -> str:
        """One line, as a log shows it."""
        counts = f"asked {self.asked}, received {self.received}, accepted {self.accepted}"
        reasons = ", ".join(f"{reason} {count}" for reason, count in self.quarantined.items())
        parts = [f"round {self.round} on release {self.base_version}: {counts}"]
        parts += [f"quarantined: {reasons}"] if reasons else []
        parts += [f"skipped: {self.skipped}"] if self.skipped else []
        parts += [self.fallback] if self.fallback else []
        return "; ".join(parts)
