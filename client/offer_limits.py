"""A device's own limits on offers, which no server can loosen.

An offer decides how many queries a change is computed from and how strongly each shows in it: one
step on one query, unclipped, reveals that query to anybody who has the index (docs/devices.md has
the figures). These limits keep a change from being about few queries; they do not make it
anonymous.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole

__all__ = ["OfferLimits"]

_UNLIMITED = 1e30


@dataclass(frozen=True)
class OfferLimits(Settings):
    """The limits; an offer beyond one of them is declined.

    Raises:
        InvalidInputError: a limit out of range.
    """

    least_queries: Annotated[
        int,
        whole(),
        "distinct queries that the whole training must see, of as many in the store; for opened "
        "results to count, as many of those must have one that is still in the index",
    ] = 32
    least_steps: Annotated[int, whole(), "with fewer, the change is the last gradient"] = 5
    most_steps: Annotated[int, whole(), "bounds the work too"] = 100
    least_batch: Annotated[int, whole(), "queries a step"] = 16
    most_repetitions: Annotated[
        int, whole(), "how often a query is shown on average, steps * batch / queries"
    ] = 10
    largest_clip: Annotated[float, number(0), "L2 norm of the change"] = 2.0
    largest_learning_rate: Annotated[float, number(0), "AdamW's"] = 0.01
    largest_weight_decay: Annotated[
        float, number(0), "more of it forgets all steps but the last"
    ] = 0.1
    largest_proximal: Annotated[float, number(0), "the same"] = 0.1
    largest_opened_weight: Annotated[
        float, number(0), "more of it shows the queries with opened results alone"
    ] = 1.0
    largest_hybrid_weight: Annotated[
        float, number(0), "more of it leaves the pull to the shipped encoder without effect"
    ] = 1.0
    least_typo_rate: Annotated[
        float,
        number(0),
        "share of letters mistyped where views are mistyped; above 0, heavy views that may be "
        "the query itself are declined, too",
    ] = 0.02
    least_temperature: Annotated[
        float, number(0), "below, one query in doubt outweighs all others"
    ] = 0.02
    largest_drift: Annotated[
        float,
        number(0),
        "of the monitor, which is what stops a release made to react to few queries",
    ] = 0.2
    least_kept: Annotated[float, number(0), "of the monitors of rank and spread"] = 0.5

    @classmethod
    def none(cls) -> OfferLimits:
        """No limit but those of :class:`LocalConfig`; for queries that are nobody's."""
        return cls(
            least_queries=1,
            least_steps=1,
            most_steps=10**9,
            least_batch=1,
            most_repetitions=10**9,
            largest_clip=_UNLIMITED,
            largest_learning_rate=_UNLIMITED,
            largest_weight_decay=_UNLIMITED,
            largest_proximal=_UNLIMITED,
            largest_opened_weight=_UNLIMITED,
            largest_hybrid_weight=_UNLIMITED,
            least_typo_rate=0.0,
            least_temperature=0.0,
            largest_drift=_UNLIMITED,
            least_kept=0.0,
        )

    def refusal(self, config: LocalConfig, clip_norm: float, queries: int) -> str | None:
        """Why a device with this many distinct ``queries`` declines; None where it does not."""
        return next(self._broken(config, clip_norm, queries), None)

    def _broken(self, config: LocalConfig, clip_norm: float, queries: int) -> Iterator[str]:
        shown = config.steps * config.batch_size
        trained = min(queries, shown)
        monitors = config.limits
        for name, offered, least in (
            ("steps", config.steps, self.least_steps),
            ("batch_size", config.batch_size, self.least_batch),
            ("distinct queries to train on", trained, self.least_queries),
            ("temperature", config.temperature, self.least_temperature),
            ("limits.rank_kept", monitors.rank_kept, self.least_kept),
            ("limits.spread_kept", monitors.spread_kept, self.least_kept),
        ):
            if not offered >= least:
                yield _violation(name, offered, "at least", least)
        for name, offered, most in (
            ("steps", config.steps, self.most_steps),
            ("showings of a query", shown / max(queries, 1), self.most_repetitions),
            ("clip_norm", clip_norm, self.largest_clip),
            ("learning_rate", config.learning_rate, self.largest_learning_rate),
            ("weight_decay", config.weight_decay, self.largest_weight_decay),
            ("proximal", config.proximal, self.largest_proximal),
            ("opened_loss_weight", config.opened_loss_weight, self.largest_opened_weight),
            ("hybrid_loss_weight", config.hybrid_loss_weight, self.largest_hybrid_weight),
            ("limits.drift", monitors.drift, self.largest_drift),
        ):
            if not offered <= most:
                yield _violation(name, offered, "at most", most)
        if not self.least_typo_rate:
            return
        for augmenter in config.view_plan(2).heavy:
            if augmenter.strength != "heavy":
                yield f"heavy_views has {augmenter.name!r}, which may leave a query as it is"
            elif augmenter.name == "typo" and config.typo_rate < self.least_typo_rate:
                yield _violation("typo_rate", config.typo_rate, "at least", self.least_typo_rate)


def _violation(name: str, offered: float, bound: str, value: float) -> str:
    return f"{name}: found {offered:g}, this device accepts {bound} {value:g}"
