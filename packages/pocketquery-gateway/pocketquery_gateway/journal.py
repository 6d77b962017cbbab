"""What a gateway knows, on disk: killed at any moment it goes on to the same sum.

One SQLite file, held exclusively, and one transaction for whatever came together (worker.py). What
an upload changes is changed at once: the verdict on its device, its nonce, the sum it is in, and,
with the last one wanted, the cohort's answer. So an upload that was acknowledged is in the sum, one
that was not may be sent again, and none counts twice. What a transaction writes is the sums that
changed, however many updates it has, and some 100 bytes of each: verdicts are appended, and no
device's row is touched before the next round. Of a private round, see rounds/relay.py.

    with GatewayJournal.open(path) as journal:
        with journal.batch():
            journal.begin(asked)
            journal.updates.receive_all([Upload(key, 3, update, digest, today)], most_uploads=24)
        journal.cohort_round.answer(asked.digest)
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.files import sha256_bytes
from pocketquery.sdk.sqlite_file import transaction, truncate_log
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.rounds.cohort_round import CohortRound
from pocketquery_gateway.rounds.errors import QuotaError
from pocketquery_gateway.rounds.plain_updates import PlainUpdates
from pocketquery_gateway.rounds.private_seats import PrivateSeats
from pocketquery_gateway.rounds.removed_devices import RemovedDevices
from pocketquery_gateway.rounds.tables import (
    KIND,
    DeviceRow,
    InForce,
    create_tables,
    read_agreement_key,
    read_device,
    read_force,
    write_device,
    write_force,
    write_health,
)

__all__ = ["JOURNAL", "GatewayJournal"]

JOURNAL = "gateway.sqlite"
"""Its name in a gateway's folder."""

_CACHE_KIB = 8192
_PAGE_BYTES = 32_768  # a sum is many of 4096


class GatewayJournal:
    """The journal at a path; made by :meth:`open`, used by one thread at a time.

    Attributes:
        cohort_round: the round that is open, or was last.
        updates: takes devices' updates, where it is a plain one.
        seats: takes what devices send, where it is a private one.
        key: the X25519 key that devices of private rounds are told, and prove with that they hold
            their own.
        force: the release that devices are to have; None before one is known.
        devices: how many are registered.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, clock: Callable[[], float]
    ) -> None:
        self.path = path
        self.cohort_round = CohortRound(connection, clock)
        self.updates = PlainUpdates(self.cohort_round)
        self.seats = PrivateSeats(self.cohort_round)
        self.force: InForce | None = None
        self.devices = 0
        self._connection = connection
        self._removed = RemovedDevices(connection)
        self._load()

    @classmethod
    def open(
        cls, path: Path | str, *, clock: Callable[[], float] = time.monotonic
    ) -> GatewayJournal:
        """The journal at ``path``, made where there is none, as its last commit left it.

        Raises:
            ArtifactError: it cannot be opened, or another process has it open.
            CorruptArtifactError: it is damaged, or something else.
            UnsupportedVersionError: it is of a newer release.
        """
        path = Path(path)
        with KIND.opened_alone(
            path, create_tables, cache_kib=_CACHE_KIB, page_bytes=_PAGE_BYTES
        ) as connection:
            return cls(path, connection, clock)

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Whatever is called inside is on disk when this is left; else nothing of it counts.

        Raises:
            ArtifactError: the disk is full or fails.
        """
        relay = self.cohort_round.relay
        try:
            with KIND.explained(self.path), transaction(self._connection):
                self.cohort_round.forget_batch()
                yield
                self.cohort_round.write()
        except BaseException:
            self._load()
            raise
        if relay.erased:  # what was erased from the tables stands in the write-ahead log still
            with KIND.explained(self.path):
                truncate_log(self._connection)
            relay.erased = False

    # Devices

    def register(self, key: bytes, today: int, most: int) -> bool:
        """Register a key; whether it is new. What it uploaded today (in days since 1970) before it
        was removed counts.

        Raises:
            QuotaError: there are ``most`` devices already, with those that left today after an
                upload.
        """
        if read_device(self._connection, key) is not None:
            return False
        used = self._removed.used(key, today)
        if self.devices + len(self._removed) - bool(used) >= most:
            raise QuotaError(f"{self.devices} devices are registered, expected at most {most}")
        self._removed.take(key)
        write_device(self._connection, key, DeviceRow(today, today if used else 0, used))
        self.devices += 1
        return True

    def device(self, key: bytes) -> DeviceRow | None:
        """What is known of a key; None where it is not registered."""
        return read_device(self._connection, key)

    def remove(self, key: bytes, today: int) -> bool:
        """Forget a key; whether it was there. What it gave to a sum stays there, and how many
        uploads it made today (in days since 1970) until :meth:`end_day`."""
        row = read_device(self._connection, key)
        if row is None:
            return False
        used = self.cohort_round.forget(key, today) + (row.used if row.day == today else 0)
        self._connection.execute("DELETE FROM devices WHERE key = ?", (key,))
        self._removed.add(key, today, used)
        self.devices -= 1
        return True

    def end_day(self, today: int) -> None:
        """Erase what is kept for days before ``today`` alone."""
        if self._removed.end_day(today):
            self.cohort_round.relay.erased = True

    def prove(self) -> None:
        """Change something, so that the batch has to reach the disk."""
        write_health(self._connection)

    # The server

    def begin(self, asked: CohortOffer) -> bool:
        """Take the server's offer, see :meth:`CohortRound.begin`; its release is in force."""
        begun = self.cohort_round.begin(asked)
        if begun:
            self.announce(asked.offer.release, asked.offer.lineage)
        return begun

    def announce(self, release: bytes, lineage: bytes) -> InForce:
        """Take note of the release in force.

        Raises:
            CorruptArtifactError, UnsupportedVersionError: it cannot be read.
        """
        version = parse_adapter(release, "the announced release").version
        release_in_force = InForce(version, sha256_bytes(release), len(release), lineage)
        if release_in_force != self.force:
            write_force(self._connection, release_in_force)
            self.force = release_in_force
        return release_in_force

    def disconnect(self) -> None:
        """Close the file; an open round stays open in it."""
        self._connection.close()

    def __enter__(self) -> GatewayJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def _load(self) -> None:
        """All of it, as it is on disk."""
        try:
            with KIND.explained(self.path):
                self.key = read_agreement_key(self._connection)
                self.force = read_force(self._connection)
                query = "SELECT count(*) FROM devices"
                (self.devices,) = self._connection.execute(query).fetchone()
                self._removed.load()
                self.cohort_round.load()
        except (KeyError, TypeError, ValueError) as error:
            raise KIND.damaged(self.path, error) from error
