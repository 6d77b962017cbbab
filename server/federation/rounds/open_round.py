"""The round while it is open: running sums, nonces, counts, and the time it has had."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.nonces import NonceSet
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.federation.rounds.validation import ExpectedUpdate
from pocketquery.server.private.secure_round import SecureRound

__all__ = ["OpenRound", "open_round"]

_SEEN_NOTHING = NonceSet()


@dataclass(frozen=True)
class OpenRound:
    """A round that takes replies.

    Attributes:
        state: what it began from.
        settings: how it is run.
        asked: how many devices were asked; no more updates are accepted.
        expected: what an update must look like.
        shards: the running sums.
        nonces: of the accepted updates.
        quarantined: number of replies left out, by reason code.
        clipped: number of accepted updates that the server clipped.
        staleness: of the accepted updates of a buffered round, how many releases they are behind,
            summed.
        norms: sum of the accepted norms x 2**40, an integer so that their order does not matter.
        elapsed: seconds it has been open.
        last_now: the clock's reading at the last reply; None before the first and after a restart.
        secure: what is known of it besides where it is a private round; else None.
    """

    state: FederationState
    settings: RoundSettings
    asked: int
    expected: ExpectedUpdate
    shards: tuple[RunningSum, ...]
    nonces: NonceSet = _SEEN_NOTHING
    quarantined: Mapping[str, int] = field(default_factory=dict)
    clipped: int = 0
    norms: int = 0
    staleness: int = 0
    elapsed: float = 0.0
    last_now: float | None = None
    secure: SecureRound | None = None

    @property
    def accepted(self) -> int:
        """Number of updates in the sums."""
        return sum(shard.count for shard in self.shards)

    @property
    def is_full(self) -> bool:
        """Whether as many updates are there as are wanted."""
        return self.enough(self.accepted)

    def enough(self, accepted: int) -> bool:
        """Whether so many updates are as many as are wanted."""
        return accepted >= min(self.settings.clients_per_round, self.asked)

    @property
    def received(self) -> int:
        """Number of replies, good and bad."""
        return self.accepted + sum(self.quarantined.values())

    def with_quarantined(self, more: Mapping[str, int]) -> OpenRound:
        """This round after more replies that were left out, by reason."""
        before = self.quarantined
        added = {reason: before.get(reason, 0) + count for reason, count in more.items()}
        return replace(self, quarantined={**before, **added})

    def elapsed_at(self, now: float) -> float:
        """Seconds the round has been open when the clock reads ``now``.

        A clock that runs backwards adds nothing; pass ``time.monotonic()``, which does not jump
        forwards either. Time in which the server was down does not count against the devices.
        """
        if not math.isfinite(now):
            raise InvalidInputError(f"the clock reads {now}, expected seconds; see time.monotonic")
        return self.elapsed + max(0.0, now - (now if self.last_now is None else self.last_now))

    def is_over(self, now: float) -> bool:
        """Whether replies are too late when the clock reads ``now``; a buffer waits for ever."""
        if self.settings.is_buffered:
            return False
        return self.elapsed_at(now) > self.settings.deadline_seconds


def open_round(
    state: FederationState,
    settings: RoundSettings,
    *,
    asked: int | None = None,
    now: float | None = None,
) -> OpenRound:
    """A round on ``state`` that has no reply yet.

    Args:
        state: where it begins.
        settings: how it is run.
        asked: how many devices are asked, where fewer are there than the settings ask.
        now: the clock's reading, from where the deadline counts; None: from the first reply.

    Raises:
        InvalidInputError: ``asked`` is below 1 or above what the settings ask; the state carries
            the moments of another optimizer than the settings'.
    """
    settings.optimizer.checked(state.optimizer, state.adapter)
    asked = settings.asked() if asked is None else asked
    if not 1 <= asked <= settings.asked():
        raise InvalidInputError(
            f"found {asked} devices to ask, expected from 1 to {settings.asked()} "
            "(clients_per_round x over_selection)"
        )
    expected = ExpectedUpdate(
        space_id=state.space_id,
        encoder_sha256=state.encoder_sha256,
        base_version=state.version,
        round=state.round,
        shapes={name: value.shape for name, value in state.adapter.items()},
        largest_norm=settings.clip_norm * settings.norm_slack,
        largest_weight=settings.largest_weight,
        earlier=_earlier(state, settings) if settings.is_buffered else {},
    )
    size = sum(value.size for value in state.adapter.values())
    shards = (RunningSum.empty(size, settings.bits()),) * settings.shards
    return OpenRound(state, settings, asked, expected, shards, last_now=now)


def _earlier(state: FederationState, settings: RoundSettings) -> dict[int, tuple[str, int]]:
    """What the remembered rounds offered, and how many releases that is behind; without what is
    further behind than an update may be. A round that released nothing is none behind."""
    earlier: dict[int, tuple[str, int]] = {}
    after, behind = state.version, 0
    for number in sorted(state.bases, reverse=True):
        version = state.bases[number]
        behind += version != after
        if behind > settings.most_staleness:
            break
        earlier[number], after = (version, behind), version
    return earlier
