"""What a gateway answers: its cohort's sums, shard by shard, in the round's own fixed point.

A gateway takes updates exactly as a server does (rounds/round.py): it validates, clips, deals each
to the shard that the server's seed names, and adds integers. Integers add in any order to the same
sum, so what the server merges is what it would have summed from the devices themselves, to the bit,
and medians and trimmed means across shards mean what they meant.

No update can be told from a sum; a gateway is trusted as the server is. It carries one nonce, the
cohort's, and no device's: the gateway tells replays among its devices, the server those of a whole
sum (merging.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.figures import LARGEST_FIGURE
from pocketquery.client.wire_format import WireFormat
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.files import sha256_bytes
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.validation import Reason

__all__ = ["CohortSum", "settings_digest", "shares"]

_FORMAT = WireFormat("pocketquery-cohort-sum", "cohort sum")
_MOST_REPLIES = 10**9


@dataclass(frozen=True)
class CohortSum:
    """One cohort's part of a round.

    Attributes:
        space_id, encoder_sha256, base_version, round: of the updates in it.
        settings_sha256: of the round's settings, see :func:`settings_digest`.
        nonce: 32 hexadecimal digits, drawn for this cohort alone.
        shards: the sums by number; those with no update are left out.
        norms: sum of the accepted norms x 2**40.
        clipped: how many were clipped.
        staleness: of a buffered round, how many releases behind they began, summed.
        quarantined: replies left out, by reason code.
        declined: devices that took the offer and said that they decline.
        figures: means over the accepted replies, see RoundReport.
    """

    space_id: str
    encoder_sha256: str
    base_version: str
    round: int
    settings_sha256: str
    nonce: str
    shards: Mapping[int, RunningSum]
    norms: int = 0
    clipped: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    declined: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)
    staleness: int = 0

    @property
    def count(self) -> int:
        """How many updates are in it."""
        return sum(one.count for one in self.shards.values())

    @classmethod
    def of_round(
        cls, opened: OpenRound, nonce: str, *, declined: int, figures: Mapping[str, float]
    ) -> CohortSum:
        """What a gateway's open round has taken so far."""
        expected = opened.expected
        return cls(
            space_id=expected.space_id,
            encoder_sha256=expected.encoder_sha256,
            base_version=expected.base_version,
            round=expected.round,
            settings_sha256=settings_digest(opened.settings),
            nonce=nonce,
            shards={number: one for number, one in enumerate(opened.shards) if one.count},
            norms=opened.norms,
            clipped=opened.clipped,
            quarantined=dict(opened.quarantined),
            declined=declined,
            figures=dict(figures),
            staleness=opened.staleness,
        )

    def to_bytes(self) -> bytes:
        """One safetensors file; equal sums give equal bytes."""
        body: dict[str, Any] = {
            "space_id": self.space_id,
            "encoder_sha256": self.encoder_sha256,
            "base_version": self.base_version,
            "round": self.round,
            "settings_sha256": self.settings_sha256,
            "nonce": self.nonce,
            "norms": str(self.norms),
            "clipped": self.clipped,
            "quarantined": dict(sorted(self.quarantined.items())),
            "declined": self.declined,
            "figures": dict(sorted(self.figures.items())),
            "shards": {
                str(number): [str(one.weight), one.count, str(one.reach), one.bits]
                for number, one in sorted(self.shards.items())
            },
        }
        if self.staleness:
            body["staleness"] = self.staleness
        tensors = {str(number): one.totals for number, one in sorted(self.shards.items())}
        if not tensors:  # a file of this format holds a tensor
            tensors = {"none": np.zeros(0, np.int64)}
        return _FORMAT.serialize(tensors, json.dumps(body, sort_keys=True))

    @classmethod
    def from_bytes(cls, data: bytes) -> CohortSum:
        """The sum in ``data``, bytes from a gateway; whether it fits a round is
        :func:`~pocketquery_gateway.cohorts.merging.add_cohort`'s to say.

        Raises:
            CorruptArtifactError: not what :meth:`to_bytes` writes.
        """
        tensors, fields = _FORMAT.parse(data)
        try:
            values = dict(fields.items())
            shards = {
                int(number): _sum(tensors[number], row) for number, row in values["shards"].items()
            }
            made = cls(
                space_id=fields.text("space_id"),
                encoder_sha256=fields.text("encoder_sha256"),
                base_version=fields.text("base_version"),
                round=_count(values["round"]),
                settings_sha256=fields.text("settings_sha256"),
                nonce=bytes.fromhex(fields.text("nonce", 32)).hex(),
                shards=shards,
                norms=int(fields.text("norms", 40)),
                clipped=_count(values["clipped"]),
                quarantined={
                    Reason(name).value: _count(n) for name, n in values["quarantined"].items()
                },
                declined=_count(values["declined"]),
                figures={str(name): _figure(one) for name, one in values["figures"].items()},
                staleness=_count(values.get("staleness", 0)),
            )
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise CorruptArtifactError(f"{_FORMAT.source}: {error!s:.200}") from error
        if made.to_bytes() != data:  # one way to write it, so that equal sums are equal bytes
            raise CorruptArtifactError(
                f"{_FORMAT.source}: written in another way than this release does"
            )
        return made


def settings_digest(settings: RoundSettings) -> str:
    """Hexadecimal SHA-256 of all that decides how a round sums."""
    return sha256_bytes(json.dumps(settings.to_dict(), sort_keys=True).encode())


def shares(total: int, parts: int) -> list[int]:
    """``total`` devices over ``parts`` gateways, as evenly as whole numbers allow."""
    return [total // parts + (number < total % parts) for number in range(parts)]


def _sum(totals: NDArray[np.int64], row: Sequence[object]) -> RunningSum:
    weight, count, reach, bits = row
    if totals.dtype != np.int64 or totals.ndim != 1:
        raise ValueError(f"a sum is {totals.dtype} {list(totals.shape)}, expected int64 [n]")
    return RunningSum(totals, _integer(weight), _count(count), _integer(reach), _count(bits))


def _integer(value: object) -> int:
    if not isinstance(value, str) or not value.isdecimal() or len(value) > 40:
        raise ValueError(f"found {value!r:.80}, expected a whole number as text")
    return int(value)


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_REPLIES:
        raise ValueError(f"found {value!r:.80}, expected a whole number from 0")
    return value


def _figure(value: object) -> float:
    if not isinstance(value, int | float) or not abs(value) <= LARGEST_FIGURE:
        raise ValueError(f"found the figure {value!r:.80}, expected a number")
    return float(value)
