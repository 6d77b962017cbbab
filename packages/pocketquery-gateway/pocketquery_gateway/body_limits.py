"""How many bytes a request's body may have, by what is asked, and all bodies in memory together."""

from __future__ import annotations

import math
from collections import Counter

from pocketquery.client.private.commitments import COMMITMENTS_BYTES
from pocketquery.client.private.keys import MARK_BYTES
from pocketquery.client.private.messages import BOX_BYTES, Stage
from pocketquery.client.private.replies import READY_BYTES
from pocketquery.client.private.sharing import SHARE_BYTES
from pocketquery.server.federation.rounds.validation import ExpectedUpdate
from pocketquery.server.private.settings import SecureSettings

__all__ = ["SMALL_BODY", "BodyBytes", "BodyLimits"]

SMALL_BODY = 65_536
"""Bytes of a body that is JSON."""

_HEAD = 36  # the binding's digest and the position
_DEALT = 64  # a mask key and the digest of a self seed
_LONGEST_CODE = 4


class BodyLimits:
    """The limits of the round that is open, or was last.

    Attributes:
        update: bytes of an update.
    """

    def __init__(self) -> None:
        self.update = 1 << 20
        self._values = 0
        self._neighbours = 0

    def set(self, expected: ExpectedUpdate, secure: SecureSettings | None) -> None:
        """A round is open: what its updates look like, and how it is run as a private one."""
        self.update = expected.largest_bytes
        self._values = sum(math.prod(shape) for shape in expected.shapes.values())
        self._neighbours = 0 if secure is None else secure.neighbours

    def reply(self, stage: Stage) -> int:
        """Bytes of a reply to a stage of a private round, see client/private/replies.py."""
        k = self._neighbours
        return {
            Stage.OFFER: READY_BYTES,
            Stage.INVITE: _HEAD + _DEALT + (BOX_BYTES + COMMITMENTS_BYTES) * k,
            Stage.COLLECT: _HEAD
            + (MARK_BYTES + COMMITMENTS_BYTES) * k
            + _LONGEST_CODE * self._values,
            Stage.CONFIRM: _HEAD + MARK_BYTES * k,
            Stage.UNMASK: _HEAD + (1 + SHARE_BYTES) * k,
        }[stage]


class BodyBytes:
    """How many bytes of requests' bodies are in memory.

    Args:
        most: of all addresses together.
        most_of_address: of one.
    """

    def __init__(self, most: int, most_of_address: int) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._total = 0
        self._of: Counter[bytes] = Counter()

    def hold(self, who: bytes, size: int) -> bool:
        """Whether there is room for ``size`` more bytes, which are held then.

        Args:
            who: the address that sent them; b"": many devices', which is held to ``most`` alone.
            size: how many.
        """
        of_address = self._of[who] + size if who else 0
        if self._total + size > self._most or of_address > self._most_of_address:
            return False
        self._total += size
        if who:
            self._of[who] = of_address
        return True

    def release(self, who: bytes, size: int) -> None:
        """``size`` bytes that were held are in memory no more."""
        self._total -= size
        if who:
            self._of[who] -= size
            if not self._of[who]:
                del self._of[who]
