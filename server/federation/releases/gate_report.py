"""What the acceptance gate asks of a candidate, and what it says of one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pocketquery.client.bootstrap import Interval
from pocketquery.client.training.monitors import Health
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import SEED, number, one_of, whole
from pocketquery.server.evaluation.metrics import METRICS
from pocketquery.server.federation.releases.risen import Risen

__all__ = [
    "CLEAN",
    "MISTYPED",
    "AcceptanceReport",
    "Comparison",
    "GateSettings",
    "Verdict",
    "verdict_on",
]

CLEAN, MISTYPED = "clean", "mistyped"
"""The sets of queries: as they are, and mistyped."""

_FEWEST = 5  # queries that a document must rise in: fewer are chance, however few there are
_NOTHING_ROSE = Risen()


class Verdict(StrEnum):
    """What the gate decided, and why."""

    ACCEPTED = "accepted"
    NOT_FINITE = "not_finite"
    COLLAPSED = "collapsed"
    RANK_FELL = "rank_fell"
    FELL_FROM_SHIPPED = "fell_from_shipped"
    MEAN_FELL = "mean_fell"
    MAY_HAVE_FALLEN = "may_have_fallen"
    DOCUMENT_ROSE = "document_rose"
    NO_GAIN = "no_gain"


_SHARE = number(0, 1)
_DIFFERENCE = number(-1, 1)


@dataclass(frozen=True)
class GateSettings(Settings):
    """What a candidate must keep, on every set of queries, and gain on one at least."""

    metric: Annotated[str, one_of(*METRICS), "one of the evaluation's"] = "ndcg@10"
    least_gain: Annotated[
        float,
        _DIFFERENCE,
        "lower end of the interval of the difference from the release in force that one set must "
        "be above; -1 asks for no gain",
    ] = 0.0
    least_mean: Annotated[
        float,
        _DIFFERENCE,
        "mean difference from the release in force, and from the shipped encoder",
    ] = -0.003
    least_low: Annotated[
        float,
        _DIFFERENCE,
        "lower end of the interval of the difference from the release in force; takes some hundred "
        "queries: with few, the interval alone is wider",
    ] = -0.01
    least_spread: Annotated[float, _SHARE, "std_ratio, as a share of the shipped encoder's"] = 0.5
    least_rank: Annotated[float, _SHARE, "effective rank, as a share of the shipped encoder's"] = (
        0.5
    )
    most_risen: Annotated[
        float,
        _SHARE,
        "of the queries, each typing counted, across which a single document may rise, where it "
        "rose in five at least (risen.py); 1 lets any rise",
    ] = 0.01
    confidence: Annotated[float, number(above=0, below=1), "of the interval"] = 0.95
    samples: Annotated[int, whole(), "resamples of the bootstrap"] = 10_000
    seed: Annotated[int, SEED, "of the resampling, and of the order of equal scores"] = 0


@dataclass(frozen=True)
class Comparison:
    """Retrieval on one set of queries; means of the settings' metric over the judged ones.

    Attributes:
        before: mean of the release in force.
        after: mean of the candidate; NaN where its vectors are not finite.
        shipped: mean of the encoder as it was shipped.
        difference: ``after - before``, with its paired-bootstrap interval.
    """

    before: float
    after: float
    shipped: float
    difference: Interval

    def figures(self) -> dict[str, float | None]:
        """As JSON has it: None for what is not finite."""
        values = {
            "before": self.before,
            "after": self.after,
            "shipped": self.shipped,
            "difference": self.difference.estimate,
            "low": self.difference.low,
            "high": self.difference.high,
        }
        return {name: value if math.isfinite(value) else None for name, value in values.items()}


@dataclass(frozen=True)
class AcceptanceReport:
    """What the gate found.

    Attributes:
        verdict: the decision.
        detail: one sentence of figures.
        queries: how many were judged.
        sets: what was found on each set, :data:`CLEAN` before :data:`MISTYPED`, or one of them.
        health: the candidate's query vectors beside the shipped encoder's; NaN where not finite.
        settings: what was asked.
        risen: the document that rose across most queries; none where nothing was compared.
        privacy: what the season of the candidate's round had cost by then, where noise was added,
            see :class:`pocketquery.server.federation.rounds.round_report.RoundReport`; else None.
    """

    verdict: Verdict
    detail: str
    queries: int
    sets: Mapping[str, Comparison]
    health: Health
    settings: GateSettings
    risen: Risen = _NOTHING_ROSE
    privacy: Mapping[str, Any] | None = None

    @property
    def accepted(self) -> bool:
        """Whether the candidate may be released."""
        return self.verdict is Verdict.ACCEPTED

    @property
    def reason(self) -> str:
        """The verdict's code."""
        return self.verdict.value

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: the first set's figures flat, those of a second under its name."""
        (first, shown), *rest = self.sets.items()
        health = dataclasses.asdict(self.health)
        privacy = {} if self.privacy is None else {"privacy": dict(self.privacy)}
        return {
            "accepted": self.accepted,
            "reason": self.reason,
            "detail": self.detail,
            "metric": self.settings.metric,
            "queries": self.queries,
            "set": first,
            **shown.figures(),
            **{name: value if math.isfinite(value) else None for name, value in health.items()},
            **{name: comparison.figures() for name, comparison in rest},
            "risen": dataclasses.asdict(self.risen),
            "settings": dataclasses.asdict(self.settings),
            **privacy,
        }


