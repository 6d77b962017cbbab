"""What the acceptance gate asks of a candidate, and what it says of one."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pocketquery.client.training.monitors import Health
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.evaluation.bootstrap import Interval
from pocketquery.server.evaluation.metrics import METRICS

__all__ = ["AcceptanceReport", "GateSettings", "Verdict", "verdict_on"]


class Verdict(StrEnum):
    """What the gate decided, and why."""

    ACCEPTED = "accepted"
    NOT_FINITE = "not_finite"
    COLLAPSED = "collapsed"
    RANK_FELL = "rank_fell"
    FELL_FROM_SHIPPED = "fell_from_shipped"
    MEAN_FELL = "mean_fell"
    MAY_HAVE_FALLEN = "may_have_fallen"


@dataclass(frozen=True)
class GateSettings:
    """What a candidate must keep.

    Attributes:
        metric: one of the evaluation's.
        least_mean: least mean difference, from the release in force and from the shipped encoder.
        least_low: least lower end of the interval of the difference from the release in force. It
            takes some hundred queries: with few, the interval alone is wider than this.
        least_spread: least ``std_ratio``, as a share of the shipped encoder's.
        least_rank: least effective rank, as a share of the shipped encoder's.
        confidence: of the interval.
        samples: resamples of the bootstrap.
        seed: of the resampling, and of the order of documents with equal scores.
    """

    metric: str = "ndcg@10"
    least_mean: float = -0.003
    least_low: float = -0.01
    least_spread: float = 0.5
    least_rank: float = 0.5
    confidence: float = 0.95
    samples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise InvalidInputError(
                f"metric is {self.metric!r}, expected one of {', '.join(METRICS)}"
            )
        for name in ("least_spread", "least_rank"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInputError(
                    f"{name} is {getattr(self, name)!r}, expected a share from 0 to 1"
                )
        for name in ("least_mean", "least_low"):
            if not -1 <= getattr(self, name) <= 1:
                raise InvalidInputError(
                    f"{name} is {getattr(self, name)!r}, expected a difference from -1 to 1"
                )
        if not 0 < self.confidence < 1 or self.samples < 1:
            raise InvalidInputError(
                f"confidence is {self.confidence!r} and samples {self.samples!r}, expected a share "
                "between 0 and 1, and 1 or more"
            )


@dataclass(frozen=True)
class AcceptanceReport:
    """What the gate found. Means are of the settings' metric over the judged queries.

    Attributes:
        verdict: the decision.
        detail: one sentence of figures.
        queries: how many were judged.
        before: mean of the release in force.
        after: mean of the candidate; NaN where its vectors are not finite, as all that follows.
        shipped: mean of the encoder as it was shipped.
        difference: ``after - before``, with its paired-bootstrap interval.
        health: the candidate's query vectors beside the shipped encoder's.
        settings: what was asked.
    """

    verdict: Verdict
    detail: str
    queries: int
    before: float
    after: float
    shipped: float
    difference: Interval
    health: Health
    settings: GateSettings

    @property
    def accepted(self) -> bool:
        """Whether the candidate may be released."""
        return self.verdict is Verdict.ACCEPTED

    @property
    def reason(self) -> str:
        """The verdict's code."""
        return self.verdict.value

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: flat, and None for what is not finite."""
        figures = {
            "before": self.before,
            "after": self.after,
            "shipped": self.shipped,
            "difference": self.difference.estimate,
            "low": self.difference.low,
            "high": self.difference.high,
            **dataclasses.asdict(self.health),
        }
        return {
            "accepted": self.accepted,
            "reason": self.reason,
            "detail": self.detail,
            "metric": self.settings.metric,
            "queries": self.queries,
            **{name: value if math.isfinite(value) else None for name, value in figures.items()},
            "settings": dataclasses.asdict(self.settings),
        }


def verdict_on(
    difference: Interval, from_shipped: float, health: Health, settings: GateSettings
) -> tuple[Verdict, str]:
    """The decision on finite figures, and one sentence that says why.

    Args:
        difference: of the candidate from the release in force.
        from_shipped: its mean less the shipped encoder's.
        health: its query vectors beside the shipped encoder's.
        settings: what it must keep.
    """
    checks = (
        (Verdict.COLLAPSED, "the spread", health.spread_kept, settings.least_spread),
        (Verdict.RANK_FELL, "the effective rank", health.rank_kept, settings.least_rank),
        (Verdict.MEAN_FELL, "the mean difference", difference.estimate, settings.least_mean),
        (Verdict.FELL_FROM_SHIPPED, "the difference", from_shipped, settings.least_mean),
        (Verdict.MAY_HAVE_FALLEN, "the low end", difference.low, settings.least_low),
    )
    against = {
        Verdict.COLLAPSED: " of the shipped encoder's",
        Verdict.RANK_FELL: " of the shipped encoder's",
        Verdict.MEAN_FELL: " from the release in force",
        Verdict.FELL_FROM_SHIPPED: " from the shipped encoder",
        Verdict.MAY_HAVE_FALLEN: " of the difference from the release in force",
    }
    for verdict, what, found, least in checks:
        if found < least:
            return verdict, f"{what}{against[verdict]} is {found:.4f}, at least {least} is required"
    low, high = difference.low, difference.high
    return Verdict.ACCEPTED, f"{difference.estimate:+.4f} [{low:+.4f}, {high:+.4f}]"
