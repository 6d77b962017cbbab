"""Which releases this device trusts: whose signatures it requires, and what is in force.

One small file, shared by whatever uses releases on the device, the Flower client and the app. What
it holds only grows. A device that once required signatures keeps requiring them. A release that was
replaced is not taken again, unless its registry's signed statement says that a rollback is meant
(see :mod:`pocketquery.sdk.bundle.lineage`). An app searches with what it is told to:

    trusted = TrustedReleases("state/trusted-releases.sqlite", public_key="publisher.pub.pem")
    trusted.follow(lineage, manifest=encoder.manifest)       # bytes from the registry
    wanted = trusted.target(encoder.manifest)                # which version to fetch
    release = trusted.release_for_search(data, manifest=encoder.manifest)
    encoder.swap_adapter(release)

The file holds no query and nothing made of one, and is not sent: of a roll-out by shares, the
device alone decides whether it is among the first, by a secret in this file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from pocketquery.sdk.bundle.adapter import AdapterRelease, parse_adapter, read_adapter
from pocketquery.sdk.bundle.lineage import follow, parse_lineage
from pocketquery.sdk.bundle.manifest import ENCODER_FILE, Manifest
from pocketquery.sdk.bundle.signature import Key, key_id, public_key_bytes
from pocketquery.sdk.bundle.statement import Statement, Target, is_older
from pocketquery.sdk.errors import ArtifactError, RollbackError, SignatureError
from pocketquery.sdk.files import make_folder
from pocketquery.sdk.sqlite_file import SqliteKind, check_sqlite, transaction

__all__ = ["TRUSTED_RELEASES", "TrustedReleases"]

TRUSTED_RELEASES = "trusted-releases.sqlite"
"""Its name beside the query store."""

_SECRET_BYTES = 32
_MODE = 0o600
_KIND = SqliteKind(
    name="a record of trusted releases",
    application_id=0x50515452,  # "PQTR"
    version=1,
    mend="no release is taken while it lies there; where you remove it, what this device required "
    "is forgotten with it",
    elsewhere="give another path",
)
_TABLES = (
    "CREATE TABLE device (one INTEGER PRIMARY KEY CHECK (one = 1), secret BLOB NOT NULL,"
    " public_key BLOB NOT NULL)",
    "CREATE TABLE encoders (encoder_sha256 TEXT PRIMARY KEY, version TEXT NOT NULL,"
    " statement BLOB)",
)


class TrustedReleases:
    """What one device trusts. Every call is one transaction; threads and processes may share it.

    Without a key, now and ever before, it trusts what is sound in itself, and keeps nothing.

    Args:
        path: the file; None keeps everything in this process alone.
        public_key: whose releases and statements to take. None: those of the key that was given
            when the file was made, which stays required.
        replaces: the public key that ``public_key`` takes the place of without that key's word,
            because it was lost: the person who installs the app says so, and what was in force is
            forgotten. Where the key was rotated (``pocketquery releases rotate-key``) there is no
            need.
        secret: 32 bytes; by default drawn from the system. A simulation gives its own.

    Raises:
        SignatureError: another key is given than the one that is required.
        InvalidInputError: the key is none.
        ArtifactError: the file is damaged, of a newer version, or cannot be written.
    """

    def __init__(
        self,
        path: Path | str | None = None,
        *,
        public_key: Key | None = None,
        replaces: Key | None = None,
        secret: bytes | None = None,
    ) -> None:
        self._path = None if path is None else Path(path).absolute()
        self._lock = threading.RLock()
        self._memory: sqlite3.Connection | None = None
        self._public_key: bytes | None = None
        new_key = None if public_key is None else public_key_bytes(public_key)
        if new_key is None and (self._path is None or not self._path.exists()):
            return
        old = None if replaces is None else public_key_bytes(replaces)
        with self._transaction() as connection:
            self._public_key = self._claim(connection, new_key, old, secret)

    @property
    def public_key(self) -> bytes | None:
        """The key that signatures are required of, 32 raw bytes; what comes after it, where it was
        rotated, its statements say. None: none is required."""
        return self._public_key

    def follow(self, lineage: bytes, *, manifest: Manifest, name: str = "the lineage") -> None:
        """Believe a registry's statements, where they may follow what is known; on disk when this
        returns.

        Args:
            lineage: from the registry, as an offer of a round or as a file (``pocketquery releases
                lineage --output FILE``).
            manifest: of the bundle whose releases they are about.
            name: how an error calls the lineage.

        Raises:
            RollbackError: they are older than what is known, or contradict it.
            SignatureError: they are not signed by a key that may sign them.
            SpaceMismatchError, CorruptArtifactError, UnsupportedVersionError: they are of another
                bundle, damaged, or of a newer format version.
            ArtifactError: the disk is full; what was known is known still.
        """
        if self._public_key is None:
            return
        statements = parse_lineage(lineage, name)
        statements[-1].check_belongs(manifest, name)
        with self._transaction() as connection:
            version, known = _remembered(connection, manifest)
            newest = follow(statements, known, self._public_key, version=version, name=name)
            if newest is not known:
                _remember(connection, manifest, newest.release.version, newest)

    def target(self, manifest: Manifest) -> Target | None:
        """Which release to search with, by its version and the SHA-256 of its file; None where no
        statement is known. In a roll-out that is the new one or the one before it, as this device's
        secret decides."""
        if self._public_key is None:
            return None
        with self._transaction() as connection:
            _, known = _remembered(connection, manifest)
            return None if known is None else known.target(_secret(connection))

    def release_for_search(
        self, data: bytes, lineage: bytes = b"", *, manifest: Manifest, name: str = "the release"
    ) -> AdapterRelease:
        """The release in ``data``, where it is the one to search with: for
        :meth:`pocketquery.sdk.encoder.Encoder.swap_adapter`.

        Args:
            data: the file's bytes.
            lineage: the statements that came with it, followed first; empty: those known count.
            manifest: of the bundle.
            name: how an error calls the release.

        Raises:
            RollbackError: it is another than the one to search with, or an older one.
            SignatureError: a key counts, and it is neither signed by it nor vouched for by a
                statement.
            SpaceMismatchError, CorruptArtifactError, UnsupportedVersionError: it is of another
                bundle, damaged, or of a newer format version. And as :meth:`follow`.
        """
        return self._release(data, lineage, manifest, name, searching=True)

    def release_for_training(
        self, data: bytes, lineage: bytes = b"", *, manifest: Manifest, name: str = "the adapter"
    ) -> AdapterRelease:
        """The release in ``data``, where it is the one in force, which rounds train from: every
        device, whatever share of them searches with it already. The rest as
        :meth:`release_for_search`."""
        return self._release(data, lineage, manifest, name, searching=False)

    def _release(
        self, data: bytes, lineage: bytes, manifest: Manifest, name: str, *, searching: bool
    ) -> AdapterRelease:
        if self._public_key is None:
            return read_adapter(data, manifest=manifest, name=name)
        if lineage:
            self.follow(lineage, manifest=manifest, name=f"{name}'s lineage")
        with self._transaction() as connection:
            version, known = _remembered(connection, manifest)
            if known is None:
                return self._without_statement(connection, data, manifest, version, name)
            secret = _secret(connection)
        release = parse_adapter(data, name)
        _check_target(release, known.target(secret) if searching else known.release, known, name)
        release.check_belongs(manifest, name, "fetch the adapter of this bundle")
        return release._replace(signed_by=next(iter(known.signatures)))

    def _without_statement(
        self,
        connection: sqlite3.Connection,
        data: bytes,
        manifest: Manifest,
        in_force: str | None,
        name: str,
    ) -> AdapterRelease:
        """A release of a registry that makes no statements yet: its own signature counts."""
        release = read_adapter(data, manifest=manifest, public_key=self._public_key, name=name)
        _check_newer(release, in_force, name)
        _remember(connection, manifest, release.version, None)
        return release

    def _claim(
        self,
        connection: sqlite3.Connection,
        new_key: bytes | None,
        replaced: bytes | None,
        secret: bytes | None,
    ) -> bytes:
        """The key that is required from now on."""
        row = connection.execute("SELECT public_key FROM device").fetchone()
        if row is None:
            if new_key is None:  # made and killed before it held anything
                raise SignatureError(f"{self._path}: found no key in it, expected one; give it")
            secret = secret or os.urandom(_SECRET_BYTES)
            connection.execute("INSERT INTO device VALUES (1, ?, ?)", (secret, new_key))
            return new_key
        required = bytes(row[0])
        if new_key is None or new_key == required:
            return required
        lasting = {
            key.key for one in _statements(connection) for key in one.keys if key.until is None
        }
        if new_key not in lasting:
            if replaced is None or replaced not in {required, *lasting}:
                _refuse_key(self._path, new_key, required, lasting)
            connection.execute("DELETE FROM encoders")
        connection.execute("UPDATE device SET public_key = ?", (new_key,))
        return new_key

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Committed, durably, on leaving without an error; else undone."""
        with self._lock:
            if self._path is None:
                if self._memory is None:
                    check_sqlite()
                    self._memory = sqlite3.connect(
                        ":memory:", isolation_level=None, check_same_thread=False
                    )
                    weakref.finalize(self, self._memory.close)
                    _KIND.create(self._memory, _TABLES)
                with transaction(self._memory) as connection:
                    yield connection
                return
            try:
                make_folder(self._path.parent)
                # Created here and not by SQLite, which would let others read it.
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, _MODE))
            except OSError as error:
                raise ArtifactError(
                    f"{self._path}, {_KIND.name}, cannot be opened ({error}); expected a file in a "
                    "folder that may be written"
                ) from error
            with (
                _KIND.explained(self._path),
                contextlib.closing(_KIND.open(self._path, "rw")) as opened,
            ):
                opened.execute("PRAGMA synchronous = EXTRA")  # the journal's removal is synced too
                with transaction(opened) as connection:
                    _KIND.prepare(connection, self._path, _TABLES)
                    yield connection


