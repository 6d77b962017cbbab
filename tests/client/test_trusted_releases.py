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
from pocketquery.sdk.bundle.manifest import ENCODER_FILE, FileEntry, Manifest
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
from tests.sdk.tiny_bundle import (
    default_adapter,
    tiny_files,
    tiny_manifest,
    trained_adapter,
    write_tiny_bundle,
)

OLD, NEW, STRANGER = (bytes([number]) * 32 for number in (1, 2, 3))
MANIFEST: Manifest = tiny_manifest(tiny_files(default_adapter()))
PUBLIC, PUBLIC_NEW, PUBLIC_STRANGER = map(public_key_of, (OLD, NEW, STRANGER))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("trust") / "bundle"
    return Bundle.open(write_tiny_bundle(folder, adapter=default_adapter()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / trusted_releases.TRUSTED_RELEASES


def release(version: str, key: bytes | None = OLD) -> bytes:
    tensors = trained_adapter(int(version))
    return pack_adapter(tensors, manifest=MANIFEST, version=version, signing_key=key)


def statement(sequence: int, version: str, key: bytes = OLD, **changes: Any) -> Statement:
    made = Statement(
        space_id=MANIFEST.space.id,
        encoder_sha256=MANIFEST.files[ENCODER_FILE].sha256,
        sequence=sequence,
        keys=(StatementKey(PUBLIC),),
        release=Target(version, sha256_bytes(release(version))),
    )
    return replace(made, **changes).signed(key)


def said(sequence: int, version: str, **changes: Any) -> bytes:
    return pack_lineage([statement(sequence, version, **changes)])


def in_force(trusted: TrustedReleases, manifest: Manifest = MANIFEST) -> str | None:
    found = trusted.target(manifest)
    return None if found is None else found.version


# Whose signatures


def test_without_a_key_it_takes_what_is_sound_and_keeps_nothing(path: Path) -> None:
    trusted = TrustedReleases(path)
    for version in ("3", "2"):  # an older one is as good as any
        found = trusted.release_for_training(release(version, None), manifest=MANIFEST)
        assert (found.version, found.signed_by) == (version, None)
    trusted.follow(said(7, "2"), manifest=MANIFEST)
    assert trusted.target(MANIFEST) is None
    assert not path.parent.exists()


def test_a_device_that_once_required_signatures_keeps_requiring_them(path: Path) -> None:
    unsigned = release("3", None)
    TrustedReleases(path, public_key=PUBLIC)
    again = TrustedReleases(path)  # the key is gone from the configuration
    assert again.public_key == PUBLIC
    with pytest.raises(SignatureError, match=f"expected a signature by the key {key_id(PUBLIC)}"):
        again.release_for_training(unsigned, manifest=MANIFEST)
    assert again.release_for_training(release("3"), manifest=MANIFEST).version == "3"
    path.unlink()  # what remembers it: without that, the attack succeeds
    assert TrustedReleases(path).release_for_training(unsigned, manifest=MANIFEST)


def test_another_key_is_refused_unless_it_takes_the_place_of_a_lost_one(path: Path) -> None:
    TrustedReleases(path, public_key=PUBLIC).follow(said(9, "4"), manifest=MANIFEST)
    given, expected = key_id(PUBLIC_NEW), key_id(PUBLIC)
    for replaces in (None, PUBLIC_STRANGER):
        with pytest.raises(SignatureError, match=f"{given} is given.*{expected}; give that one"):
            TrustedReleases(path, public_key=PUBLIC_NEW, replaces=replaces)
    trusted = TrustedReleases(path, public_key=PUBLIC_NEW, replaces=PUBLIC)
    assert trusted.target(MANIFEST) is None  # what the lost key said is forgotten
    begun = said(1, "2", key=NEW, keys=(StatementKey(PUBLIC_NEW),))
    trusted.follow(begun, manifest=MANIFEST)
    again = TrustedReleases(path, public_key=PUBLIC_NEW, replaces=PUBLIC)  # done once
    assert in_force(again) == "2"
    with pytest.raises(SignatureError, match="the public key"):
        TrustedReleases(path, public_key=PUBLIC)
    with pytest.raises(InvalidInputError, match="neither 64 hexadecimal digits"):
        TrustedReleases(path, public_key="nothing")


def test_a_device_that_was_offline_during_the_overlap_follows_the_chain(path: Path) -> None:
    turned = (StatementKey(PUBLIC, 8), StatementKey(PUBLIC_NEW))
    rotation = statement(5, "3", keys=turned)
    newest = statement(40, "9", NEW, keys=turned)
    TrustedReleases(path, public_key=PUBLIC).follow(said(2, "2"), manifest=MANIFEST)
    trusted = TrustedReleases(path, public_key=PUBLIC)
    with pytest.raises(SignatureError, match="statements before it are missing"):
        trusted.follow(pack_lineage([newest]), manifest=MANIFEST)
    data = release("9")
    found = trusted.release_for_search(data, pack_lineage([rotation, newest]), manifest=MANIFEST)
    assert (found.version, found.signed_by) == ("9", key_id(PUBLIC_NEW))
    for key in (None, PUBLIC, PUBLIC_NEW):  # an app may name the old one still, or the new
        assert in_force(TrustedReleases(path, public_key=key)) == "9"
    with pytest.raises(SignatureError, match=f"requires signatures by {key_id(PUBLIC_NEW)};"):
        TrustedReleases(path, public_key=PUBLIC)  # and then not the old one any more


# What is in force


def test_a_replayed_release_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    old, old_word = release("3"), said(6, "3")
    trusted.release_for_training(old, old_word, manifest=MANIFEST)
    new, new_word = release("4"), said(7, "4")
    trusted.release_for_training(new, new_word, manifest=MANIFEST)
    again = TrustedReleases(path)  # after a restart
    for word, message in (
        (old_word, "number 6 .*this device follows number 7"),
        (b"", "release 3 with SHA-256 .* was offered, statement 7 .* expects release 4"),
        (new_word, "expects release 4"),
    ):
        for take in (again.release_for_training, again.release_for_search):
            with pytest.raises(RollbackError, match=message):
                take(old, word, manifest=MANIFEST)
    assert again.release_for_search(new, manifest=MANIFEST).version == "4"  # as it is known
    # Two checks stand in the way of a replay; without both it succeeds.
    monkeypatch.setattr(trusted_releases, "_check_target", lambda *given: None)
    with pytest.raises(RollbackError):
        again.release_for_training(old, old_word, manifest=MANIFEST)
    monkeypatch.setattr(lineage, "_check_not_replayed", lambda *given: None)
    assert again.release_for_training(old, old_word, manifest=MANIFEST).version == "3"


def test_a_rollback_is_taken_where_a_statement_says_that_it_is_meant(path: Path) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    trusted.follow(said(7, "4"), manifest=MANIFEST)
    with pytest.raises(RollbackError, match="does not say that a rollback is meant"):
        trusted.follow(said(8, "3"), manifest=MANIFEST)
    back = said(8, "3", rollback_from="4")
    assert trusted.release_for_search(release("3"), back, manifest=MANIFEST)
    with pytest.raises(RollbackError, match=r"statement 8 .* expects release 3"):
        trusted.release_for_search(release("4"), manifest=MANIFEST)
    trusted.follow(said(9, "5"), manifest=MANIFEST)
    assert in_force(trusted) == "5"


def test_without_statements_nothing_older_is_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    for version in ("3", "3", "10"):
        trusted.release_for_training(release(version), manifest=MANIFEST)
    again = TrustedReleases(path)
    with pytest.raises(RollbackError, match=r"release 3 is older than release 10.* in force here"):
        again.release_for_training(release("3"), manifest=MANIFEST)
    with pytest.raises(RollbackError, match="puts release 3 in force, older than release 10"):
        again.follow(said(1, "3"), manifest=MANIFEST)
    with monkeypatch.context() as unchecked:
        unchecked.setattr(trusted_releases, "_check_newer", lambda *given: None)
        TrustedReleases(path).release_for_training(release("4"), manifest=MANIFEST)
    # With the first statement, a release alone does not do any more.
    again.follow(said(1, "11"), manifest=MANIFEST)
    with pytest.raises(RollbackError, match="its statement is missing"):
        again.release_for_training(release("12"), manifest=MANIFEST)


def test_the_statement_vouches_for_the_file(path: Path) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    trusted.follow(said(1, "4"), manifest=MANIFEST)
    forged = pack_adapter(trained_adapter(9), manifest=MANIFEST, version="4", signing_key=STRANGER)
    with pytest.raises(RollbackError, match="release 4 with SHA-256"):
        trusted.release_for_search(forged, manifest=MANIFEST)
    cut = release("4")[:-1]
    with pytest.raises(CorruptArtifactError):
        trusted.release_for_search(cut, manifest=MANIFEST)


def test_a_devices_secret_decides_a_roll_out_for_good(
    tmp_path: Path,
) -> None:
    rest = statement(1, "3").release
    searching: list[set[int]] = []
    paths = [tmp_path / f"{number}" for number in range(12)]
    for sequence, share in enumerate((200_000, 600_000), 2):
        staged = said(sequence, "4", roll_out=RollOut(share, bytes(32), rest))
        first = set()
        for number, one in enumerate(paths):
            trusted = TrustedReleases(one, public_key=PUBLIC, secret=number.to_bytes(32))
            trusted.follow(staged, manifest=MANIFEST)
            version = in_force(trusted)
            assert version == in_force(TrustedReleases(one))
            if version == "4":
                first.add(number)
            other = "3" if version == "4" else "4"
            trusted.release_for_search(release(str(version)), manifest=MANIFEST)
            with pytest.raises(RollbackError, match=f"expects release {version}"):
                trusted.release_for_search(release(other), manifest=MANIFEST)
            # Rounds train from the release in force on every device: the server is not told.
            trusted.release_for_training(release("4"), manifest=MANIFEST)
        searching.append(first)
    assert searching[0] < searching[1]
    assert 0 < len(searching[0]) < len(searching[1]) < len(paths)
    taken_back = said(4, "3", rollback_from="4")
    trusted.follow(taken_back, manifest=MANIFEST)
    assert in_force(trusted) == "3"


def test_a_statement_of_another_bundle_is_refused_and_bundles_do_not_mix(path: Path) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    trusted.follow(said(5, "4"), manifest=MANIFEST)
    with pytest.raises(SpaceMismatchError, match="another"):
        trusted.follow(said(9, "5", space_id="another"), manifest=MANIFEST)
    encoder = FileEntry("f" * 64, 1)
    newer = MANIFEST._replace(files=dict(MANIFEST.files) | {ENCODER_FILE: encoder})
    with pytest.raises(CorruptArtifactError, match=encoder.sha256):
        trusted.follow(said(9, "5", encoder_sha256=encoder.sha256), manifest=MANIFEST)
    trusted.follow(
        said(1, "2", encoder_sha256=encoder.sha256), manifest=newer
    )  # the next encoder begins its own count
    assert (in_force(trusted), in_force(trusted, newer)) == ("4", "2")


def test_an_encoder_takes_what_was_trusted(bundle: Bundle, path: Path) -> None:
    trusted = TrustedReleases(path, public_key=PUBLIC)
    unsigned = TrustedReleases().release_for_search(release("4"), manifest=MANIFEST)
    found = trusted.release_for_search(release("4"), said(3, "4"), manifest=MANIFEST)
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


def test_the_file_is_for_its_owner_alone_and_what_is_no_file_of_ours_is_refused(path: Path) -> None:
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


def test_devices_processes_and_threads_that_follow_at_once_end_at_the_newest(path: Path) -> None:
    TrustedReleases(path, public_key=PUBLIC)
    words = [said(number, str(number)) for number in range(1, 25)]
    refused: list[RollbackError] = []

    def follow_some(first: int) -> None:
        trusted = TrustedReleases(path)
        for word in words[first::4]:
            try:
                trusted.follow(word, manifest=MANIFEST)
            except RollbackError as error:  # another was there before
                refused.append(error)

    threads = [threading.Thread(target=follow_some, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert in_force(TrustedReleases(path)) == "24"


KILLED = """
import sys
from pathlib import Path
from pocketquery.client.trusted_releases import TrustedReleases
from tests.client.test_trusted_releases import MANIFEST, PUBLIC, said
trusted = TrustedReleases(sys.argv[1], public_key=PUBLIC)
for number in range(1, 2000):
    trusted.follow(said(number, str(number)), manifest=MANIFEST)
    print(number, flush=True)
"""


def test_a_device_killed_at_any_moment_never_forgets_what_it_followed(path: Path) -> None:
    for lines in (2, 5):
        told = int(killed_process(KILLED, path, lines=lines)[-1])
        trusted = TrustedReleases(path)
        found = int(in_force(trusted) or 0)
        assert found >= told >= lines
        with pytest.raises(RollbackError):
            trusted.follow(said(found - 1, "1"), manifest=MANIFEST)
        path.unlink()  # the next counts from the first again
