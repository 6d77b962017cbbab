"""The query store's rows: what a transaction reads, adds and deletes."""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from pocketquery.client.store.expiry import Age, is_set
from pocketquery.client.store.file import new_epoch
from pocketquery.client.store.limits import StoreLimits
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.validation import check_text

__all__ = [
    "Example",
    "StoredExample",
    "check_example",
    "delete_all",
    "delete_due",
    "delete_query",
    "distinct",
    "get_age",
    "get_consent",
    "get_epoch",
    "insert",
    "is_made_due",
    "pass_time",
    "plain",
    "read_rows",
    "renew_epoch",
    "set_opened",
    "size_of",
]

_MINUTE = 60.0
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Example:
    """A query as it was typed, and its result.

    Attributes:
        query: the text.
        shown: ids of the documents that the search returned, best first; empty where unknown.
        opened: the one of them that the user opened, or None.
    """

    query: str
    shown: tuple[str, ...] = ()
    opened: str | None = None


@dataclass(frozen=True)
class StoredExample:
    """An example with the device's clock when it was kept (Unix seconds; None: it was not set)."""

    example: Example
    time: float | None


def check_example(query: object, shown: object, opened: object) -> Example:
    """The three as an example.

    Raises:
        InvalidInputError: something is no text; ``opened`` is not one of ``shown``.
    """
    text = check_text(query, "the query")
    if isinstance(shown, str) or not isinstance(shown, Sequence):
        raise InvalidInputError(f"shown is a {type(shown).__name__}, expected a list of ids")
    ids = tuple(check_text(one, f"shown[{place}]") for place, one in enumerate(shown))
    if opened is None:
        return Example(text, ids)
    if check_text(opened, "opened") not in ids:
        raise InvalidInputError(f"opened is {opened!r}, expected one of the {len(ids)} shown ids")
    return Example(text, ids, str(opened))


def size_of(example: Example) -> int:
    """Bytes of its texts in UTF-8."""
    texts = (example.query, _dump(example.shown), example.opened or "")
    return sum(len(text.encode()) for text in texts)


def get_consent(connection: sqlite3.Connection) -> bool:
    """Whether the user has consented."""
    return bool(connection.execute("SELECT consent FROM state").fetchone()[0])


def get_age(connection: sqlite3.Connection) -> Age:
    """The store's age when its clock was last noted."""
    row = connection.execute("SELECT age, seen, origin, landed FROM state, marks").fetchone()
    return Age(*row)


def pass_time(
    connection: sqlite3.Connection, now: float, limits: StoreLimits, *, opening: bool = False
) -> Age:
    """The store's age when the clock shows ``now``, noted where a minute has passed or more."""
    before = get_age(connection)
    age = before.at(now, limits.age / 2, opening=opening)
    moved = before.seen is None or abs(now - before.seen) >= _MINUTE
    if moved or age.seconds - before.seconds >= _MINUTE:  # spares the flash memory
        connection.execute("UPDATE state SET age = ?, seen = ?", (age.seconds, age.seen))
        connection.execute("UPDATE marks SET origin = ?, landed = ?", (age.origin, age.landed))
    if is_set(now):  # what was kept while the clock was wrongly ahead is not of the future
        connection.execute("UPDATE queries SET age = ? WHERE age > ?", (age.stamp, age.stamp))
    return age


def get_epoch(connection: sqlite3.Connection) -> str:
    """The name of what the store holds; see :func:`renew_epoch`."""
    return str(connection.execute("SELECT epoch FROM marks").fetchone()[0])


def renew_epoch(connection: sqlite3.Connection) -> None:
    """Let what was made of the store's queries until now be told from what is made from now on."""
    connection.execute("UPDATE marks SET epoch = ?", (new_epoch(),))


def insert(connection: sqlite3.Connection, example: Example, age: Age, time: float | None) -> None:
    """Keep ``example``."""
    connection.execute(
        "INSERT INTO queries (query, shown, opened, age, time, size) VALUES (?, ?, ?, ?, ?, ?)",
        (
            example.query,
            _dump(example.shown),
            example.opened,
            age.stamp,
            time,
            size_of(example),
        ),
    )


def set_opened(connection: sqlite3.Connection, query: str, opened: str) -> bool:
    """Note what was opened after the newest search for ``query``; False where it was not shown."""
    row = connection.execute(
        "SELECT number, shown FROM queries WHERE query = ? ORDER BY number DESC LIMIT 1", (query,)
    ).fetchone()
    if row is None or opened not in _load(row[1]):
        return False
    connection.execute("UPDATE queries SET opened = ? WHERE number = ?", (opened, row[0]))
    return True


