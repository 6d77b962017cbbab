"""A private round at a gateway: who has a seat in it, what is to be told them, what they replied.

    OFFER     a device that is ready, and proved that it is the certified one, takes a seat; its
              certificate goes to the server
    INVITE    and the later stages: the server's messages come for some of the seats, all at once;
              who has none is in the round no more

The gateway reads none of it. All is written before it is acknowledged, but for masked changes
(stage 3): they are in memory alone, as the server has them (server/private/tables.py), and of
each its SHA-256 is written. A gateway that is killed then gives the stage's message to its device
again, which answers with the same bytes. As a stage begins, what came in those before is erased and
overwritten; as the round ends, everything.

    relay_seats     of a device: its key, and the stage in which it declined
    relay_messages  of a seat: the server's, of the newest stage that it is in
    relay_replies   of a seat and stage: the reply's SHA-256, and itself while it may be asked for
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

from pocketquery.client.private.messages import Stage
from pocketquery_gateway.cohorts.stage_bundle import StageBundle
from pocketquery_gateway.rounds.errors import RoundOverError

__all__ = ["RELAY_TABLES", "Relay"]

RELAY_TABLES = (
    "CREATE TABLE relay_seats (seat INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL,"
    " gone INTEGER NOT NULL)",
    "CREATE TABLE relay_messages (seat INTEGER PRIMARY KEY, stage INTEGER NOT NULL,"
    " body BLOB NOT NULL)",
    "CREATE TABLE relay_replies (seat INTEGER, stage INTEGER, digest BLOB NOT NULL,"
    " body BLOB NOT NULL, PRIMARY KEY (seat, stage)) WITHOUT ROWID",
)
_TABLES = ("seats", "messages", "replies")


class Relay:
    """The private round in a journal; changes are part of the journal's transaction.

    Args:
        connection: of the journal.

    Attributes:
        stage: the one that replies are taken of.
        seats: how many are taken.
        awaited: seats that have a message of the stage and have neither replied nor gone.
        erased: whether something was, since the journal last cut its log.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._masked: dict[int, bytes] = {}
        self.stage = Stage.OFFER
        self.seats = 0
        self.awaited: set[int] = set()
        self.erased = False

    def load(self) -> None:
        """All of it as it is on disk; masked changes are awaited anew."""
        one = self._connection.execute
        (stage,) = one("SELECT max(stage) FROM relay_messages").fetchone()
        (self.seats,) = one("SELECT count(*) FROM relay_seats").fetchone()
        self.stage = Stage.OFFER if stage is None else Stage(stage)
        self._masked.clear()
        written = Stage.OFFER if self.stage is Stage.COLLECT else self.stage
        rows = one(
            "SELECT seat FROM relay_messages JOIN relay_seats USING (seat) WHERE gone = 0 AND seat"
            " NOT IN (SELECT seat FROM relay_replies WHERE stage = ? AND stage > 1)",
            (int(written),),
        )
        self.awaited = {seat for (seat,) in rows}

    def clear(self) -> None:
        """Erase all of the round."""
        if self.seats:
            for table in _TABLES:
                self._connection.execute(f"DELETE FROM relay_{table}")
            self.erased = True
        self.stage, self.seats = Stage.OFFER, 0
        self._masked.clear()
        self.awaited.clear()

    # Devices

    def seat_of(self, key: bytes) -> int | None:
        """The seat of a device; None where it has none."""
        row = self._connection.execute("SELECT seat FROM relay_seats WHERE key = ?", (key,))
        seat = row.fetchone()
        return None if seat is None else int(seat[0])

    def sit(self, key: bytes, digest: bytes, certificate: bytes) -> bool:
        """Give a device that is ready a seat; False where another has this certificate.

        Args:
            key: the device's.
            digest: SHA-256 of what it sent.
            certificate: what the server gets of that.
        """
        query = "SELECT 1 FROM relay_replies WHERE stage = 1 AND body = ?"
        if self._connection.execute(query, (certificate,)).fetchone() is not None:
            return False
        self._connection.execute("INSERT INTO relay_seats VALUES (?, ?, 0)", (self.seats, key))
        self._write(self.seats, Stage.OFFER, digest, certificate)
        self.seats += 1
        return True

    def message(self, seat: int) -> tuple[Stage, bytes] | None:
        """What a device is to answer now; None where there is nothing.

        Raises:
            RoundOverError: it is in the round no more.
        """
        if seat in self.awaited:
            query = "SELECT stage, body FROM relay_messages WHERE seat = ?"
            stage, body = self._connection.execute(query, (seat,)).fetchone()
            return Stage(stage), body
        if self._is_gone(seat) or (self.stage > Stage.OFFER and not self._is_asked(seat)):
            raise RoundOverError("the round is over for this device; ask for an offer")
        return None

    def receive(self, seat: int, stage: Stage, digest: bytes, body: bytes) -> bool:
        """Take a reply to a later stage than the first; False where another one came before.

        Args:
            seat: whose.
            stage: that it answers.
            digest: its SHA-256.
            body: itself.

        Raises:
            RoundOverError: that stage is not awaited of this device.
        """
        query = "SELECT digest FROM relay_replies WHERE seat = ? AND stage = ?"
        known = self._connection.execute(query, (seat, int(stage))).fetchone()
        if known is not None and known[0] != digest:
            return False
        is_awaited = stage is self.stage and seat in self.awaited
        if known is None and not is_awaited:
            raise RoundOverError(f"stage {stage} is not awaited of this device; ask what is")
        if known is None:
            self._write(seat, stage, digest, b"" if stage is Stage.COLLECT else body)
        if is_awaited:
            if stage is Stage.COLLECT:
                self._masked[seat] = body
            self.awaited.discard(seat)
        return True

    def leave(self, seat: int) -> None:
        """A device declines, or is forgotten: it is not waited for."""
        query = "UPDATE relay_seats SET gone = ? WHERE seat = ? AND gone = 0"
        self._connection.execute(query, (int(self.stage), seat))
        self.awaited.discard(seat)

    # The server

    def begin(self, bundle: StageBundle) -> bool:
        """Take the server's messages of a stage; whether it is a new one. Of the stage that is open
        they are those that came before.

        Raises:
            RoundOverError: a later stage is open, or it is for no device of this gateway.
        """
        if bundle.stage < self.stage:
            raise RoundOverError(f"stage {bundle.stage} came, but stage {self.stage} is open")
        if bundle.stage is self.stage:
            return False
        rows = [
            (seat, int(bundle.stage), body)
            for seat, body in bundle.bodies.items()
            if seat < self.seats
        ]
        if not rows:
            raise RoundOverError(f"stage {bundle.stage} came for no device that has a seat here")
        self._connection.execute("UPDATE relay_replies SET body = x''")
        self._connection.execute("DELETE FROM relay_messages")
        self._connection.executemany("INSERT INTO relay_messages VALUES (?, ?, ?)", rows)
        self.load()
        self.erased = True
        return True

    def ready(self) -> Mapping[int, bytes]:
        """The certificates of those who are, by seat."""
        return self._replies(Stage.OFFER)

    def replies(self, stage: Stage, seats: Collection[int]) -> tuple[dict[int, bytes], list[int]]:
        """Replies to the open stage that came from some seats, and which of them will not reply any
        more.

        Raises:
            RoundOverError: another stage is open.
        """
        if stage is not self.stage:
            raise RoundOverError(f"stage {stage} was asked for, but stage {self.stage} is open")
        replies = self._masked if stage is Stage.COLLECT else self._replies(stage)
        gone = [seat for seat in sorted(seats) if seat not in replies and seat not in self.awaited]
        return {seat: replies[seat] for seat in sorted(seats) if seat in replies}, gone

    def _replies(self, stage: Stage) -> dict[int, bytes]:
        query = "SELECT seat, body FROM relay_replies WHERE stage = ?"
        return dict(self._connection.execute(query, (int(stage),)).fetchall())

    def _write(self, seat: int, stage: Stage, digest: bytes, body: bytes) -> None:
        row = (seat, int(stage), digest, body)
        self._connection.execute("INSERT INTO relay_replies VALUES (?, ?, ?, ?)", row)

    def _is_gone(self, seat: int) -> bool:
        query = "SELECT gone FROM relay_seats WHERE seat = ?"
        return bool(self._connection.execute(query, (seat,)).fetchone()[0])

    def _is_asked(self, seat: int) -> bool:
        query = "SELECT 1 FROM relay_messages WHERE seat = ?"
        return self._connection.execute(query, (seat,)).fetchone() is not None
