"""How a round is run: how many devices, how long, what is accepted, how it becomes one change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check, check_fields, number, one_of, optional, plain, whole
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

_WHOLE = ("clients_per_round", "least_replies", "shards", "remembered_rounds")
_ABOVE_ZERO = ("deadline_seconds", "clip_norm", "largest_weight")
_IN_FLIGHT = 4  # devices that train at once in buffered rounds, for each update of a step


@dataclass(frozen=True)
class RoundSettings:
    """The settings of a round.

    Attributes:
        clients_per_round: how many valid replies are wanted.
        over_selection: how many times as many devices are asked, because some will not reply
            (Bonawitz et al., "Towards Federated Learning at Scale: System Design", section 2).
        least_replies: with fewer valid replies the round is skipped.
        deadline_seconds: after so long, measured on a clock that cannot jump, replies are too late.
        clip_norm: largest L2 norm of a change; the device clips, the server clips again. The
            default leaves an honest change of ten steps as it is (0.90 to 1.18 were measured at a
            learning rate of 1e-3) and lets nobody go much further.
        norm_slack: a change longer than ``norm_slack * clip_norm`` is quarantined, for an honest
            device's is within ``clip_norm`` up to rounding.
        weighting: "equal": every accepted update counts alike. What an update says of its own
            weight only its sender knows, and honest changes of equally many steps are equally long
            whatever number of queries they were drawn from, so nothing is lost by not believing
            it. "declared" believes it, up to ``largest_weight``: for fleets whose devices are all
            one's own.
        largest_weight: a device that declares more is quarantined.
        aggregation: "mean", or across shards "trimmed_mean" or "median"; see shards.py.
        shards: how many running sums the updates are dealt to.
        shard_seed: keep it secret where ``aggregation`` is to withstand hostile devices: who knows
            it can choose a nonce that leads to a shard of its choice. The ServerApp draws one at
            each start; an open round keeps its own, in the journal.
        trim: share of the shards left out at either end by "trimmed_mean".
        optimizer: what makes the mean change a step.
        remembered_rounds: for how many rounds accepted nonces are kept, to tell a replay.
        largest_step: L2 norm of the server's step, which is shortened to it; None: any.
        mode: "synchronous": a round asks its devices at once and ends with them; "buffered":
            devices train all the time, and a round is over when ``clients_per_round`` updates are
            there, from whichever release they began; see orchestration/buffer.py.
        in_flight: of buffered rounds, how many devices train at once; 0: four times
            ``clients_per_round``. They ask no more than that, so ``over_selection`` has no meaning.
        most_staleness: of buffered rounds, how many releases an update may be behind.

    Raises:
        InvalidInputError: a setting is out of its range.
    """

    clients_per_round: int = 20
    over_selection: float = 1.25
    least_replies: int = 5
    deadline_seconds: float = 600.0
    clip_norm: float = 1.25
    norm_slack: float = 1.1
    weighting: Weighting = "equal"
    largest_weight: float = 256.0
    aggregation: Aggregation = "median"
    shards: int = 10
    shard_seed: int = 0
    trim: float = 0.1
    optimizer: ServerOptimizer = field(default_factory=FedAvg)
    remembered_rounds: int = 8
    largest_step: float | None = None
    mode: RoundMode = "synchronous"
    in_flight: int = 0
    most_staleness: int = 8

    def __post_init__(self) -> None:
        """Check each setting, and those that depend on each other."""
        check_fields(
            self,
            **dict.fromkeys(_WHOLE, plain(whole())),
            **dict.fromkeys(_ABOVE_ZERO, plain(number(above=0))),
            largest_step=optional(plain(number(above=0))),
            over_selection=plain(number(1)),
            norm_slack=plain(number(1)),
            trim=plain(number(0, below=0.5)),
            shard_seed=plain(whole(-(2**63), 2**63 - 1)),
            aggregation=one_of(*get_args(Aggregation)),
            weighting=one_of(*get_args(Weighting)),
            mode=one_of(*get_args(RoundMode)),
            in_flight=plain(whole(0)),
        )
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
        found = {**asdict(self), "optimizer": self.optimizer.to_dict()}
        if not self.is_buffered:
            for name in ("mode", "in_flight", "most_staleness"):
                del found[name]
        return found

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> RoundSettings:
        """The settings :meth:`to_dict` described; before it told the weighting, it was declared.

        Raises:
            InvalidInputError: an unknown setting, or one out of its range.
        """
        unknown = found.keys() - {one.name for one in fields(cls)}
        if unknown:
            raise InvalidInputError(
                f"found the settings {sorted(unknown)}, which this release does not know; remove "
                "them or upgrade pocketquery"
            )
        values: dict[str, Any] = {"weighting": "declared", **found}
        if "optimizer" in values:
            values["optimizer"] = optimizer_from_dict(values["optimizer"])
        return cls(**values)
