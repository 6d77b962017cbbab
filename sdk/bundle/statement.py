"""One signed statement of a registry: the release in force, for whom, and who signs the next.

A line of JSON. It holds

    sequence        its number, one more than that of the statement before
    release         version and SHA-256 of the release in force
    rollback_from   where an older release is in force on purpose: the newest that is withdrawn
    roll_out        where only a share of the devices is to search with it yet, and which one the
                    others have
    keys            who may sign what follows, and up to which statement

and Ed25519 signatures over all of that. What a device makes of several is in ``lineage.py``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pocketquery.sdk.bundle.adapter import check_belongs
from pocketquery.sdk.bundle.manifest import Manifest
from pocketquery.sdk.bundle.signature import Key, key_id, public_key_of, sign
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.fields import Fields, shortened

__all__ = [
    "LARGEST_STATEMENT",
    "MOST_KEYS",
    "WHOLE",
    "RollOut",
    "Statement",
    "StatementKey",
    "Target",
    "is_older",
]

LARGEST_STATEMENT = 16_384
"""Bytes."""

MOST_KEYS = 16
"""That may sign at once."""

WHOLE = 1_000_000
"""Shares of a roll-out are whole millionths."""

_FORMAT = "pocketquery-statement"
_VERSION = 1
_MOST_CHARACTERS = 1024  # of a version, an id; as in a release
_LAST_SEQUENCE = 2**53 - 1  # the last whole number that JavaScript's are exact for
_NUMBERS_AND_TEXT = re.compile(r"\d+|\D+")


@dataclass(frozen=True)
class Target:
    """A release that a statement vouches for: its version, and the SHA-256 of its file."""

    version: str
    sha256: str


@dataclass(frozen=True)
class StatementKey:
    """A key that may sign statements.

    Attributes:
        key: 32 raw bytes, an Ed25519 public key.
        until: the last statement it may sign; None: there is no last. A key with a last one is
            being replaced, and may not change the keys.
    """

    key: bytes
    until: int | None = None

    def may_sign(self, sequence: int) -> bool:
        """Whether it may sign the statement with this number."""
        return self.until is None or sequence <= self.until


@dataclass(frozen=True)
class RollOut:
    """A release that some devices search with already, and the others not yet.

    Attributes:
        share: of the devices that do, in millionths.
        salt: 32 bytes; with the device's secret they decide. The same while a roll-out grows, so
            that a device that is in stays in; another in the next, so that others are first.
        rest: what the others search with.
    """

    share: int
    salt: bytes
    rest: Target

    def includes(self, secret: bytes) -> bool:
        """Whether the device with this secret is among the first: SHA-256 of secret and salt, as a
        fraction, is below the share."""
        drawn = int.from_bytes(hashlib.sha256(secret + self.salt).digest()[:8], "big")
        return drawn * WHOLE < self.share << 64


@dataclass(frozen=True)
class Statement:
    """One statement; whether it is signed by anybody to be trusted, :func:`follow` says.

    Attributes:
        space_id: the space of the releases.
        encoder_sha256: of the ``encoder.onnx`` they belong to.
        sequence: its number, from 1.
        keys: who may sign what follows.
        release: what is in force.
        rollback_from: the newest version that was withdrawn for an older one; else None.
        roll_out: which share of the devices searches with it; None: all.
        signatures: 64 bytes each, by the id of the key that made them.
    """

    space_id: str
    encoder_sha256: str
    sequence: int
    keys: tuple[StatementKey, ...]
    release: Target
    rollback_from: str | None = None
    roll_out: RollOut | None = None
    signatures: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def signed_bytes(self) -> bytes:
        """What the signatures are over: canonical JSON."""
        return _canonical(self._signed())

    def signed(self, *keys: Key) -> Statement:
        """This with the signatures of these private keys alone."""
        made = {key_id(public_key_of(key)): sign(self.signed_bytes, key) for key in keys}
        return replace(self, signatures=made)

    def target(self, secret: bytes) -> Target:
        """What the device with this secret searches with."""
        if self.roll_out is None or self.roll_out.includes(secret):
            return self.release
        return self.roll_out.rest

    def to_bytes(self) -> bytes:
        """The statement as one line of JSON, without its end."""
        signatures = {name: value.hex() for name, value in self.signatures.items()}
        return _canonical({"signed": self._signed(), "signatures": signatures})

    @classmethod
    def parse(cls, line: bytes, name: str = "the statement") -> Statement:
        """The statement in ``line``, by whomever it is signed.

        Raises:
            CorruptArtifactError: it is none, or not in the bytes a statement is written in.
            UnsupportedVersionError: of a newer format version.
        """
        if not isinstance(line, bytes):  # from a database that somebody changed
            raise CorruptArtifactError(f"{name}: found {type(line).__name__}, expected bytes")
        outer = Fields.of_json(line, name, most_bytes=LARGEST_STATEMENT)
        fields = outer.child("signed")
        fields.check_format(_FORMAT, _VERSION)
        signatures = outer.texts("signatures", most=MOST_KEYS)
        statement = cls(
            space_id=fields.text("space_id", _MOST_CHARACTERS),
            encoder_sha256=fields.text("encoder_sha256", _MOST_CHARACTERS),
            sequence=fields.integer("sequence", 1, _LAST_SEQUENCE),
            keys=tuple(_key(one, name) for one in fields.sequence("keys", MOST_KEYS)),
            release=_target(fields.child("release")),
            rollback_from=fields.text_or_none("rollback_from", _MOST_CHARACTERS),
            roll_out=_roll_out(fields),
            signatures={one: _hexadecimal(text, 64, name) for one, text in signatures.items()},
        )
        if statement.to_bytes() != line:
            raise CorruptArtifactError(
                f"{name}: not in the bytes a statement is written in; it was changed. Fetch it "
                "again"
            )
        _check_sense(statement, name)
        return statement

    def check_belongs(self, manifest: Manifest, name: str) -> None:
        """See that it is of releases for the bundle of ``manifest``.

        Raises:
            SpaceMismatchError: they live in another space; names both.
            CorruptArtifactError: they are for another ``encoder.onnx``; names both.
        """
        ids = (self.space_id, self.encoder_sha256)
        check_belongs(*ids, manifest, name, "fetch the lineage of this bundle's releases")

    def _signed(self) -> dict[str, Any]:
        rollout = self.roll_out
        return {
            "format": _FORMAT,
            "format_version": _VERSION,
            "space_id": self.space_id,
            "encoder_sha256": self.encoder_sha256,
            "sequence": self.sequence,
            "keys": [{"key": one.key.hex(), "until": one.until} for one in self.keys],
            "release": vars(self.release),
            "rollback_from": self.rollback_from,
            "roll_out": None
            if rollout is None
            else {"share": rollout.share, "salt": rollout.salt.hex(), "rest": vars(rollout.rest)},
        }


def is_older(version: str, other: str) -> bool:
    """Whether ``version`` is older than ``other``, as a registry counts: runs of digits are
    numbers, and what is longer is newer ("9" before "10", "2026-11" before "2026-11.1")."""
    return _order(version) < _order(other)


def _order(version: str) -> list[tuple[bool, int, str]]:
    runs = _NUMBERS_AND_TEXT.findall(version)
    return [(True, int(run), "") if run.isdecimal() else (False, 0, run) for run in runs]


def _check_sense(statement: Statement, name: str) -> None:
    """What each field alone does not show."""
    wrong, version, last = "", statement.release.version, [one.until for one in statement.keys]
    if len({one.key for one in statement.keys}) < len(statement.keys) or None not in last:
        wrong = f"keys with the ends {last}, expected different ones, of which one has no end"
    elif statement.rollback_from is not None and not is_older(version, statement.rollback_from):
        wrong = f"a rollback from {shortened(statement.rollback_from)} to {shortened(version)}"
    elif statement.roll_out is not None and not is_older(statement.roll_out.rest.version, version):
        rest = shortened(statement.roll_out.rest.version)
        wrong = f"a roll-out from {rest} to {shortened(version)}"
    if wrong:
        raise CorruptArtifactError(f"{name}: found {wrong}; it was not made by a registry")


def _key(entry: Any, name: str) -> StatementKey:
    if not isinstance(entry, dict):
        raise CorruptArtifactError(f"{name}: field 'keys': expected objects")
    fields = Fields(entry, name, "keys.")
    until = None if fields.is_null("until") else fields.integer("until", 1, _LAST_SEQUENCE)
    return StatementKey(_hexadecimal(fields.text("key"), 32, name), until)


def _target(fields: Fields) -> Target:
    return Target(fields.text("version", _MOST_CHARACTERS), fields.text("sha256", _MOST_CHARACTERS))


def _roll_out(fields: Fields) -> RollOut | None:
    if fields.is_null("roll_out"):
        return None
    roll_out = fields.child("roll_out")
    salt = _hexadecimal(roll_out.text("salt"), 32, "roll_out.salt")
    return RollOut(roll_out.integer("share", 0, WHOLE - 1), salt, _target(roll_out.child("rest")))


def _hexadecimal(text: str, count: int, name: str) -> bytes:
    if not re.fullmatch(f"[0-9a-f]{{{2 * count}}}", text):
        raise CorruptArtifactError(
            f"{name}: found {shortened(text)!r}, expected {2 * count} hexadecimal digits"
        )
    return bytes.fromhex(text)


def _canonical(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
