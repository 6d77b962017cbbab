"""Variants of texts, made once and kept: an SQLite file.

Every batch of variants is one transaction of SQLite's, durable when it ends: a process killed on
the way leaves whole batches, and filling again goes on behind them.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pocketquery.client.views.augmenters import Augmenter, Strength
from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    UnsupportedVersionError,
)
from pocketquery.sdk.sqlite_file import distrust_schema
from pocketquery.server.augmentation.identity import Identity, variant_key

__all__ = ["KnownAugmenter", "VariantCache"]

_APPLICATION_ID = 0x50515643  # "PQVC", in the file's header
_VERSION = 1
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS augmenters (
    name TEXT, version TEXT, params TEXT, strength TEXT NOT NULL, languages TEXT,
    PRIMARY KEY (name, version, params)
);
CREATE TABLE IF NOT EXISTS variants (
    key BLOB, number INTEGER, text TEXT NOT NULL, PRIMARY KEY (key, number)
) WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
COMMIT;
"""


@dataclass(frozen=True)
class KnownAugmenter:
    """Who made variants in a cache: what is known without the augmenter itself."""

    identity: Identity
    strength: Strength
    languages: frozenset[str] | None


class VariantCache:
    """The cache at ``path``.

    Args:
        path: the file, made where there is none.
        read_only: never written to; then it must exist.

    Raises:
        ArtifactNotFoundError: ``read_only``, and there is no such file.
        CorruptArtifactError: damaged, or another program's file.
        UnsupportedVersionError: written by a newer version.
        ArtifactError: it cannot be opened or made.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self.path = Path(path)
        if read_only and not self.path.is_file():
            raise ArtifactNotFoundError(
                f"{path}: there is no such cache; fill one with: pocketquery augment"
            )
        mode = "ro" if read_only else "rwc"
        with self._explained():
            self._connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
            distrust_schema(self._connection)
            self._check()
            if not read_only:
                self._connection.executescript(_TABLES)

    def __enter__(self) -> VariantCache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def introduce(self, augmenter: Augmenter) -> Identity:
        """Note who is going to add variants."""
        identity = Identity.of(augmenter)
        known = augmenter.languages
        languages = None if known is None else " ".join(sorted(known))
        row = (*identity, augmenter.strength, languages)
        with self._explained():
            self._connection.execute(
                "INSERT OR REPLACE INTO augmenters VALUES (?, ?, ?, ?, ?)", row
            )
        return identity

    def augmenters(self) -> list[KnownAugmenter]:
        """Those that added variants, by name."""
        with self._explained():
            rows = self._connection.execute(
                "SELECT * FROM augmenters ORDER BY name, version, params"
            ).fetchall()
        return [
            KnownAugmenter(
                Identity(*row[:3]), row[3], None if row[4] is None else frozenset(row[4].split())
            )
            for row in rows
        ]

    def one_named(self, name: str) -> KnownAugmenter:
        """The only augmenter of that name.

        Raises:
            InvalidInputError: there is none, or there are several.
        """
        known = self.augmenters()
        named = [one for one in known if one.identity.name == name]
        if len(named) == 1:
            return named[0]
        names = ", ".join(dict.fromkeys(one.identity.name for one in known)) or "none"
        if not named:
            raise InvalidInputError(
                f"{self.path} has no variants by {name!r}, expected one of: {names}. Fill it with: "
                "pocketquery augment"
            )
        found = "; ".join(
            f"{one.identity.params} (version {one.identity.version})" for one in named
        )
        raise InvalidInputError(
            f"{self.path} has variants by {len(named)} augmenters called {name!r}: {found}. "
            "Expected one; keep them in a cache each"
        )

    def variants(self, text: str, identity: Identity) -> dict[int, str]:
        """What ``identity`` made of ``text``, by the variant's number."""
        with self._explained():
            rows = self._connection.execute(
                "SELECT number, text FROM variants WHERE key = ? ORDER BY number",
                (variant_key(text, identity),),
            )
            return dict(rows.fetchall())

    def add(self, identity: Identity, variants: Iterable[tuple[str, int, str]]) -> None:
        """Add (text, number, variant), all or none; those that are there stay as they are."""
        rows: Sequence[tuple[bytes, int, str]] = [
            (variant_key(text, identity), number, variant) for text, number, variant in variants
        ]
        with self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(
                    "INSERT INTO variants VALUES (?, ?, ?) ON CONFLICT (key, number) DO NOTHING",
                    rows,
                )
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    def _check(self) -> None:
        read = self._connection.execute
        found = read("PRAGMA application_id").fetchone()[0]
        tables = read("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if found != _APPLICATION_ID and (tables or found):
            raise CorruptArtifactError(
                f"{self.path} is a database of another program; expected a cache of variants. "
                "Name another file"
            )
        version = read("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise UnsupportedVersionError(
                f"{self.path} has the format version {version}, expected up to {_VERSION}; install "
                "a newer pocketquery"
            )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _DAMAGED:
                raise CorruptArtifactError(
                    f"{self.path} is no cache of variants, or damaged ({error}); remove it and "
                    "fill it again"
                ) from error
            raise ArtifactError(f"{self.path} cannot be used: {error}") from error
