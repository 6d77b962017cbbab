"""What the stages of a private round need of the round that is open, and of who runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.transport import SecureReply
from pocketquery.server.private.budget import Charge
from pocketquery.server.private.coordinator import SecureReason
from pocketquery.server.private.secure_round import SecureRound, SumGroup
from pocketquery.server.private.unmasking import Unmasked

__all__ = ["Arrival", "Clock", "Round"]


class Arrival(Protocol):
    """A reply of a member, which is a device; whether it is of an earlier stage."""

    @property
    def reply(self) -> SecureReply: ...
    @property
    def node(self) -> int: ...
    @property
    def late(self) -> bool: ...


class Clock(Protocol):
    """Seconds that do not jump."""

    def now(self) -> float:
        """Seconds since some moment."""


class Round(Protocol):
    """The round that is open: what is known of it on disk, and how its devices are reached.

    A device is known by a number, its *member*, which nothing here looks into.

    Attributes:
        secure: what is known.
        number: the round's.
        enough: how many ready devices need no more to be waited for.
        size: values of a change.
        vouched: whether the first stage's reply is a certificate alone, because who relays it has
            seen the device's proof.
    """

    @property
    def secure(self) -> SecureRound: ...
    @property
    def number(self) -> int: ...
    @property
    def enough(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def vouched(self) -> bool: ...

    def is_over(self) -> bool:
        """Whether it is too late to be ready."""

    def charges(self) -> list[Charge]:
        """The rows of the privacy ledger."""

    def offer(self, offer: Offer, nodes: Sequence[int]) -> None:
        """Ask who takes part, of those connected that are not ready yet."""

    def ask(self, messages: Iterable[tuple[int, bytes]], stage: Stage, seconds: float) -> None:
        """Send members their messages of a later stage, which they may answer for ``seconds``."""

    def arrivals(self, is_over: Callable[[], bool]) -> Iterator[Arrival]:
        """Replies as they come, until nobody is left to reply or ``is_over``.

        Raises:
            OSError, httpx.HTTPError: the connection to the SuperLink fails. No reply raises.
        """

    def advance(
        self,
        secure: SecureRound,
        left_out: Mapping[SecureReason, int],
        *,
        charge: Charge | None = None,
        sums: Mapping[int, tuple[SumGroup, Unmasked]] | None = None,
    ) -> None:
        """Make ``secure`` what is known, in one transaction with all the rest.

        Args:
            secure: the next moment.
            left_out: replies that do not count, by reason; added to those before.
            charge: a row for the privacy ledger.
            sums: of groups, by number, that are the round's result.
        """

    def show(self, *, declined: int, failed: int) -> None:
        """Show the round's progress, and how many devices are not ready."""