def _remembered(
    connection: sqlite3.Connection, manifest: Manifest
) -> tuple[str | None, Statement | None]:
    """The version in force of the encoder of ``manifest``, and the statement that says so."""
    row = connection.execute(
        "SELECT version, statement FROM encoders WHERE encoder_sha256 = ?", (_encoder(manifest),)
    ).fetchone()
    if row is None:
        return None, None
    return row[0], None if row[1] is None else Statement.parse(row[1])


def _remember(
    connection: sqlite3.Connection, manifest: Manifest, version: str, statement: Statement | None
) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO encoders VALUES (?, ?, ?)",
        (_encoder(manifest), version, None if statement is None else statement.to_bytes()),
    )


def _statements(connection: sqlite3.Connection) -> list[Statement]:
    rows = connection.execute("SELECT statement FROM encoders WHERE statement IS NOT NULL")
    return [Statement.parse(row[0]) for row in rows]


def _secret(connection: sqlite3.Connection) -> bytes:
    return bytes(connection.execute("SELECT secret FROM device").fetchone()[0])


def _encoder(manifest: Manifest) -> str:
    return manifest.files[ENCODER_FILE].sha256


def _check_target(release: AdapterRelease, target: Target, known: Statement, name: str) -> None:
    if release.sha256 != target.sha256:
        raise RollbackError(
            f"{name}: release {release.version} with SHA-256 {release.sha256} was offered, "
            f"statement {known.sequence} of its registry expects release {target.version} with "
            f"{target.sha256} here; an old one was replayed, or its statement is missing. Fetch "
            "release and lineage again"
        )


def _check_newer(release: AdapterRelease, in_force: str | None, name: str) -> None:
    if in_force is not None and is_older(release.version, in_force):
        raise RollbackError(
            f"{name}: release {release.version} is older than release {in_force}, which is in "
            "force here, and comes without its registry's word that a rollback is meant; fetch "
            "the newest, with its lineage"
        )


def _refuse_key(path: Path | None, new_key: bytes, required: bytes, lasting: set[bytes]) -> None:
    expected = ", ".join(sorted(map(key_id, {required, *lasting})))
    raise SignatureError(
        f"{path}: the public key {key_id(new_key)} is given, this device requires signatures by "
        f"{expected}; give that one. Where it was lost and {key_id(new_key)} takes its place, name "
        "the lost one as what it replaces (replaced-key)"
    )
