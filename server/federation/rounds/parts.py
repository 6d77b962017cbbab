"""What a federated round is made of, for federated_round.py: who collects, who writes down, who
decides and releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pocketquery.client.offer import Offer
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.private.secure_round import SecureRound

__all__ = ["Collector", "Decision", "Publisher", "RoundJournal"]


class Collector(Protocol):
    """Reaches devices, each by itself or through gateways, and has their replies written down."""

    def connected(self) -> list[int]:
        """The nodes to ask, once enough are connected.

        Raises:
            ArtifactError: too few came.
        """

    def places(self, connected: int, settings: RoundSettings) -> int:
        """How many devices a round of ``settings`` asks where so many nodes are connected."""

    def begin(self, state: FederationState, offer: Offer) -> SecureRound | None:
        """What a private round on ``state`` knows before anybody is asked; None of a plain one.

        Raises:
            InvalidInputError: such a round cannot be run, or its budget is spent.
        """

    def collect(
        self, report: RoundReport, opened: OpenRound, offer: Offer, nodes: Sequence[int]
    ) -> RoundReport:
        """``report`` after the replies of ``nodes``, which are in the journal when this returns."""


class RoundJournal(Protocol):
    """Writes a round down: :class:`pocketquery.server.federation.orchestration.journal.Journal`."""

    state: FederationState | None
    candidate: FederationState | None
    open_round: OpenRound | None

    def begin(
        self,
        state: FederationState,
        settings: RoundSettings,
        *,
        asked: int,
        now: float,
        secure: SecureRound | None,
    ) -> OpenRound:
        """Open a round on ``state``."""

    def close(self, heard: RoundReport) -> tuple[FederationState, RoundReport]:
        """Close the open round: the state that it proposes, and its report."""

    def settle(self, state: FederationState, report: RoundReport) -> None:
        """Say what became of the candidate."""

    def reports(self) -> list[RoundReport]:
        """The reports of all closed rounds, in order."""


@dataclass(frozen=True)
class Decision:
    """What became of a candidate.

    Attributes:
        accepted: whether it is the release in force.
        version: the release in force from now on.
        report: what the gate measured, see :class:`RoundReport`; None where it did not judge.
        skipped: why it was not judged, where it should have been.
    """

    accepted: bool
    version: str
    report: Mapping[str, Any] | None
    skipped: str | None = None


class Publisher(Protocol):
    """Holds the releases, and decides on new ones."""

    def in_force(self, state: FederationState) -> FederationState:
        """``state`` on the release in force, which may be an older one: rolled back to."""

    def release(self, version: str) -> bytes:
        """The file of a release."""

    def lineage(self) -> bytes:
        """Signed statements of what is in force; empty where nobody signs."""

    def decide(
        self,
        state: FederationState,
        candidate: FederationState,
        privacy: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Judge ``candidate``, made from ``state``, and publish it; the same one only once. What it
        has cost in ``privacy`` goes with the release."""
