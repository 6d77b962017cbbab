"""An upload, as what carried it hands it to the round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round import Prepared

__all__ = ["Upload"]


@dataclass(frozen=True, slots=True)
class Upload:
    """One device's update to a round.

    Attributes:
        key: the device's.
        number: of the round.
        data: the update.
        digest: its SHA-256.
        today: days since 1970.
        figures: how the training went.
        prepared: the update as it was read for a round that was open then; None: not yet.
    """

    key: bytes
    number: int
    data: bytes
    digest: bytes
    today: int
    figures: Mapping[str, float] = field(default_factory=dict)
    prepared: Prepared | None = None

    def reply_to(self, opened: OpenRound) -> bytes | Prepared:
        """The update, read for ``opened`` where it was."""
        if self.prepared is not None and self.prepared.expected is opened.expected:
            return self.prepared
        return self.data
