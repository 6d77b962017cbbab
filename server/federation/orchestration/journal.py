"""The rounds on disk: a server killed at any moment goes on where it was, to the same bits.

One SQLite file with a write-ahead log, and one transaction for each thing that happens: a round
begins, replies come, it is closed. A reply counts from its commit: one that was received and not
committed is as if it had not come, and a device or a caller that sends it again is told "duplicate"
where it had. The sums are integers, so what a resumed round adds up to does not depend on when it
was killed. The file is held exclusively: a second server on it is refused.

    with Journal.open("rounds.sqlite") as journal:
        journal.begin(journal.state or FederationState.of_bundle(bundle), settings)
        ... journal.receive(data) ...
        candidate, report = journal.close()
        journal.settle(candidate.released("2"))    # or journal.state.rejected(candidate)

A round's report is the one record of it: written as it is closed, and completed, in the same
transaction as the state, when it is decided what became of its candidate.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pocketquery.sdk.errors import (
    CorruptArtifactError,
    InvalidInputError,
    UnsupportedVersionError,
)
from pocketquery.sdk.sqlite_file import transaction, truncate_log
from pocketquery.server.federation.rounds.journal_tables import (
    KIND,
    clear_round,
    create_tables,
    read_reports,
    read_round,
    read_state,
    write_counts,
    write_reply,
    write_report,
    write_states,
)
from pocketquery.server.federation.rounds.open_round import OpenRound, open_round
from pocketquery.server.federation.rounds.round import Receipt, close_round, receive
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.private import budget
from pocketquery.server.private.budget import Charge
from pocketquery.server.private.secure_round import SecureRound
from pocketquery.server.private.tables import write_secure

__all__ = ["Journal"]

_CACHE_KIB = 512  # rows are written and hardly read


class Journal:
    """The journal at a path; made by :meth:`open`, used by one thread.

    Attributes:
        state: what the last settled round left, or the open round began from; None in a new file.
        candidate: the state that a closed round proposes and nobody has decided on; else None.
        open_round: the round that takes replies; else None.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, clock: Callable[[], float]
    ) -> None:
        self.path = path
        self._connection = connection
        self._clock = clock
        self.state = read_state(connection, "state")
        self.candidate = read_state(connection, "candidate")
        self.open_round = read_round(connection, self.state) if self.state else None

    @classmethod
    def open(cls, path: Path | str, *, clock: Callable[[], float] = time.monotonic) -> Journal:
        """The journal at ``path``, made where there is none, as its last commit left it.

        Args:
            path: the SQLite file, made readable by its owner alone; "-wal" is beside it while it is
                open.
            clock: seconds for the deadline, where a call names none; one that does not jump.

        Raises:
            ArtifactError: it cannot be opened, or another process has it open.
            CorruptArtifactError: it is damaged or not a journal.
            UnsupportedVersionError: it is of a newer release.
        """
        path = Path(path)
        opened = KIND.opened_alone(path, create_tables, cache_kib=_CACHE_KIB, any_thread=False)
        with _explained(path), opened as connection:
            return cls(path, connection, clock)

    def begin(
        self,
        state: FederationState,
        settings: RoundSettings,
        *,
        asked: int | None = None,
        now: float | None = None,
        secure: SecureRound | None = None,
    ) -> OpenRound:
        """Open a round on ``state``, which settles what was a candidate.

        Args:
            state: where it begins: ``journal.state``, or what became of ``journal.candidate``.
            settings: how it is run; kept with the round.
            asked: how many devices are asked, where fewer are there than the settings ask.
            now: the clock's reading, from where the deadline counts.
            secure: the private round that it is; None: it is a plain one.

        Raises:
            InvalidInputError: a round is open, ``state`` is older than what the journal holds, or
                carries the moments of another optimizer than the settings'.
            ArtifactError: the disk is full or fails; nothing was changed.
        """
        self._check_next(state)
        opened = open_round(state, settings, asked=asked, now=self._now(now))
        if secure is not None:
            opened = replace(opened, secure=secure)
        with self._writing() as connection:
            self._write_decision(connection, state, None)
            write_counts(connection, opened)
        self.state, self.candidate, self.open_round = state, None, opened
        return opened

    def receive(self, data: bytes, now: float | None = None, *, late: bool = False) -> Receipt:
        """Take one reply; on return it is on disk what became of it. No reply raises.

        Args:
            data: bytes from a device.
            now: the clock's reading.
            late: whether the device was asked in an earlier round.

        Raises:
            InvalidInputError: no round is open.
            ArtifactError: the disk is full or fails; the reply does not count, send it again.
        """
        return self.receive_all([data], now, late=late)[0]

    def receive_all(
        self, replies: Sequence[bytes], now: float | None = None, *, late: bool = False
    ) -> list[Receipt]:
        """Take replies that came together, in one transaction; else as :meth:`receive`."""
        opened, now = self._opened(), self._now(now)
        receipts = []
        for data in replies:
            opened, receipt = receive(opened, data, now, late=late)
            receipts.append(receipt)
        self.record(opened, [one.nonce for one in receipts if one.nonce])
        return receipts

    def record(self, opened: OpenRound, nonces: list[str]) -> None:
        """Make ``opened`` the open round: sums that differ are written, in one transaction.

        Args:
            opened: what became of ``open_round``.
            nonces: of what was added to the sums.

        Raises:
            InvalidInputError: no round is open.
            ArtifactError: the disk is full or fails; nothing was changed.
        """
        changed = _changed_shards(self._opened(), opened)
        with self._writing() as connection:
            write_reply(connection, changed, nonces)
            write_counts(connection, opened)
        self.open_round = opened

    def advance(
        self,
        opened: OpenRound,
        *,
        charge: Charge | None = None,
    ) -> None:
        """Make ``opened`` the open round: what differs is written, and what is over erased, in one
        transaction; for private rounds, whose steps are functions of values.

        Args:
            opened: what became of ``open_round``.
            charge: the row that the privacy ledger gets with it.

        Raises:
            InvalidInputError: no round is open; the round was charged otherwise.
            ArtifactError: the disk is full or fails; nothing was changed.
        """
        before = self._opened()
        assert before.secure is not None
        assert opened.secure is not None
        changed = _changed_shards(before, opened)
        with self._writing() as connection:
            erased = write_secure(connection, before.secure, opened.secure)
            write_reply(connection, changed, [])
            write_counts(connection, opened)
            if charge is not None:
                budget.charge(connection, charge)
            if changed:
                budget.set_state(connection, opened.state.round, "unmasked")
        self.open_round = opened
        if erased:
            self._truncate()

    def charges(self) -> list[Charge]:
        """The rows of the privacy ledger, in order of their rounds."""
        with _explained(self.path):
            return budget.rows(self._connection)

    def close(self, heard: RoundReport | None = None) -> tuple[FederationState, RoundReport]:
        """Close the open round (not the file: leave the ``with``); its state and its report.

        The state becomes ``candidate``, until :meth:`settle` or :meth:`begin` says what became of
        it. A skipped round's is settled at once, for it proposes nothing.

        Args:
            heard: what who asked the devices knows besides, see :meth:`RoundReport.with_heard`.

        Raises:
            InvalidInputError: no round is open.
            ArtifactError: the disk is full or fails; the round is still open.
        """
        opened = self._opened()
        candidate, report = close_round(opened)
        report = report if heard is None else report.with_heard(heard)
        state = candidate if report.skipped else self.state
        pending = None if report.skipped else candidate
        with self._writing() as connection:
            clear_round(connection)
            write_states(connection, state, pending)
            write_report(connection, report)
            if report.skipped:
                budget.set_state(connection, report.round, "skipped")
        was_secure, self.open_round = opened.secure is not None, None
        self.state, self.candidate = state, pending
        if was_secure:
            self._truncate()
        return candidate, report

    def settle(self, state: FederationState, report: RoundReport | None = None) -> None:
        """Say what became of the candidate: ``candidate.released(version)``, or
        ``journal.state.rejected(candidate)``.

        Args:
            state: where the next round begins.
            report: the round's, with what the gate found and the release in force; None: the one
                that is there, with the version of ``state``.

        Raises:
            InvalidInputError: a round is open, or ``state`` is older than what the journal holds.
            ArtifactError: the disk is full or fails; nothing was changed.
        """
        self._check_next(state)
        with self._writing() as connection:
            self._write_decision(connection, state, report)
        self.state, self.candidate = state, None

    def reports(self) -> list[RoundReport]:
        """The reports of all closed rounds, in order.

        Raises:
            CorruptArtifactError: one cannot be read.
        """
        with _explained(self.path):
            return read_reports(self._connection)

    def disconnect(self) -> None:
        """Close the file; an open round stays open in it."""
        self._connection.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.disconnect()

    def _truncate(self) -> None:
        with _explained(self.path):
            truncate_log(self._connection)

    def _now(self, now: float | None) -> float:
        return self._clock() if now is None else now

    def _opened(self) -> OpenRound:
        if self.open_round is None:
            raise InvalidInputError(f"{self.path} has no open round; begin() one first")
        return self.open_round

    def _check_next(self, state: FederationState) -> None:
        if self.open_round is not None:
            raise InvalidInputError(
                f"{self.path} has round {self.open_round.state.round} open; go on with it, and "
                "close() it first"
            )
        newest = self.candidate or self.state
        if newest is not None and state.round < newest.round:
            raise InvalidInputError(
                f"found a state before round {state.round}, but {self.path} is before round "
                f"{newest.round}; go on with journal.state, settle journal.candidate where there "
                "is one, or name a new file"
            )

    def _write_decision(
        self, connection: sqlite3.Connection, state: FederationState, report: RoundReport | None
    ) -> None:
        """``state`` is in force; where a candidate waited, ``report`` says what became of it."""
        if self.candidate is not None:
            report = report or read_reports(connection)[-1]
            version = report.version or state.version
            write_report(connection, replace(report, version=version))
            accepted = version != report.base_version
            budget.set_state(connection, report.round, "released" if accepted else "rejected")
        write_states(connection, state, None)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with _explained(self.path), transaction(self._connection):
            yield self._connection


def _changed_shards(before: OpenRound, opened: OpenRound) -> dict[int, RunningSum]:
    pairs = enumerate(zip(before.shards, opened.shards, strict=True))
    return {number: new for number, (old, new) in pairs if new is not old}


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's errors, and ours without a path, as errors that name the file and what to do."""
    with KIND.explained(path):
        try:
            yield
        except (CorruptArtifactError, UnsupportedVersionError) as error:
            if str(path) in str(error):
                raise
            raise type(error)(f"{path}: {error}") from error
