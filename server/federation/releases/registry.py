"""The registry of releases: every candidate with its parent and the gate's report, and which one
is in force.

Versions are numbers that only grow, from the bundle's own: with "1" in the bundle, the candidates
are "2", "3" and so on, and one that is rejected uses its number up. A release never changes once it
is recorded; coming into force, by acceptance or by rolling back, is a row of its own. A registry
that was given a signing key also makes a signed statement of each such change (statements.py), and
takes none without a key from then on.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pocketquery.sdk.arrays import Tensors
from pocketquery.sdk.bundle.adapter import pack_adapter, parse_adapter
from pocketquery.sdk.bundle.adapter_tensors import tensors_sha256
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import Manifest
from pocketquery.sdk.bundle.signature import Key, public_key_of
from pocketquery.sdk.bundle.statement import Statement, StatementKey
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.files import make_folder
from pocketquery.sdk.sqlite_file import is_new
from pocketquery.server.federation.releases.database import (
    create_tables,
    reading,
    writing,
)
from pocketquery.server.federation.releases.release_rows import (
    Release,
    listed,
    next_version,
    put_in_force,
    read_all,
    read_file,
    read_one,
    recorded_as,
    version_in_force,
    write_release,
)
from pocketquery.server.federation.releases.statements import (
    Signer,
    check_statements,
    last_statement,
    lineage,
    may_sign,
    read_statements,
    released,
    rolled_back,
    rolled_out,
    rotated,
)

if TYPE_CHECKING:  # measuring comes with the server's extra, listing does not need it
    from pocketquery.server.federation.releases.gate_report import AcceptanceReport

__all__ = ["REGISTRY_FILE", "Registry", "Release"]

REGISTRY_FILE = "releases.sqlite"


class Registry:
    """The registry in a folder. Every call is one transaction; threads and processes may share it.

    Made by :meth:`of_bundle`, or by :meth:`open` where it is there already.
    """

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self.folder = folder
        self._path = folder / REGISTRY_FILE
        self._clock = clock

    @classmethod
    def open(cls, folder: Path | str, *, clock: Callable[[], float] = time.time) -> Registry:
        """The registry in ``folder``.

        Raises:
            ArtifactNotFoundError: there is none.
            CorruptArtifactError: it is damaged, or something else.
            UnsupportedVersionError: written by a newer release.
        """
        registry = cls(Path(folder), clock)
        registry.current()
        return registry

    @classmethod
    def of_bundle(
        cls,
        folder: Path | str,
        bundle: Bundle,
        *,
        signing_key: Key | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Registry:
        """The registry of the releases of ``bundle``; made, with the bundle's own adapter as its
        first release, where there is none yet. With a key, statements are made from now on.

        Raises:
            InvalidInputError: the bundle has no adapter, or one too large to travel.
            SpaceMismatchError: the registry there is of another space; names both.
            CorruptArtifactError: it is of another ``encoder.onnx``, names both; or damaged.
            SignatureError: its next statement cannot be signed by the key.
        """
        registry, manifest = cls(Path(folder), clock), bundle.manifest
        make_folder(registry.folder)
        with writing(registry._path, create=True) as connection:
            if is_new(connection):
                create_tables(connection)
                registry._record(
                    connection,
                    bundle.adapter(required=True),
                    manifest=manifest,
                    version=manifest.encoder_version,
                    parent=manifest.parent_version,
                    signing_key=signing_key,
                )
            registry._check_bundle(connection, manifest)
            if signing_key is not None:
                Signer.begin(connection, signing_key, registry._clock())
        return registry

    def current(self) -> Release:
        """The release in force."""
        with reading(self._path) as connection:
            return read_one(connection, version_in_force(connection))

    def get(self, version: str) -> Release:
        """The record of ``version``.

        Raises:
            InvalidInputError: it is unknown; names those that are known.
        """
        with reading(self._path) as connection:
            return self._known(connection, version)

    def history(self) -> list[Release]:
        """Every candidate, the oldest first."""
        with reading(self._path) as connection:
            return list(read_all(connection).values())

    def read(self, version: str | None = None) -> bytes:
        """The file of a release, checked; of the one in force unless another is named.

        Raises:
            InvalidInputError: ``version`` is unknown, or was rejected.
            CorruptArtifactError: the file in the registry was changed.
        """
        with reading(self._path) as connection:
            version = version_in_force(connection) if version is None else version
            return read_file(connection, self._accepted(connection, version).version)

    def lineage(self) -> bytes:
        """What devices are told of the release in force, for
        :class:`pocketquery.client.trusted_releases.TrustedReleases`; empty where the registry was
        never given a key."""
        with reading(self._path) as connection:
            return lineage(connection)

    def statements(self) -> list[Statement]:
        """Every statement, the oldest first."""
        with reading(self._path) as connection:
            return read_statements(connection)

    def check_key(self, signing_key: Key | None) -> None:
        """See that ``signing_key`` can sign the next statement, where there is a first.

        Raises:
            InvalidInputError, SignatureError: it cannot.
        """
        with reading(self._path) as connection:
            last = last_statement(connection)
        if last is not None:
            may_sign(last, signing_key)

    def publish(
        self,
        tensors: Tensors,
        report: AcceptanceReport | None,
        *,
        manifest: Manifest,
        parent: str,
        signing_key: Key | None = None,
        share: float = 1.0,
    ) -> Release:
        """Record a candidate; where the report accepts it, it is in force from then on.

        Called again with the same tensors, parent and verdict, as after a kill, it changes nothing
        and returns what was recorded: look at ``in_force``, it may have been rolled back since.

        Args:
            tensors: of the candidate, every adapter tensor; rounded to float16.
            report: the gate's; None releases it unjudged.
            manifest: of the bundle.
            parent: the release in force, which the candidate was trained from and judged against.
            signing_key: an Ed25519 private key: 32 raw bytes, 64 hexadecimal digits or a PEM file.
            share: of the devices that search with it at first, where there is a key; see
                :meth:`roll_out`.

        Raises:
            InvalidInputError: an accepted candidate cannot be released (NaN, too large); or
                another release than ``parent`` is in force, so that it was judged against the
                wrong one; or a key is missing.
            SignatureError: the key cannot sign the next statement.
            SpaceMismatchError, CorruptArtifactError: the manifest is of another bundle.
        """
        accepted = report is None or report.accepted
        digest = tensors_sha256(tensors)
        with writing(self._path) as connection:
            self._check_bundle(connection, manifest)
            in_force = version_in_force(connection)
            known = recorded_as(connection, parent, digest, accepted=accepted)
            if known is not None:
                return read_one(connection, known)
            if parent != in_force:
                raise InvalidInputError(
                    f"{self.folder}: the candidate follows release {parent}, release {in_force} is "
                    "in force; train and judge it from that one"
                )
            signer = Signer.begin(connection, signing_key, self._clock()) if accepted else None
            version = next_version(list(read_all(connection)))
            self._record(
                connection,
                tensors,
                manifest=manifest,
                version=version,
                parent=parent,
                report=report,
                signing_key=signing_key,
            )
            if signer is not None:
                signer.append(released(signer.last, signer.target(version), share))
            return read_one(connection, version)

    def rollback(self, to: str | None = None, *, signing_key: Key | None = None) -> Release:
        """Put an older release in force again, or a newer one that was rolled back; for every
        device.

        Args:
            to: its version; None: the one that devices beyond the share of a roll-out have, or
                else the parent of the one in force.
            signing_key: says to devices that it is meant; needed where the registry has had one.

        Raises:
            InvalidInputError: the version is unknown or was rejected, or the release in force has
                no parent here; names those that can be in force. Or a key is missing.
            SignatureError: the key cannot sign the next statement.
        """
        with writing(self._path) as connection:
            signer = Signer.begin(connection, signing_key, self._clock())
            rollout = None if signer is None else signer.last.roll_out
            current = read_one(connection, version_in_force(connection))
            if to is None and rollout is not None:
                to = rollout.rest.version
            if to is None and current.parent not in read_all(connection):
                raise InvalidInputError(
                    f"{self.folder}: release {current.version} is the first, there is none before "
                    "it to go back to"
                )
            release = self._accepted(connection, str(current.parent) if to is None else to)
            if not release.in_force:
                put_in_force(connection, release.version, self._clock())
            if signer is not None and (rollout or not release.in_force):
                signer.append(rolled_back(signer.last, signer.target(release.version)))
            return read_one(connection, release.version)

    def roll_out(self, version: str, share: float, *, signing_key: Key) -> Release:
        """Have a share of the devices search with a release: more of them with the one in force, or
        the first with a newer one that was rolled back. Each decides by itself, and the server is
        not told; rounds train from it on every device.

        Args:
            version: of an accepted release, not older than the one in force.
            share: from 0 to 1, which is every device; it only grows.
            signing_key: as :meth:`publish`.

        Raises:
            InvalidInputError: the version is unknown, was rejected, is older than the one in force
                or in force for every device; or the share is none, or smaller than it was.
            SignatureError: the key cannot sign the next statement.
        """
        with writing(self._path) as connection:
            release = self._accepted(connection, version)
            signer = self._signer(connection, signing_key)
            composed = rolled_out(signer.last, signer.target(version), share)
            if not release.in_force:
                put_in_force(connection, version, self._clock())
            signer.append(composed)
            return read_one(connection, version)

    def rotate_key(self, signing_key: Key, new_key: Key, *, overlap: int = 10) -> Statement:
        """Put ``new_key`` in the place of ``signing_key``; done again, it changes nothing, but for
        a smaller overlap, which ends that of the old key sooner.

        Args:
            signing_key: the private key that signed so far.
            new_key: the private key that signs from now on. Both sign this statement; where it
                signs already, it alone.
            overlap: how many more statements the old one may sign, while servers still have it, and
                at most each that was replaced before.

        Raises:
            SignatureError: ``signing_key`` cannot sign the next statement, or is being replaced.
            InvalidInputError: ``overlap`` is no such number, there were too many rotations, or
                ``new_key`` is ``signing_key`` and no other may sign.
        """
        with writing(self._path) as connection:
            last = last_statement(connection)
            following = StatementKey(public_key_of(new_key))
            signs_already = last is not None and last.keys[-1] == following
            signer = self._signer(connection, new_key if signs_already else signing_key)
            composed = rotated(signer.last, signing_key, new_key, overlap)
            return signer.append(composed, new_key)

    def check(self) -> None:
        """Check every release file and statement, and that what is in force may be.

        Raises:
            CorruptArtifactError: a file was changed, or records contradict each other.
            SignatureError, RollbackError: devices would refuse a statement.
        """
        with reading(self._path) as connection:
            for release in read_all(connection).values():
                if release.accepted:
                    read_file(connection, release.version)
                elif release.bytes is not None or release.in_force:
                    raise CorruptArtifactError(
                        f"{self.folder}: release {release.version} was rejected and is in use; put "
                        "a copy of the registry in its place"
                    )
            check_statements(connection)

    def _signer(self, connection: sqlite3.Connection, key: Key) -> Signer:
        signer = Signer.begin(connection, key, self._clock())
        assert signer is not None  # with a key there is one
        return signer

    def _record(
        self,
        connection: sqlite3.Connection,
        tensors: Tensors,
        *,
        manifest: Manifest,
        version: str,
        parent: str | None,
        report: AcceptanceReport | None = None,
        signing_key: Key | None,
    ) -> None:
        """Record ``tensors``, as a release in force from now on unless the report refuses them."""
        data = None
        if report is None or report.accepted:
            data = pack_adapter(
                tensors,
                manifest=manifest,
                version=version,
                parent_version=parent,
                signing_key=signing_key,
            )
        write_release(
            connection,
            version=version,
            parent=parent,
            tensors_sha256=tensors_sha256(tensors),
            data=data,
            report=None if report is None else report.to_dict(),
            now=self._clock(),
        )

    def _check_bundle(self, connection: sqlite3.Connection, manifest: Manifest) -> None:
        """A registry is one encoder's: all its releases fit the first one's bundle."""
        first = parse_adapter(read_file(connection, next(iter(read_all(connection)))))
        where = f"the registry {self.folder}"
        first.check_belongs(manifest, where, "begin a registry in another folder")

    def _known(self, connection: sqlite3.Connection, version: str) -> Release:
        releases = read_all(connection)
        if version not in releases:
            raise InvalidInputError(
                f"{self.folder}: found no release {version!r}, known are {listed(releases)}"
            )
        return releases[version]

    def _accepted(self, connection: sqlite3.Connection, version: str) -> Release:
        release = self._known(connection, version)
        if not release.accepted:
            raise InvalidInputError(
                f"{self.folder}: release {version} was rejected by the gate "
                f"({(release.report or {}).get('reason')}) and has no file, known are "
                f"{listed(read_all(connection))}"
            )
        return release
