"""The user's queries and opened results, stored on the device for local training, by consent.

Nothing is kept until the user consents, and nothing stays when the consent is withdrawn. What is
kept expires, is limited in number and size, can be read out and can be erased. It never leaves the
device: only the local training reads it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pocketquery.client.store.expiry import DAY, is_set
from pocketquery.client.store.file import StoreFile, destroy_file
from pocketquery.client.store.limits import GivenLimits, read_limits, write_limits
from pocketquery.client.store.stored_examples import (
    Example,
    StoredExample,
    check_example,
    delete_all,
    delete_due,
    delete_query,
    get_age,
    get_consent,
    get_epoch,
    insert,
    is_made_due,
    pass_time,
    read_rows,
    renew_epoch,
    set_opened,
    size_of,
)
from pocketquery.sdk.errors import ArtifactError
from pocketquery.sdk.validation import check_count

__all__ = ["Example", "QueryStore"]

_REWRITE_AFTER = 256  # deletions; what they may leave between pages is gone at the next opening too


class QueryStore:
    """The queries of one user, in one SQLite file. Opened by :meth:`open`; threads may share it.

    A query's age is counted by :mod:`pocketquery.client.store.expiry`: no jump of the clock loses
    what is new or keeps what is old. What fell due while the store was not opened for long goes in
    the days after it is opened again: the clock is believed as it keeps to what it shows.
    """

    def __init__(self, file: StoreFile, overrides: GivenLimits, clock: Callable[[], float]) -> None:
        """Use :meth:`open`."""
        self._file = file
        self._overrides = overrides
        self._clock = clock

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        max_rows: int | None = None,
        max_age_days: float | None = None,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> QueryStore:
        """Open the store at ``path``, or make an empty one there, without consent.

        A limit that is given is kept in the file and holds until it is set anew.

        Args:
            path: the file; its folder must exist.
            max_rows: how many queries are kept; of more, the oldest go. 2000 where nobody set it.
            max_age_days: after how many days a query goes. 90 where nobody set it.
            max_bytes: how much text (queries and ids, UTF-8) is kept; of more, the oldest go. 4 MB
                (4,194,304) where nobody set it.
            clock: Unix seconds.

        Raises:
            InvalidInputError: a limit that is none.
            CorruptArtifactError: the file is damaged, or another program's.
            UnsupportedVersionError: a newer version wrote it.
            ArtifactError: it cannot be opened or made.
        """
        overrides = GivenLimits.of(max_rows, max_age_days, max_bytes)
        store = cls(StoreFile(Path(path)), overrides, clock)
        store.tidy(opening=True)
        store._file.drop_round(clock(), DAY)
        return store

    @staticmethod
    def destroy(path: Path | str) -> None:
        """Overwrite and remove the store at ``path``, also a damaged one; none is fine too.

        Raises:
            ArtifactError: it cannot be written or removed.
        """
        destroy_file(Path(path))

    @property
    def consent(self) -> bool:
        """Whether the user has consented and not withdrawn, in this process or another."""
        with self._file.transaction("BEGIN") as connection:
            return get_consent(connection)

    @property
    def epoch(self) -> str:
        """A name, made at random, for what is kept; another one once any of it was erased.

        What was computed of the queries carries it, and is dropped where it is no longer this one:
        see :class:`pocketquery.client.device.Device`. What goes because of its age, or because
        there is too much, changes no name, until what was computed of it is as old, too, or
        nothing is left: see :meth:`tidy`.
        """
        with self._file.transaction("BEGIN") as connection:
            return get_epoch(connection)

    def give_consent(self) -> None:
        """From now on, queries may be kept."""
        with self._file.transaction() as connection:
            write_limits(connection, self._overrides)  # where the file was replaced meanwhile
            connection.execute("UPDATE state SET consent = 1")

    def withdraw_consent(self) -> None:
        """Keep nothing any more, and purge what was kept: no byte of it is left in the file.

        Withdrawal and deletion are one transaction: killed at any moment, the store has both or
        neither, and a rewriting of the file that was cut short is done at the next opening.

        Raises:
            ArtifactError: another process held the store for long; call it again.
        """
        self._file.erase(_withdraw)

    def erase_all(self) -> None:
        """Purge all that was kept, as :meth:`withdraw_consent` does; consent stays as it is.

        With it goes what was kept between rounds (``rounds.safetensors`` beside the store), and a
        round that is training on it sends nothing.
        """
        self._file.erase(delete_all)

    def forget(self, query: str) -> None:
        """Purge every search for ``query``, whatever its case, spaces and punctuation, as
        :meth:`erase_all` purges all. None is fine too.

        Raises:
            InvalidInputError: ``query`` is no text.
        """
        text = check_example(query, (), None).query
        self._file.erase(lambda connection: delete_query(connection, text))

    def add(self, query: str, shown: Sequence[str] = (), opened: str | None = None) -> bool:
        """Keep a query; False where it is not kept: no consent, blank, or larger than the store.

        Args:
            query: the text as typed.
            shown: ids of what the search returned, best first.
            opened: the one of ``shown`` that was opened, if any.

        Raises:
            InvalidInputError: something is no text; ``opened`` was not shown.
            ArtifactError: the disk is full; nothing was changed.
        """
        example = check_example(query, shown, opened)
        if not query.strip():
            return False
        now = self._clock()
        with self._file.transaction() as connection:
            limits = read_limits(connection, self._overrides)
            if not get_consent(connection) or size_of(example) > limits.bytes:
                return False
            age = pass_time(connection, now, limits)
            insert(connection, example, age, now if is_set(now) else None)
            deleted = delete_due(connection, age, limits)
        if deleted >= _REWRITE_AFTER:
            with contextlib.suppress(ArtifactError):  # the next deletion, or opening, tries again
                self._file.rewrite()
        return True

    def record_opened(self, query: str, opened: str) -> bool:
        """Note that ``opened`` was opened after the newest search for ``query``.

        False where that search was not kept or did not show it.
        """
        example = check_example(query, (opened,), opened)
        with self._file.transaction() as connection:
            return set_opened(connection, example.query, opened)

    def examples(self, limit: int | None = None) -> list[Example]:
        """What is kept and not expired, oldest first; of more than ``limit``, the newest."""
        if limit is not None:
            check_count(limit, "limit")
        return [row.example for row in self._rows()[-(limit or 0) :]]

    def export(self) -> list[dict[str, Any]]:
        """All that is kept, oldest first, for the user to read: JSON objects with ``query``,
        ``shown``, ``opened`` and ``time`` (Unix seconds of the device's clock, None if unset).
        """
        return [
            {
                "query": row.example.query,
                "shown": list(row.example.shown),
                "opened": row.example.opened,
                "time": row.time,
            }
            for row in self._rows()
        ]

    def __len__(self) -> int:
        return len(self._rows())

    def __bool__(self) -> bool:
        """An empty store is a store."""
        return True

    def tidy(self, *, opening: bool = False) -> None:
        """Delete what is due, and finish a rewriting that was cut short; done when a store is
        opened, and by a device before it trains.

        The state between rounds (``rounds.safetensors`` beside the store) is deleted, too, where it
        is older than a query may be, or no query is left. A device that has it in memory forgets it
        by the new name, see :attr:`epoch`. A full disk is no error: what is due is not given out
        anyway, and tried again.

        Args:
            opening: whether the store is being opened.
        """
        with contextlib.suppress(ArtifactError):
            with self._file.transaction() as connection:
                write_limits(connection, self._overrides)
                limits = read_limits(connection, self._overrides)
                age = pass_time(connection, self._clock(), limits, opening=opening)
                deleted = delete_due(connection, age, limits)
                written = self._file.rounds_written()
                dropped = written is not None and is_made_due(connection, age, limits, written)
                if dropped:
                    renew_epoch(connection)
            if dropped:
                self._file.drop_rounds()
            if deleted:
                self._file.rewrite()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> QueryStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _rows(self) -> list[StoredExample]:
        """What is not expired. Only reads, so that it works on a full disk."""
        with self._file.transaction("BEGIN") as connection:
            limits = read_limits(connection, self._overrides)
            age = get_age(connection).at(self._clock(), limits.age / 2)
            return read_rows(connection, age, limits)


def _withdraw(connection: sqlite3.Connection) -> None:
    delete_all(connection)
    connection.execute("UPDATE state SET consent = 0, age = 0.0, seen = NULL")
    connection.execute("UPDATE marks SET origin = NULL, landed = NULL")
    connection.execute("DELETE FROM made")
