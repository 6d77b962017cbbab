"""What a device trusts: signatures once required stay required, and nothing old comes back."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketquery import sdk
from pocketquery.client import trusted_releases
from pocketquery.client.trusted_releases import TrustedReleases
from pocketquery.sdk.bundle import lineage
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.lineage import pack_lineage
from pocketquery.sdk.bundle.manifest import ENCODER_FILE, Manifest, Space
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.bundle.statement import RollOut, Statement, StatementKey, Target
from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    InvalidInputError,
    RollbackError,
    SignatureError,
    SpaceMismatchError,
    UnsupportedVersionError,
)
from pocketquery.sdk.files import sha256_bytes
from tests.kills import killed_process
from tests.sdk.tiny_bundle import default_adapter, trained_adapter, write_tiny_bundle

OLD, NEW, STRANGER = (bytes([number]) * 32 for number in (1, 2, 3))
PUBLIC, PUBLIC_NEW, PUBLIC_STRANGER = map(public_key_of, (OLD, NEW, STRANGER))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("trust") / "bundle"
    return Bundle.open(write_tiny_bundle(folder, adapter=default_adapter()))


@pytest.fixture(scope="module")
def manifest(bundle: Bundle) -> Manifest:
    return bundle.manifest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / trusted_releases.TRUSTED_RELEASES


def release(manifest: Manifest, version: str, key: bytes | None = OLD) -> bytes:
    tensors = trained_adapter(int(version))
    return pack_adapter(tensors, manifest=manifest, version=version, signing_key=key)


def statement(
    manifest: Manifest, sequence: int, version: str, key: bytes = OLD, **changes: Any
) -> Statement:
    data = release(manifest, version)
    made = Statement(
        space_id=manifest.space.id,
        encoder_sha256=manifest.files[ENCODER_FILE].sha256,
        sequence=sequence,
        keys=(StatementKey(PUBLIC),),
        release=Target(version, sha256_bytes(data)),
    )
    return replace(made, **changes).signed(key)


def said(manifest: Manifest, sequence: int, version: str, **changes: Any) -> bytes:
    return pack_lineage([statement(manifest, sequence, version, **changes)])


def in_force(trusted: TrustedReleases, manifest: Manifest) -> str | None:
    found = trusted.target(manifest)
    return None if found is None else found.version


# Whose signatures


def test_without_a_key_it_takes_what_is_sound_and_keeps_nothing(
    manifest: Manifest, path: Path
) -> None:
    trusted = TrustedReleases(path)
    for version in ("3", "2"):  # an older one is as good as any
        found = trusted.release_for_training(release(manifest, version, None), manifest=manifest)
        assert (found.version, found.signed_by) == (version, None)
    trusted.follow(said(manifest, 7, "2"), manifest=manifest)
    assert trusted.target(manifest) is None
    assert not path.parent.exists()


def test_a_device_that_once_required_signatures_keeps_requiring_them(
    manifest: Manifest, path: Path
) -> None:
    unsigned = release(manifest, "3", None)
    TrustedReleases(path, public_key=PUBLIC)
    again = TrustedReleases(path)  # the key is gone from the configuration
    assert again.public_key == PUBLIC
    with pytest.raises(SignatureError, match=f"expected a signature by the key {key_id(PUBLIC)}"):
        again.release_for_training(unsigned, manifest=manifest)
    assert again.release_for_training(release(manifest, "3"), manifest=manifest).version == "3"
    path.unlink()  # what remembers it: without that, the attack succeeds
    assert TrustedReleases(path).release_for_training(unsigned, manifest=manifest)


def test_another_key_is_refused_unless_it_takes_the_place_of_a_lost_one(
    manifest: Manifest, path: Path
) -> None:
    TrustedReleases(path, public_key=PUBLIC).follow(said(manifest, 9, "4"), manifest=manifest)
    given, expected = key_id(PUBLIC_NEW), key_id(PUBLIC)
    for replaces in (None, PUBLIC_STRANGER):
        with pytest.raises(SignatureError, match=f"{given} is given.*{expected}; give that one"):
            TrustedReleases(path, public_key=PUBLIC_NEW, replaces=replaces)
    trusted = TrustedReleases(path, public_key=PUBLIC_NEW, replaces=PUBLIC)
    assert trusted.target(manifest) is None  # what the lost key said is forgotten
    begun = said(manifest, 1, "2", key=NEW, keys=(StatementKey(PUBLIC_NEW),))
    trusted.follow(begun, manifest=manifest)
    again = TrustedReleases(path, public_key=PUBLIC_NEW, replaces=PUBLIC)  # done once
    assert in_force(again, manifest) == "2"
    with pytest.raises(SignatureError, match="the public key"):
        TrustedReleases(path, public_key=PUBLIC)
    with pytest.raises(InvalidInputError, match="neither 64 hexadecimal digits"):
        TrustedReleases(path, public_key="nothing")


def test_a_device_that_was_offline_during_the_overlap_follows_the_chain(
    manifest: Manifest, path: Path
) -> None:
    turned = (StatementKey(PUBLIC, 8), StatementKey(PUBLIC_NEW))
    rotation = statement(manifest, 5, "3", keys=turned)
    newest = statement(manifest, 40, "9", NEW, keys=turned)
    TrustedReleases(path, public_key=PUBLIC).follow(said(manifest, 2, "2"), manifest=manifest)
    trusted = TrustedReleases(path, public_key=PUBLIC)
    with pytest.raises(SignatureError, match="statements before it are missing"):
        trusted.follow(pack_lineage([newest]), manifest=manifest)
    data = release(manifest, "9")
    found = trusted.release_for_search(data, pack_lineage([rotation, newest]), manifest=manifest)
    assert (found.version, found.signed_by) == ("9", key_id(PUBLIC_NEW))
    for key in (None, PUBLIC, PUBLIC_NEW):  # an app may name the old one still, or the new
        assert in_force(TrustedReleases(path, public_key=key), manifest) == "9"
    with pytest.raises(SignatureError, match=f"requires signatures by {key_id(PUBLIC_NEW)};"):
        TrustedReleases(path, public_key=PUBLIC)  # and then not the old one any more


# What is in force


def test_an_old_release_is_refused_with_and_without_its_old_statement(
    manifest: Manifest, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    old, old_word = release(manifest, "3"), said(manifest, 6, "3")
    trusted.release_for_training(old, old_word, manifest=manifest)
    new, new_word = release(manifest, "4"), said(manifest, 7, "4")
    trusted.release_for_training(new, new_word, manifest=manifest)
    again = TrustedReleases(path)  # after a restart
    for word, message in (
        (old_word, "number 6 .*this device follows number 7"),
        (b"", "release 3 with SHA-256 .* was offered, statement 7 .* expects release 4"),
        (new_word, "expects release 4"),
    ):
        for take in (again.release_for_training, again.release_for_search):
            with pytest.raises(RollbackError, match=message):
                take(old, word, manifest=manifest)
    assert again.release_for_search(new, manifest=manifest).version == "4"  # as it is known
    # Two checks stand in the way of a replay; without both it succeeds.
    monkeypatch.setattr(trusted_releases, "_check_target", lambda *given: None)
    with pytest.raises(RollbackError):
        again.release_for_training(old, old_word, manifest=manifest)
    monkeypatch.setattr(lineage, "_check_not_replayed", lambda *given: None)
    assert again.release_for_training(old, old_word, manifest=manifest).version == "3"


def test_a_rollback_is_taken_where_a_statement_says_that_it_is_meant(
    manifest: Manifest, path: Path
) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    trusted.follow(said(manifest, 7, "4"), manifest=manifest)
    with pytest.raises(RollbackError, match="does not say that a rollback is meant"):
        trusted.follow(said(manifest, 8, "3"), manifest=manifest)
    back = said(manifest, 8, "3", rollback_from="4")
    assert trusted.release_for_search(release(manifest, "3"), back, manifest=manifest)
    with pytest.raises(RollbackError, match=r"statement 8 .* expects release 3"):
        trusted.release_for_search(release(manifest, "4"), manifest=manifest)
    trusted.follow(said(manifest, 9, "5"), manifest=manifest)
    assert in_force(trusted, manifest) == "5"


def test_of_a_registry_that_makes_no_statements_an_older_release_is_refused(
    manifest: Manifest, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    for version in ("3", "3", "10"):
        trusted.release_for_training(release(manifest, version), manifest=manifest)
    again = TrustedReleases(path)
    with pytest.raises(RollbackError, match=r"release 3 is older than release 10.* in force here"):
        again.release_for_training(release(manifest, "3"), manifest=manifest)
    with pytest.raises(RollbackError, match="puts release 3 in force, older than release 10"):
        again.follow(said(manifest, 1, "3"), manifest=manifest)
    with monkeypatch.context() as unchecked:
        unchecked.setattr(trusted_releases, "_check_newer", lambda *given: None)
        TrustedReleases(path).release_for_training(release(manifest, "4"), manifest=manifest)
    # With the first statement, a release alone does not do any more.
    again.follow(said(manifest, 1, "11"), manifest=manifest)
    with pytest.raises(RollbackError, match="its statement is missing"):
        again.release_for_training(release(manifest, "12"), manifest=manifest)


def test_the_statement_vouches_for_the_file(manifest: Manifest, path: Path) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    trusted.follow(said(manifest, 1, "4"), manifest=manifest)
    forged = pack_adapter(trained_adapter(9), manifest=manifest, version="4", signing_key=STRANGER)
    with pytest.raises(RollbackError, match="release 4 with SHA-256"):
        trusted.release_for_search(forged, manifest=manifest)
    cut = release(manifest, "4")[:-1]
    with pytest.raises(CorruptArtifactError):
        trusted.release_for_search(cut, manifest=manifest)


def test_a_roll_out_is_decided_by_the_devices_secret_and_the_same_after_a_restart(
    manifest: Manifest, tmp_path: Path
) -> None:
    rest = statement(manifest, 1, "3").release
    searching: list[set[int]] = []
    paths = [tmp_path / f"{number}" for number in range(12)]
    for sequence, share in enumerate((200_000, 600_000), 2):
        staged = said(manifest, sequence, "4", roll_out=RollOut(share, bytes(32), rest))
        first = set()
        for number, one in enumerate(paths):
            trusted = TrustedReleases(one, public_key=PUBLIC, secret=number.to_bytes(32))
            trusted.follow(staged, manifest=manifest)
            version = in_force(trusted, manifest)
            assert version == in_force(TrustedReleases(one), manifest)
            if version == "4":
                first.add(number)
            other = "3" if version == "4" else "4"
            trusted.release_for_search(release(manifest, str(version)), manifest=manifest)
            with pytest.raises(RollbackError, match=f"expects release {version}"):
                trusted.release_for_search(release(manifest, other), manifest=manifest)
            # Rounds train from the release in force on every device: the server is not told.
            trusted.release_for_training(release(manifest, "4"), manifest=manifest)
        searching.append(first)
    assert searching[0] < searching[1]
    assert 0 < len(searching[0]) < len(searching[1]) < len(paths)
    taken_back = said(manifest, 4, "3", rollback_from="4")
    trusted.follow(taken_back, manifest=manifest)
    assert in_force(trusted, manifest) == "3"


def test_a_statement_of_another_bundle_is_refused_and_bundles_do_not_mix(
    manifest: Manifest, path: Path
) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    trusted.follow(said(manifest, 5, "4"), manifest=manifest)
    other = manifest._replace(space=Space("another", manifest.space.dimension))
    with pytest.raises(SpaceMismatchError, match="another"):
        trusted.follow(said(other, 9, "5"), manifest=manifest)
    files = dict(manifest.files)
    files[ENCODER_FILE] = files[ENCODER_FILE]._replace(sha256="f" * 64)
    newer = manifest._replace(files=files)
    with pytest.raises(CorruptArtifactError, match="f" * 64):
        trusted.follow(said(newer, 9, "5"), manifest=manifest)
    trusted.follow(said(newer, 1, "2"), manifest=newer)  # the next encoder begins its own count
    assert (in_force(trusted, manifest), in_force(trusted, newer)) == ("4", "2")


def test_an_encoder_takes_what_was_trusted(bundle: Bundle, path: Path) -> None:
    manifest = bundle.manifest
    trusted = TrustedReleases(path, public_key=PUBLIC)
    unsigned = TrustedReleases().release_for_search(release(manifest, "4"), manifest=manifest)
    found = trusted.release_for_search(
        release(manifest, "4"), said(manifest, 3, "4"), manifest=manifest
    )
    encoder = sdk.load(bundle.path)
    encoder.swap_adapter(found)
    assert encoder.version == "4"
    assert sdk.load(bundle.path, adapter=found).version == "4"
    encoder._public_key = PUBLIC  # as of a signed bundle
    encoder.swap_adapter(found)
    with pytest.raises(SignatureError, match="release 4: read without a key"):
        encoder.swap_adapter(unsigned)
    foreign = found._replace(space_id="another")
    with pytest.raises(SpaceMismatchError, match="another"):
        encoder.swap_adapter(foreign)


# The file


def test_the_file_is_for_its_owner_alone_and_what_is_no_file_of_ours_is_refused(
    manifest: Manifest, path: Path
) -> None:
    TrustedReleases(path, public_key=PUBLIC)
    assert path.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(UnsupportedVersionError, match=r"version 2.*up to 1"):
        TrustedReleases(path, public_key=PUBLIC)
    path.write_bytes(b"not a database, but longer than the header of one" * 9)
    with pytest.raises(CorruptArtifactError, match="no release is taken while it lies there"):
        TrustedReleases(path)  # a damaged record is no reason to require less
    path.unlink()
    path.touch()  # what a kill at the first moment leaves
    with pytest.raises(SignatureError, match="found no key in it"):
        TrustedReleases(path)
    assert TrustedReleases(path, public_key=PUBLIC).public_key == PUBLIC
    (path.parent / "file").touch()
    with pytest.raises(ArtifactError, match="cannot be opened"):
        TrustedReleases(path.parent / "file" / "state", public_key=PUBLIC)


def test_devices_processes_and_threads_that_follow_at_once_end_at_the_newest(
    manifest: Manifest, path: Path
) -> None:
    TrustedReleases(path, public_key=PUBLIC)
    words = [said(manifest, number, str(number)) for number in range(1, 25)]
    refused: list[RollbackError] = []

    def follow_some(first: int) -> None:
        trusted = TrustedReleases(path)
        for word in words[first::4]:
            try:
                trusted.follow(word, manifest=manifest)
            except RollbackError as error:  # another was there before
                refused.append(error)

    threads = [threading.Thread(target=follow_some, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert in_force(TrustedReleases(path), manifest) == "24"


KILLED = """
import sys
from pathlib import Path
from pocketquery.client.trusted_releases import TrustedReleases
from pocketquery.sdk.bundle.bundle import Bundle
from tests.client.test_trusted_releases import PUBLIC, said
manifest = Bundle.open(sys.argv[1]).manifest
trusted = TrustedReleases(sys.argv[2], public_key=PUBLIC)
for number in range(1, 2000):
    trusted.follow(said(manifest, number, str(number)), manifest=manifest)
    print(number, flush=True)
"""


def test_a_device_killed_at_any_moment_never_forgets_what_it_followed(
    bundle: Bundle, path: Path
) -> None:
    manifest = bundle.manifest
    for lines in (2, 5):
        told = int(killed_process(KILLED, bundle.path, path, lines=lines)[-1])
        trusted = TrustedReleases(path)
        found = int(in_force(trusted, manifest) or 0)
        assert found >= told >= lines
        with pytest.raises(RollbackError):
            trusted.follow(said(manifest, found - 1, "1"), manifest=manifest)
        path.unlink()  # the next counts from the first again