def read_rows(connection: sqlite3.Connection, age: Age, limits: StoreLimits) -> list[StoredExample]:
    """What is not expired at ``age``, oldest first.

    Raises:
        CorruptArtifactError: a row is not what :func:`insert` writes.
    """
    rows = connection.execute(
        "SELECT query, shown, opened, time FROM queries WHERE age >= ? ORDER BY number",
        (age.seconds - limits.age,),
    )
    return [StoredExample(Example(row[0], _load(row[1]), row[2]), row[3]) for row in rows]


def delete_due(connection: sqlite3.Connection, age: Age, limits: StoreLimits) -> int:
    """Delete what is expired or beyond the limits, the oldest first.

    Returns:
        How many rows have been deleted since the file was last written anew.
    """
    gone = connection.execute(
        "DELETE FROM queries WHERE age < ? OR number IN (SELECT number FROM (SELECT number, "
        "row_number() OVER newest AS place, sum(size) OVER newest AS bytes FROM queries "
        "WINDOW newest AS (ORDER BY number DESC)) WHERE place > ? OR bytes > ?)",
        (age.seconds - limits.age, limits.rows, limits.bytes),
    ).rowcount
    if gone:
        connection.execute("UPDATE state SET deleted = deleted + ?", (gone,))
    return int(connection.execute("SELECT deleted FROM state").fetchone()[0])


def is_made_due(
    connection: sqlite3.Connection, age: Age, limits: StoreLimits, written: int
) -> bool:
    """Whether what was made of queries is to go: as old as they may be, or none of them is left.

    Its age is the store's, by which the queries it was made of expire. It counts from when it was
    first seen; where the clock was set as it was written and says longer ago, from then, though by
    half a lifetime at the most, as a leap is believed.

    Args:
        connection: in a transaction that writes.
        age: the store's.
        limits: of the queries.
        written: when it was, nanoseconds since 1970.
    """
    row = connection.execute("SELECT written, age FROM made").fetchone()
    if row is None or row[0] != written:
        before, seconds = age.seconds, written / 1e9
        if age.origin is not None and is_set(seconds):
            before = min(before, max(seconds - age.origin, before - limits.age / 2))
        connection.execute("INSERT OR REPLACE INTO made VALUES (1, ?, ?)", (written, before))
        row = (written, before)
    (has_queries,) = connection.execute("SELECT EXISTS (SELECT 1 FROM queries)").fetchone()
    return not has_queries or age.seconds - row[1] >= limits.age


def delete_all(connection: sqlite3.Connection) -> None:
    """Delete every row."""
    connection.execute("DELETE FROM queries")
    connection.execute("UPDATE state SET deleted = deleted + 1")
    renew_epoch(connection)


def delete_query(connection: sqlite3.Connection, query: str) -> None:
    """Delete every row whose query is ``query`` but for case, spaces and punctuation."""
    plain_query = plain(query)
    stored = connection.execute("SELECT number, query FROM queries").fetchall()
    rows = [(number,) for number, text in stored if plain(text) == plain_query]
    connection.executemany("DELETE FROM queries WHERE number = ?", rows)
    connection.execute("UPDATE state SET deleted = deleted + 1")
    renew_epoch(connection)


def plain(query: str) -> str:
    """``query`` as what it is counted by: its words, folded; where there are none, its signs."""
    folded = unicodedata.normalize("NFKC", query).casefold()
    return " ".join(_WORDS.findall(folded)) or " ".join(folded.split())


def distinct(examples: Sequence[Example]) -> list[Example]:
    """One example of each query, told by :func:`plain`: its newest with an opened result, where
    there is one, else its newest; in the order in which they came.
    """
    best: dict[str, int] = {}
    for place, example in enumerate(examples):
        name = plain(example.query)
        if example.opened is not None or name not in best or examples[best[name]].opened is None:
            best[name] = place
    return [examples[place] for place in sorted(best.values())]


def _dump(ids: Sequence[str]) -> str:
    return json.dumps(ids, ensure_ascii=False)


def _load(stored: str) -> tuple[str, ...]:
    try:
        return tuple(str(one) for one in json.loads(stored))
    except (ValueError, TypeError) as error:
        raise CorruptArtifactError(
            f"the query store holds {stored!r}, expected a list of ids: it is damaged. Erase it "
            "with QueryStore.destroy(path)"
        ) from error
