"""The lineage of releases: how a device follows a registry's signed statements.

A release proves who made it, not that it is the one to use now: an old one, replayed, is as well
signed as the newest (a *rollback attack*, in the words of The Update Framework). So a registry that
signs also says which release is in force, with a number that grows (``statement.py``). Devices get
a *lineage*: the statements that changed the keys, in order, and the newest one. So a device that
was offline for long can follow from the key it knows to the one that signs today.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pocketquery.sdk.bundle.signature import check_signature, key_id
from pocketquery.sdk.bundle.statement import Statement, StatementKey, is_older
from pocketquery.sdk.errors import CorruptArtifactError, RollbackError, SignatureError
from pocketquery.sdk.fields import shortened

__all__ = ["LARGEST_LINEAGE", "follow", "pack_lineage", "parse_lineage"]

LARGEST_LINEAGE = 65_536
"""Bytes; a statement has some 600, and each change of the keys adds one."""


def pack_lineage(statements: Sequence[Statement]) -> bytes:
    """The bytes of a lineage: a statement a line."""
    return b"".join(one.to_bytes() + b"\n" for one in statements)


def parse_lineage(data: bytes, name: str = "the lineage") -> list[Statement]:
    """The statements in ``data``, one or more, their numbers growing; by whomever signed.

    Raises:
        CorruptArtifactError: it is none, or of several encoders.
        UnsupportedVersionError: of a newer format version.
    """
    if len(data) > LARGEST_LINEAGE:
        raise CorruptArtifactError(
            f"{name}: more than {LARGEST_LINEAGE} bytes, which no lineage has"
        )
    lines = data.split(b"\n")
    if len(lines) < 2 or lines.pop() != b"":
        raise CorruptArtifactError(
            f"{name}: found no statements, expected one a line, the last line ended too"
        )
    statements = [
        Statement.parse(one, f"{name}, line {number}") for number, one in enumerate(lines, 1)
    ]
    numbers = [one.sequence for one in statements]
    if any(one >= other for one, other in itertools.pairwise(numbers)):
        raise CorruptArtifactError(f"{name}: statements {numbers}, expected numbers that grow")
    if len({(one.space_id, one.encoder_sha256) for one in statements}) > 1:
        raise CorruptArtifactError(f"{name}: its statements are of several encoders, expected one")
    return statements


def follow(
    statements: Sequence[Statement],
    known: Statement | None,
    public_key: bytes,
    *,
    version: str | None = None,
    name: str = "the lineage",
) -> Statement:
    """The newest of ``statements``, where each may follow the one before.

    Args:
        statements: of one lineage, their numbers growing.
        known: the newest that was followed so far; None: this is the first lineage.
        public_key: whom to believe then, 32 raw bytes.
        version: of the release in force, where it came without a statement.
        name: how an error calls the lineage.

    Returns:
        The newest, with the signatures that were checked; ``known`` where there is no newer.

    Raises:
        RollbackError: the newest is older than ``known``, or is another with the same number. Or an
            older release is put in force, and no statement says that a rollback is meant.
        SignatureError: one is not signed by a key that may sign it.
        MissingExtraError: ``cryptography`` is not installed.
    """
    if known is None:
        statements = _from_first_signed(statements, public_key, name)
    else:
        _check_not_replayed(statements[-1], known, name)
    for one in statements:
        if known is not None and one.sequence <= known.sequence:
            _check_same(one, known, name)
            continue
        keys = (StatementKey(public_key),) if known is None else known.keys
        verified = _check_signed(one, keys, name)
        if known is not None:
            _check_keys(one, keys, verified, name)
        in_force = version if known is None else known.release.version
        if in_force is not None:
            _check_version(one, in_force, name)
        known = replace(one, signatures=verified)
    assert known is not None
    return known


def _from_first_signed(
    statements: Sequence[Statement], public_key: bytes, name: str
) -> Sequence[Statement]:
    """``statements`` from the first on that ``public_key`` signed: those before it are of keys that
    it replaced."""
    signer = key_id(public_key)
    for place, one in enumerate(statements):
        if signer in one.signatures:
            return statements[place:]
    signers = sorted({signer for one in statements for signer in one.signatures})
    raise SignatureError(
        f"{name}: no statement is signed by the key {signer}, found "
        f"{', '.join(signers) or 'none'}; it comes from somebody else, or the key was replaced "
        "before this device could follow. Fetch it from its publisher, or update the app that "
        "names the key"
    )


def _check_not_replayed(newest: Statement, known: Statement, name: str) -> None:
    if newest.sequence < known.sequence:
        raise RollbackError(
            f"{name}: the newest statement is number {newest.sequence} (release "
            f"{shortened(newest.release.version)}), this device follows number {known.sequence} "
            f"(release {shortened(known.release.version)}), expected that or a later one; an old "
            "answer was replayed. Fetch it again from the registry"
        )


def _check_same(one: Statement, known: Statement, name: str) -> None:
    if one.sequence == known.sequence and one.signed_bytes != known.signed_bytes:
        raise RollbackError(
            f"{name}: statement {one.sequence} puts release {shortened(one.release.version)} in "
            f"force, this device has another statement {known.sequence}, with release "
            f"{shortened(known.release.version)}; the registry was set back to a copy, or its key "
            "is in other hands. Ask its publisher"
        )


def _check_signed(one: Statement, keys: Sequence[StatementKey], name: str) -> Mapping[str, bytes]:
    """The signatures of ``one`` that were made by ``keys`` that may sign it; at least one."""
    verified, refused = {}, []
    for key in keys:
        signer = key_id(key.key)
        if signer not in one.signatures:
            continue
        if not key.may_sign(one.sequence):
            refused.append(f"{signer}, which may sign up to statement {key.until}")
            continue
        try:
            check_signature(one.signed_bytes, one.signatures[signer], key.key, "statement")
        except SignatureError:
            refused.append(f"{signer}, whose signature is not right")
            continue
        verified[signer] = one.signatures[signer]
    if not verified:
        signers = refused or sorted(one.signatures) or ["nobody"]
        expected = [key_id(key.key) for key in keys if key.may_sign(one.sequence)]
        raise SignatureError(
            f"{name}: statement {one.sequence} is signed by {'; '.join(signers)}, expected one of "
            f"{', '.join(expected) or 'none'}; it was changed, comes from somebody else, or "
            "statements before it are missing. Fetch the whole lineage from its publisher"
        )
    return verified


def _check_keys(
    one: Statement, keys: tuple[StatementKey, ...], verified: Mapping[str, bytes], name: str
) -> None:
    """A key that is being replaced says what is in force until its end, not who may."""
    if one.keys == keys:
        return
    lasting = [key_id(key.key) for key in keys if key.until is None]
    if not set(lasting) & verified.keys():
        raise SignatureError(
            f"{name}: statement {one.sequence} changes the keys and is signed by "
            f"{', '.join(sorted(verified))}, which is being replaced; expected {lasting[0]}. Ask "
            "its publisher"
        )


def _check_version(one: Statement, in_force: str, name: str) -> None:
    version, withdrawn = one.release.version, one.rollback_from
    if not is_older(version, in_force):
        return
    if withdrawn is None or is_older(withdrawn, in_force):
        raise RollbackError(
            f"{name}: statement {one.sequence} puts release {shortened(version)} in force, older "
            f"than release {shortened(in_force)}, which is in force here, and does not say that a "
            "rollback is meant; where it is, use pocketquery releases rollback"
        )
