"""How much a query store holds.

The app's limits are in the store's file, so that a SuperNode or ``pocketquery join`` obeys them.
"""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass

from pocketquery.client.store.expiry import DAY
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check_count

__all__ = ["GivenLimits", "StoreLimits", "read_limits", "write_limits"]


@dataclass(frozen=True)
class StoreLimits:
    """How much is kept: rows, bytes of text, and seconds of age."""

    rows: int
    bytes: int
    age: float


@dataclass(frozen=True)
class GivenLimits:
    """The limits that a caller sets when it opens a store; None: as the file says."""

    rows: int | None = None
    bytes: int | None = None
    age: float | None = None

    @classmethod
    def of(
        cls, max_rows: int | None, max_age_days: float | None, max_bytes: int | None
    ) -> GivenLimits:
        """The limits as :meth:`pocketquery.client.store.store.QueryStore.open` takes them.

        Raises:
            InvalidInputError: a limit that is none.
        """
        if max_age_days is not None and not 0 < max_age_days <= 36_525:
            raise InvalidInputError(
                f"max_age_days is {max_age_days!r}, expected a number of days above 0, at most "
                "36525 (a hundred years)"
            )
        return cls(
            rows=None if max_rows is None else check_count(max_rows, "max_rows", most=10**9),
            bytes=None if max_bytes is None else check_count(max_bytes, "max_bytes", most=2**40),
            age=None if max_age_days is None else max_age_days * DAY,
        )

    def or_else(self, other: GivenLimits) -> GivenLimits:
        """These, and those of ``other`` where these say nothing."""
        return GivenLimits(
            rows=other.rows if self.rows is None else self.rows,
            bytes=other.bytes if self.bytes is None else self.bytes,
            age=other.age if self.age is None else self.age,
        )


_DEFAULTS = GivenLimits(rows=2000, bytes=4 << 20, age=90 * DAY)


def read_limits(connection: sqlite3.Connection, overrides: GivenLimits) -> StoreLimits:
    """``overrides``; without them the file's limits, else 2000 rows, 4 MB of text and 90 days."""
    limits = overrides.or_else(_stored(connection)).or_else(_DEFAULTS)
    assert limits.rows is not None
    assert limits.bytes is not None
    assert limits.age is not None
    return StoreLimits(limits.rows, limits.bytes, limits.age)


def write_limits(connection: sqlite3.Connection, overrides: GivenLimits) -> None:
    """Store ``overrides`` in the file; where it has them already, nothing is written."""
    stored = _stored(connection)
    if (new := overrides.or_else(stored)) != stored:
        query = "UPDATE limits SET max_rows = ?, max_bytes = ?, max_age = ?"
        connection.execute(query, astuple(new))


def _stored(connection: sqlite3.Connection) -> GivenLimits:
    row = connection.execute("SELECT max_rows, max_bytes, max_age FROM limits").fetchone()
    return GivenLimits(*row)
