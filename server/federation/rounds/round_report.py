"""A round's record: what a person sees of it while it runs, and what the journal keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

__all__ = ["RoundReport"]


@dataclass(frozen=True)
class RoundReport:
    """A round, running or over.

    Attributes:
        round: its number, from 0.
        base_version: the release it started from.
        asked: how many devices were asked.
        accepted: replies that are in the sum.
        declined: devices that may not, or would not.
        failed: devices that died or could not be reached.
        quarantined: replies left out, by reason code.
        figures: means over the accepted replies of what devices say of their training.
        skipped: None, or why nothing came of the round.
        fallback: None, or why the mean of the replies was taken where the settings say otherwise.
        gate: what the acceptance gate found on held-out queries: ``accepted``, ``reason``,
            ``metric``, its mean ``before`` and ``after``, and the interval of the difference,
            ``low`` to ``high``, and under ``mistyped`` the same of a second set of queries, where
            there is one; None before it, where a round proposed nothing, and without a gate.
        version: the release in force after it; None until that is decided.
        seconds: how long it was open, on the server's clock.
        clipped: how many of the accepted the server had to clip.
        weight: sum of the accepted weights.
        mean_norm: mean L2 norm of the accepted changes, before the server clipped them.
        change_norm: L2 norm of the aggregated change.
        step_norm: L2 norm of the optimizer's step: new adapter minus old.
        aggregation, optimizer: how the step was made.
        filled_shards: how many shards had updates.
        staleness: of a buffered round, how many releases behind the accepted changes began, their
            mean; else None.
        stages: of a private round, how many devices came how far; empty of a plain one.
        privacy: what the season has cost with this round, where noise was added: ``season``,
            ``rounds``, ``epsilon``, ``delta``; else None.
    """

    round: int
    base_version: str
    asked: int = 0
    accepted: int = 0
    declined: int = 0
    failed: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    skipped: str | None = None
    fallback: str | None = None
    gate: Mapping[str, Any] | None = None
    version: str | None = None
    seconds: float = 0.0
    clipped: int = 0
    weight: float = 0.0
    mean_norm: float = 0.0
    change_norm: float = 0.0
    step_norm: float = 0.0
    aggregation: str = "mean"
    optimizer: str = "fedavg"
    filled_shards: int = 0
    staleness: float | None = None
    stages: Mapping[str, int] = field(default_factory=dict)
    privacy: Mapping[str, Any] | None = None

    @property
    def received(self) -> int:
        """Updates that came, good and bad."""
        return self.accepted + sum(self.quarantined.values())

    @property
    def replied(self) -> int:
        """Replies of any kind."""
        return self.received + self.declined + self.failed

    @property
    def outcome(self) -> str:
        """In a word or two: running, skipped, rejected, or the version that was released."""
        if self.skipped is not None:
            return "skipped"
        if self.version is None:
            return "running"
        return f"release {self.version}" if self.version != self.base_version else "rejected"

    def with_accepted(self, figures: Mapping[str, float], count: int = 1) -> RoundReport:
        """This report after ``count`` more accepted replies with these means; figures stay means
        of all."""
        before = self.accepted
        mean = {
            name: (self.figures.get(name, value) * before + value * count) / (before + count)
            for name, value in figures.items()
            if count
        }
        return replace(self, accepted=before + count, figures={**self.figures, **mean})

    def with_quarantined(self, more: Mapping[str, int]) -> RoundReport:
        """This report after more replies that were left out, by reason."""
        counts = Counter(self.quarantined) + Counter(more)
        return replace(self, quarantined=dict(sorted(counts.items())))

    def with_heard(self, heard: RoundReport) -> RoundReport:
        """This report with what only who asked the devices knows; ``heard`` is theirs.

        A resumed round asks every device again, so what was left out is counted anew there, and
        not twice as among the replies that were received.
        """
        return replace(
            self,
            asked=heard.asked,
            declined=heard.declined,
            failed=heard.failed,
            quarantined=heard.quarantined,
            figures=heard.figures,
            seconds=heard.seconds,
            stages=heard.stages,
            privacy=heard.privacy,
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        values = asdict(self)
        if not self.stages:  # of a plain round there is nothing to tell
            del values["stages"], values["privacy"]
        if self.staleness is None:
            del values["staleness"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RoundReport:
        """The report that :meth:`to_dict` described; what another release added is left out."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})
