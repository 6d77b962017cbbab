"""What became of each device's update in the open round, in memory and on disk.

Rows are appended, in the order they came: what a transaction writes of them is one page or two,
however many devices are registered and whichever of them sent. So an upload is not counted in its
device's row at once, which lies anywhere; the verdict says on which day it came, and
:meth:`Verdicts.clear` counts all of a round's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from pocketquery.server.federation.rounds.validation import Reason

__all__ = ["VERDICTS_TABLE", "UpdateVerdict", "Verdicts"]

VERDICTS_TABLE = (
    "CREATE TABLE verdicts (key BLOB NOT NULL, digest BLOB NOT NULL, reason TEXT NOT NULL,"
    " day INTEGER NOT NULL, nonce BLOB NOT NULL)"
)
_COUNT = (
    "INSERT OR REPLACE INTO devices (key, since, day, used)"
    " SELECT key, since, new.day, CASE devices.day WHEN new.day THEN used + 1 ELSE 1 END"
    " FROM verdicts AS new JOIN devices USING (key) WHERE new.day > 0"
)


@dataclass(frozen=True, slots=True)
class UpdateVerdict:
    """What became of a device's update in this round.

    Attributes:
        digest: SHA-256 of the update's bytes; empty where the device declined.
        reason: why it is not in the sum: a word of Reason, or "declined"; empty where it is.
    """

    digest: bytes
    reason: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the update is in the sum."""
        return not self.reason


class Verdicts:
    """The verdicts of a round; changes are part of the journal's transaction.

    Args:
        connection: of the journal.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[bytes, UpdateVerdict] = {}
        self._new: list[tuple[bytes, bytes, str, int, bytes]] = []

    def load(self) -> list[bytes]:
        """All of them, as they are on disk; the nonces of the updates that are in a sum, 16 bytes
        each."""
        self._new.clear()
        rows = self._connection.execute(
            "SELECT key, digest, reason, nonce FROM verdicts"
        ).fetchall()
        self._known = {key: UpdateVerdict(digest, reason) for key, digest, reason, _ in rows}
        return [nonce for *_, nonce in rows if nonce]

    def get(self, key: bytes) -> UpdateVerdict | None:
        """What became of this device's update; None where none came."""
        return self._known.get(key)

    def add(
        self, key: bytes, verdict: UpdateVerdict, *, day: int = 0, nonce: str | None = None
    ) -> None:
        """One more, which :meth:`write` writes.

        Args:
            key: the device's.
            verdict: on its update.
            day: in days since 1970, where its upload is to be counted.
            nonce: of an update that is in a sum, 32 hexadecimal digits.
        """
        assert verdict.reason in ("", "declined") or Reason(verdict.reason)
        self._known[key] = verdict
        raw = bytes.fromhex(nonce or "")
        self._new.append((key, verdict.digest, verdict.reason, day, raw))

    def take_uploads(self, key: bytes, day: int) -> int:
        """How many uploads of a device on a day are to be counted, which :meth:`clear` does not
        count any more."""
        if key not in self._known:
            return 0
        self.write()
        query = "UPDATE verdicts SET day = 0 WHERE key = ? AND day = ?"
        return self._connection.execute(query, (key, day)).rowcount

    def write(self) -> None:
        """Write what was added."""
        rows: Iterable[tuple[bytes, bytes, str, int, bytes]] = self._new
        self._connection.executemany("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?)", rows)
        self._new.clear()

    def clear(self) -> None:
        """Count the uploads, and erase all verdicts: another round begins."""
        self.write()
        self._connection.execute(_COUNT)
        self._connection.execute("DELETE FROM verdicts")
        self._known.clear()
