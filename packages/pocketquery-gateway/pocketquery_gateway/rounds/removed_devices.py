"""What removed keys had uploaded on the day they were removed: removing a key and registering it
again begins no new day.

Of each is kept the SHA-256 of the key and how many uploads it made, until that day (of UTC) is
over; of a key that had uploaded nothing, nothing.
"""

from __future__ import annotations

import hashlib
import sqlite3

__all__ = ["REMOVED_TABLE", "RemovedDevices"]

REMOVED_TABLE = (
    "CREATE TABLE removed (digest BLOB PRIMARY KEY, day INTEGER NOT NULL, used INTEGER NOT NULL)"
    " WITHOUT ROWID"
)


class RemovedDevices:
    """Their counts; changes are part of the journal's transaction.

    Args:
        connection: of the journal.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._count = 0
        self._cleared = -1  # the day on which those of days before were erased

    def __len__(self) -> int:
        return self._count

    def load(self) -> None:
        """How many there are, as it is on disk."""
        (self._count,) = self._connection.execute("SELECT count(*) FROM removed").fetchone()
        self._cleared = -1

    def used(self, key: bytes, today: int) -> int:
        """Uploads that a removed key made today; 0 where none are known.

        Args:
            key: the device's.
            today: in days since 1970, as in all of these.
        """
        if not self._count:
            return 0
        query = "SELECT used FROM removed WHERE digest = ? AND day = ?"
        row = self._connection.execute(query, (_digest(key), today)).fetchone()
        return 0 if row is None else int(row[0])

    def add(self, key: bytes, today: int, used: int) -> None:
        """A key that made so many uploads today is removed."""
        if used:
            self.take(key)
            values = (_digest(key), today, used)
            self._connection.execute("INSERT INTO removed VALUES (?, ?, ?)", values)
            self._count += 1

    def take(self, key: bytes) -> None:
        """A key is here again, and counted where the others are."""
        if self._count:
            query = "DELETE FROM removed WHERE digest = ?"
            self._count -= self._connection.execute(query, (_digest(key),)).rowcount

    def end_day(self, today: int) -> bool:
        """Erase what was counted on days that are over; whether there was anything."""
        if not self._count or self._cleared == today:
            return False
        self._cleared = today
        erased = self._connection.execute("DELETE FROM removed WHERE day < ?", (today,)).rowcount
        self._count -= erased
        return erased > 0


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
