"""An SQLite file of variants of texts, so that each is made once.

Every batch of variants is one transaction of SQLite's, durable when it ends: a process killed on
the way leaves whole batches, and filling again goes on behind them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pocketquery.client.views.augmenters import Augmenter, Strength
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.sdk.sqlite_file import SqliteKind, transaction
from pocketquery.server.objectives.augmenter_identity import Identity

__all__ = ["KnownAugmenter", "VariantCache", "variant_key"]

_KIND = SqliteKind(
    name="a cache of variants",
    application_id=0x50515643,  # "PQVC"
    version=1,
    mend="remove it and fill it again",
    elsewhere="name another file",
)
_WAIT_SECONDS = 5.0
_TABLES = (
    """CREATE TABLE augmenters (
    name TEXT, version TEXT, params TEXT, strength TEXT NOT NULL, languages TEXT,
    PRIMARY KEY (name, version, params)
)""",
    """CREATE TABLE variants (
    key BLOB, number INTEGER, text TEXT NOT NULL, PRIMARY KEY (key, number)
) WITHOUT ROWID""",
)


def variant_key(text: str, identity: Identity) -> bytes:
    """SHA-1 of (text, name, version, params), 20 bytes."""
    whole = json.dumps([text, *identity], ensure_ascii=False).encode()
    return hashlib.sha1(whole, usedforsecurity=False).digest()


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
        with _KIND.explained(self.path):
            self._connection = _KIND.open(self.path, mode, seconds=_WAIT_SECONDS)
            try:
                if read_only:
                    _KIND.check(self._connection, self.path)
                else:
                    with transaction(self._connection):
                        _KIND.prepare(self._connection, self.path, _TABLES)
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> VariantCache:
        return self

    def __exit__(self, *error: object) -> None:
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
        with _KIND.explained(self.path):
            self._connection.execute(
                "INSERT OR REPLACE INTO augmenters VALUES (?, ?, ?, ?, ?)", row
            )
        return identity

    def augmenters(self) -> list[KnownAugmenter]:
        """Those that added variants, by name."""
        with _KIND.explained(self.path):
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
        with _KIND.explained(self.path):
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
        with _KIND.explained(self.path), transaction(self._connection):
            self._connection.executemany(
                "INSERT INTO variants VALUES (?, ?, ?) ON CONFLICT (key, number) DO NOTHING", rows
            )