def verdict_on(
    sets: Mapping[str, Comparison],
    health: Health,
    settings: GateSettings,
    risen: Risen = _NOTHING_ROSE,
) -> tuple[Verdict, str]:
    """The decision on finite figures, and one sentence that says why.

    Args:
        sets: the candidate beside the release in force and the shipped encoder, by set.
        health: its query vectors beside the shipped encoder's.
        settings: what it must keep, and gain.
        risen: the document that rose across most queries.
    """
    shipped = " of the shipped encoder's"
    checks = [
        (Verdict.COLLAPSED, "the spread" + shipped, health.spread_kept, settings.least_spread),
        (Verdict.RANK_FELL, "the effective rank" + shipped, health.rank_kept, settings.least_rank),
    ]
    for name, one in sets.items():
        said, difference = f", {name} queries,", one.difference
        fell = one.after - one.shipped
        checks += [
            (
                Verdict.MEAN_FELL,
                f"the mean difference from the release in force{said}",
                difference.estimate,
                settings.least_mean,
            ),
            (
                Verdict.FELL_FROM_SHIPPED,
                f"the difference from the shipped encoder{said}",
                fell,
                settings.least_mean,
            ),
            (
                Verdict.MAY_HAVE_FALLEN,
                f"the low end of the difference from the release in force{said}",
                difference.low,
                settings.least_low,
            ),
        ]
    for verdict, what, found, least in checks:
        if found < least:
            return verdict, f"{what} is {found:.4f}, at least {least} is required"
    if risen.queries >= _FEWEST and risen.share > settings.most_risen:
        return (
            Verdict.DOCUMENT_ROSE,
            f"the document {risen.document!r} rose into the first ten of {risen.queries} queries "
            f"({risen.share:.1%}) that had nothing to do with it, at most "
            f"{settings.most_risen:.1%} may",
        )
    found_on = ", ".join(f"{name} {_interval(one.difference)}" for name, one in sets.items())
    if not any(one.difference.low > settings.least_gain for one in sets.values()) and (
        settings.least_gain > -1
    ):
        return (
            Verdict.NO_GAIN,
            f"no gain over the release in force is shown: {found_on}; an interval above "
            f"{settings.least_gain:g} is required",
        )
    return Verdict.ACCEPTED, found_on


def _interval(difference: Interval) -> str:
    return f"{difference.estimate:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"
