"""The statements that a registry makes: what each change of the release in force says to devices.

Each is composed from the one before and written in the transaction of its change. What devices make
of them stands in :mod:`pocketquery.sdk.bundle.lineage`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.bundle.lineage import LARGEST_LINEAGE, follow, pack_lineage
from pocketquery.sdk.bundle.signature import Key, key_id, public_key_of
from pocketquery.sdk.bundle.statement import (
    LARGEST_STATEMENT,
    MOST_KEYS,
    WHOLE,
    RollOut,
    Statement,
    StatementKey,
    Target,
    is_older,
)
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError, SignatureError
from pocketquery.sdk.validation import check, number, whole
from pocketquery.server.federation.releases.release_rows import read_file, version_in_force

__all__ = [
    "Signer",
    "check_statements",
    "last_statement",
    "lineage",
    "may_sign",
    "read_statements",
    "released",
    "rolled_back",
    "rolled_out",
    "rotated",
]

_MOST_OVERLAP = 1_000_000
_LARGEST_CHAIN = LARGEST_LINEAGE - LARGEST_STATEMENT  # so that every later statement has its place


def read_statements(connection: sqlite3.Connection) -> list[Statement]:
    """All of them, the oldest first; none where the registry makes none."""
    rows = connection.execute("SELECT data FROM statements ORDER BY sequence")
    return [Statement.parse(row[0]) for row in rows]


def last_statement(connection: sqlite3.Connection) -> Statement | None:
    """The newest; None where the registry makes none."""
    row = connection.execute("SELECT data FROM statements ORDER BY sequence DESC").fetchone()
    return None if row is None else Statement.parse(row[0])


def lineage(connection: sqlite3.Connection) -> bytes:
    """What devices are given: the statements that changed the keys, and the newest; empty where the
    registry makes none."""
    rows = connection.execute(
        "SELECT data FROM statements WHERE changes_keys OR sequence = (SELECT max(sequence) FROM"
        " statements) ORDER BY sequence"
    )
    statements = [Statement.parse(row[0]) for row in rows]
    return pack_lineage(statements) if statements else b""


@dataclass(frozen=True)
class Signer:
    """Makes the next statement of a registry, in a transaction.

    Attributes:
        connection: to the registry.
        last: the newest statement.
        key: an Ed25519 private key that may sign the next.
        now: seconds since 1970.
    """

    connection: sqlite3.Connection
    last: Statement
    key: Key
    now: float

    @classmethod
    def begin(cls, connection: sqlite3.Connection, key: Key | None, now: float) -> Signer | None:
        """The signer with ``key``. With the first key the first statement is made, of what is in
        force; None where there is neither a statement nor a key.

        Raises:
            InvalidInputError: there are statements, and no key is given.
            SignatureError: the key may not sign the next one.
        """
        last = last_statement(connection)
        if last is not None:
            return cls(connection, last, may_sign(last, key), now)
        if key is None:
            return None
        release = parse_adapter(read_file(connection, version_in_force(connection)))
        first = Statement(
            space_id=release.space_id,
            encoder_sha256=release.encoder_sha256,
            sequence=1,
            keys=(StatementKey(public_key_of(key)),),
            release=Target(release.version, release.sha256),
        )
        signer = cls(connection, first, key, now)
        signer._write(first.signed(key))
        return replace(signer, last=first.signed(key))

    def target(self, version: str) -> Target:
        """What a statement says of a release."""
        return _target(self.connection, version)

    def append(self, composed: Statement, *more_keys: Key) -> Statement:
        """Write ``composed`` as the next statement; as it is, where it says what the last does."""
        if composed == self.last:
            return self.last
        following = replace(composed, sequence=self.last.sequence + 1)
        return self._write(following.signed(self.key, *more_keys))

    def _write(self, statement: Statement) -> Statement:
        changes_keys = statement.keys != self.last.keys
        Statement.parse(statement.to_bytes())  # nothing is written that would not be read
        self.connection.execute(
            "INSERT INTO statements VALUES (?, ?, ?, ?)",
            (statement.sequence, statement.to_bytes(), changes_keys, self.now),
        )
        if changes_keys and len(lineage(self.connection)) > _LARGEST_CHAIN:  # undone: no COMMIT
            raise InvalidInputError(
                f"after this change of the keys devices would get more than {_LARGEST_CHAIN} bytes "
                "of statements; begin a registry in another folder"
            )
        return statement


def may_sign(last: Statement, key: Key | None) -> Key:
    """``key``, where it may sign the statement after ``last``.

    Raises:
        InvalidInputError: none is given.
        SignatureError: it may not; names those that may.
    """
    able = [one for one in last.keys if one.may_sign(last.sequence + 1)]
    expected = ", ".join(key_id(one.key) for one in able)
    if key is None:
        raise InvalidInputError(
            f"devices were told that releases of this registry are signed by {expected}, and take "
            "no other; give that signing key (--signing-key)"
        )
    public = public_key_of(key)
    if public not in {one.key for one in able}:
        ended = [one.until for one in last.keys if one.key == public]
        until = f", which could sign up to statement {ended[0]}" if ended else ""
        raise SignatureError(
            f"the signing key is {key_id(public)}{until}; statement {last.sequence + 1} of this "
            f"registry can be signed by {expected}. Sign with that"
        )
    return key


def released(last: Statement, release: Target, share: float = 1.0) -> Statement:
    """A newer release in force, for this share of the devices first. While another is being rolled
    out it takes that one's place, with its share and salt, so that no device goes back.

    Raises:
        InvalidInputError: ``share`` is none.
    """
    millionths, rollout = _millionths(share), last.roll_out
    if rollout is None and millionths < WHOLE:
        rollout = RollOut(millionths, bytes.fromhex(release.sha256), last.release)
    withdrawn = last.rollback_from
    if withdrawn is not None and not is_older(release.version, withdrawn):
        withdrawn = None
    return replace(last, release=release, roll_out=rollout, rollback_from=withdrawn)


def rolled_out(last: Statement, release: Target, share: float) -> Statement:
    """The release in force for so large a share of the devices.

    Raises:
        InvalidInputError: ``share`` is none or smaller than it was; the release is older than the
            one in force, or in force for every device.
    """
    version, in_force = release.version, last.release.version
    if is_older(version, in_force):
        raise InvalidInputError(
            f"release {version} is older than release {in_force}, which is in force; use "
            "pocketquery releases rollback"
        )
    begun = last if release == last.release else released(last, release, share)
    millionths, running = _millionths(share), begun.roll_out
    if running is None and begun is last and millionths < WHOLE:
        raise InvalidInputError(
            f"release {version} is in force for every device; to take it back use pocketquery "
            "releases rollback"
        )
    if running is None or millionths == WHOLE:
        return replace(begun, roll_out=None)
    if millionths < running.share:
        raise InvalidInputError(
            f"the roll-out has reached a share of {running.share / WHOLE:.6g}, {share:.6g} is less "
            "and a share only grows; to take a release back use pocketquery releases rollback"
        )
    return replace(begun, roll_out=replace(running, share=millionths))


def rolled_back(last: Statement, release: Target) -> Statement:
    """Another release in force for every device; where it is an older one, on purpose."""
    in_force, withdrawn = last.release.version, last.rollback_from
    if withdrawn is None or is_older(withdrawn, in_force):
        withdrawn = in_force
    if not is_older(release.version, withdrawn):
        withdrawn = None
    return replace(last, release=release, roll_out=None, rollback_from=withdrawn)


def rotated(last: Statement, old: Key, new: Key, overlap: int) -> Statement:
    """``new`` in the place of ``old``, which may sign ``overlap`` more statements; no key that was
    replaced earlier may sign more than that either. Where ``new`` signs already, the overlaps
    before it end sooner; ``last``, where they end by then.

    Raises:
        SignatureError: ``old`` is being replaced itself.
        InvalidInputError: ``overlap`` is no such number; or ``new`` is one too many, or ``old``,
            and no other may sign.
    """
    check("overlap", overlap, whole(0, _MOST_OVERLAP))
    sequence = last.sequence + 1
    replaced, following = public_key_of(old), public_key_of(new)
    lasting = [one.key for one in last.keys if one.until is None]
    if following not in lasting and replaced not in lasting:
        raise SignatureError(
            f"the key {key_id(replaced)} is being replaced and cannot name another; sign with "
            f"{', '.join(map(key_id, lasting))}"
        )
    keys = [one for one in last.keys if one.key != following and one.may_sign(sequence)]
    if replaced == following and not keys:
        raise InvalidInputError(
            f"the new key is {key_id(following)}, the one that signs now, and no other may sign; "
            "expected another"
        )
    end = sequence + overlap
    if following in lasting and not any(one.may_sign(end) for one in keys):
        return last
    keys = [StatementKey(one.key, end) if one.may_sign(end) else one for one in keys]
    keys = [one for one in keys if one.may_sign(sequence + 1)]
    if len(keys) >= MOST_KEYS:
        raise InvalidInputError(
            f"{len(keys)} keys may still sign, expected fewer than {MOST_KEYS} before another is "
            "named; wait until the overlaps of earlier rotations have ended"
        )
    return replace(last, keys=(*keys, StatementKey(following)))


def check_statements(connection: sqlite3.Connection) -> None:
    """See that a device that was there from the first could follow every statement, that none is
    missing, and that the last is about what is in force.

    Raises:
        CorruptArtifactError, SignatureError, RollbackError: it could not.
    """
    statements = read_statements(connection)
    if not statements:
        return
    numbers = [one.sequence for one in statements]
    if numbers != list(range(1, 1 + len(statements))):
        raise CorruptArtifactError(
            f"statements {numbers} are there, expected each number from 1 once; put a copy of the "
            "registry in its place"
        )
    follow(statements, None, statements[0].keys[0].key, name="the registry")
    for target in {one.release for one in statements}:
        if _target(connection, target.version) != target:
            raise CorruptArtifactError(
                f"a statement expects release {target.version} with SHA-256 {target.sha256}, "
                "another is there; put a copy of the registry in its place"
            )
    stated, recorded = statements[-1].release.version, version_in_force(connection)
    if stated != recorded:
        raise CorruptArtifactError(
            f"statement {numbers[-1]} puts release {stated} in force, release {recorded} is "
            "recorded as that; put a copy of the registry in its place"
        )


def _target(connection: sqlite3.Connection, version: str) -> Target:
    return Target(version, parse_adapter(read_file(connection, version)).sha256)


def _millionths(share: float) -> int:
    check("share", share, number(0, 1))
    return round(share * WHOLE)
