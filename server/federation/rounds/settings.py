"""How a round is run: how many devices, how long, what is accepted, how it becomes one change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

from pocketquery.sdk.settings.declaration import Settings, from_json
from pocketquery.sdk.validation import check, number, plain, whole
from pocketquery.server.federation.rounds.running_sum import fraction_bits
from pocketquery.server.federation.rounds.server_optimizers import (
    FedAvg,
    ServerOptimizer,
    optimizer_from_dict,
)
from pocketquery.server.federation.rounds.shards import LEAST_SHARDS, Aggregation

__all__ = ["RoundMode", "RoundSettings", "Weighting"]

RoundMode = Literal["synchronous", "buffered"]
Weighting = Literal["equal", "declared"]

_IN_FLIGHT = 4  # devices that train at once in buffered rounds, for each update of a step


@dataclass(frozen=True)
class RoundSettings(Settings):
    """The settings of a round.

    More devices are asked than are wanted, because some will not reply (Bonawitz et al., "Towards
    Federated Learning at Scale: System Design", section 2). A buffered round asks
    ``clients_per_round`` and no more, and ends with as many updates, from whichever release they
    began; see orchestration/buffered.py.

    ``clip_norm`` leaves an honest change of ten steps as it is (0.90 to 1.18 were measured at a
    learning rate of 1e-3) and lets nobody go much further; what is longer than ``norm_slack`` times
    as much is quarantined.

    What an update says of its own weight only its sender knows, and honest changes of equally many
    steps are equally long whatever number of queries they were drawn from, so nothing is lost by
    not believing it. "declared" believes it: for fleets whose devices are all one's own.

    Keep ``shard_seed`` secret where ``aggregation`` is to withstand hostile devices: who knows it
    can choose a nonce that leads to a shard of its choice. The ServerApp draws one at each start;
    an open round keeps its own, in the journal.

    Raises:
        InvalidInputError: a setting is out of its range.
    """

    clients_per_round: Annotated[int, plain(whole()), "valid replies wanted in a round"] = 20
    over_selection: Annotated[float, plain(number(1)), "times as many devices are asked"] = 1.25
    least_replies: Annotated[int, plain(whole()), "with fewer valid replies a round is skipped"] = 5
    deadline_seconds: Annotated[
        float, plain(number(above=0)), "seconds after which replies are too late"
    ] = 600.0
    clip_norm: Annotated[float, plain(number(above=0)), "largest L2 norm of a device's change"] = (
        1.25
    )
    norm_slack: Annotated[float, plain(number(1)), "times clip_norm that is quarantined"] = 1.1
    weighting: Annotated[Weighting, "of devices: equal, or declared (by themselves)"] = "equal"
    largest_weight: Annotated[
        float, plain(number(above=0)), "largest weight a device may declare"
    ] = 256.0
    aggregation: Annotated[Aggregation, "mean, trimmed_mean or median (across shards)"] = "median"
    shards: Annotated[int, plain(whole()), "running sums that updates are dealt to"] = 10
    shard_seed: Annotated[int, plain(whole(-(2**63), 2**63 - 1)), "deals the updates"] = 0
    trim: Annotated[
        float, plain(number(0, below=0.5)), "share of the shards left out at either end"
    ] = 0.1
    optimizer: Annotated[ServerOptimizer, "makes the mean change a step"] = FedAvg()
    remembered_rounds: Annotated[
        int, plain(whole()), "for how many rounds accepted nonces are known, to tell a replay"
    ] = 8
    largest_step: Annotated[
        float | None, plain(number(above=0)), "L2 norm that the server's step is shortened to"
    ] = None
    mode: Annotated[RoundMode, "synchronous, or buffered: a step as soon as updates are there"] = (
        "synchronous"
    )
    in_flight: Annotated[
        int, plain(whole(0)), "buffered: devices that train at once; 0: 4 x clients"
    ] = 0
    most_staleness: Annotated[int, "buffered: releases an update may be behind"] = 8

    def __post_init__(self) -> None:
        """Check each setting, and those that depend on each other."""
        super().__post_init__()
        least = 1 if self.aggregation == "mean" else LEAST_SHARDS
        check("least_replies", self.least_replies, whole(1, self.clients_per_round))
        check(f"shards, for {self.aggregation},", self.shards, whole(least))
        if self.is_buffered:  # for so long a replay is known
            check("most_staleness", self.most_staleness, plain(whole(0, self.remembered_rounds)))
        self.bits()

    def asked(self) -> int:
        """How many devices a round asks, and so the most updates it accepts; of a buffered one, how
        many updates end it."""
        if self.is_buffered:
            return self.clients_per_round
        return math.ceil(self.clients_per_round * self.over_selection)

    @property
    def is_buffered(self) -> bool:
        """Whether updates count whichever release they began from."""
        return self.mode == "buffered"

    def at_once(self) -> int:
        """How many devices train at once."""
        if self.is_buffered:
            return self.in_flight or _IN_FLIGHT * self.clients_per_round
        return self.asked()

    def bits(self) -> int:
        """Bits after the point of the round's sums: as many as cannot overflow.

        Raises:
            InvalidInputError: too few are left.
        """
        most = self.largest_weight if self.weighting == "declared" else 1.0
        return fraction_bits(max(1.0, self.asked() * most * self.clip_norm))

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON values; of synchronous rounds those that they have."""
        values = {**asdict(self), "optimizer": self.optimizer.to_dict()}
        if not self.is_buffered:
            for name in ("mode", "in_flight", "most_staleness"):
                del values[name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RoundSettings:
        """The settings :meth:`to_dict` described.

        Raises:
            InvalidInputError: an unknown setting, or one out of its range.
        """
        settings = {name: value for name, value in values.items() if name != "optimizer"}
        read = from_json(cls, settings, "the settings of the rounds")
        if "optimizer" not in values:
            return read
        return replace(read, optimizer=optimizer_from_dict(values["optimizer"]))
