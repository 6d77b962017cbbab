"""The statements a registry makes of its changes, as a device reads them."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pocketquery.client.trusted_releases import TrustedReleases
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.lineage import parse_lineage
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.bundle.statement import Statement
from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    InvalidInputError,
    RollbackError,
    SignatureError,
)
from pocketquery.sdk.files import sha256_bytes
from pocketquery.server.federation.releases import statements
from pocketquery.server.federation.releases.publishing import RegistryPublisher
from pocketquery.server.federation.releases.registry import REGISTRY_FILE, Registry
from tests.sdk.tiny_bundle import trained_adapter
from tests.server.federation.releases.test_command import run
from tests.server.federation.reports import ACCEPTED, REJECTED

OLD, NEW, NEXT = (bytes([number]) * 32 for number in (1, 2, 3))
IDS = {key: key_id(public_key_of(key)) for key in (OLD, NEW, NEXT)}


@pytest.fixture
def registry(bundle: Bundle, tmp_path: Path) -> Registry:
    return Registry.of_bundle(tmp_path / "releases", bundle, signing_key=OLD)


@pytest.fixture
def device() -> TrustedReleases:
    return TrustedReleases(public_key=public_key_of(OLD))


@pytest.fixture
def publish(registry: Registry, bundle: Bundle) -> Callable[..., str]:
    def publish(key: bytes | None = OLD, share: float = 1.0) -> str:
        number = len(registry.history()) + 1
        return registry.publish(
            trained_adapter(number),
            ACCEPTED,
            manifest=bundle.manifest,
            parent=registry.current().version,
            signing_key=key,
            share=share,
        ).version

    return publish


def summary(registry: Registry) -> list[tuple[int, str, str | None, int | None]]:
    return [
        (
            one.sequence,
            one.release.version,
            one.rollback_from,
            None if one.roll_out is None else one.roll_out.share,
        )
        for one in registry.statements()
    ]


def ends(registry: Registry) -> list[int | None]:
    """Up to which statements the keys of the newest may sign."""
    return [one.until for one in registry.statements()[-1].keys]


def ends_after(registry: Registry, old: bytes, new: bytes, *, overlap: int) -> list[int | None]:
    """The same, after a rotation."""
    registry.rotate_key(old, new, overlap=overlap)
    return ends(registry)


def test_without_a_key_a_registry_states_nothing(bundle: Bundle, tmp_path: Path) -> None:
    registry = Registry.of_bundle(tmp_path / "r", bundle)
    registry.publish(trained_adapter(2), None, manifest=bundle.manifest, parent="1")
    registry.rollback()
    assert (registry.lineage(), registry.statements()) == (b"", [])


def test_each_change_is_stated_and_a_device_follows_all(
    registry: Registry, bundle: Bundle, publish: Callable[..., str], device: TrustedReleases
) -> None:
    manifest = bundle.manifest

    def now() -> tuple[str, str | None]:
        device.release_for_search(registry.read(), registry.lineage(), manifest=manifest)
        found = device.target(manifest)
        assert found is not None
        return found.version, registry.statements()[-1].rollback_from

    assert now() == ("1", None)
    publish()
    registry.publish(trained_adapter(9), REJECTED, manifest=manifest, parent="2")  # says nothing
    assert now() == ("2", None)
    publish()
    assert now() == ("4", None)
    registry.rollback("1", signing_key=OLD)
    assert now() == ("1", "4")
    registry.rollback("2", signing_key=OLD)
    assert now() == ("2", "4")
    publish()
    assert now() == ("5", None)
    registry.rollback("2", signing_key=OLD)
    registry.rollback("5", signing_key=OLD)
    assert now() == ("5", None)
    for again in (registry.rollback("5", signing_key=OLD), registry.current()):
        assert again.version == "5"  # done again, it says nothing again
    assert [one.sequence for one in registry.statements()] == list(range(1, 9))
    assert [one.release.sha256 for one in registry.statements()[1:3]] == [
        sha256_bytes(registry.read(version)) for version in ("2", "4")
    ]
    registry.check()


def test_a_registry_from_before_begins_with_what_is_in_force(
    bundle: Bundle, tmp_path: Path, device: TrustedReleases
) -> None:
    registry = Registry.of_bundle(tmp_path / "r", bundle)
    registry.publish(trained_adapter(2), None, manifest=bundle.manifest, parent="1")
    data = registry.read()
    Registry.of_bundle(registry.folder, bundle, signing_key=OLD)
    assert summary(registry) == [(1, "2", None, None)]
    Registry.of_bundle(registry.folder, bundle, signing_key=OLD)
    assert len(registry.statements()) == 1
    # The file itself is not signed; the statement vouches for it.
    found = device.release_for_search(data, registry.lineage(), manifest=bundle.manifest)
    assert (found.version, found.signed_by) == ("2", IDS[OLD])
    other = Registry.of_bundle(tmp_path / "s", bundle)
    other.publish(trained_adapter(2), None, manifest=bundle.manifest, parent="1")
    other.rollback(signing_key=OLD)
    assert summary(other) == [(1, "2", None, None), (2, "1", "2", None)]


def test_once_signed_nothing_changes_without_a_key_or_with_another(
    registry: Registry, bundle: Bundle, publish: Callable[..., str]
) -> None:
    publish()
    before = (registry.history(), summary(registry))
    for change in (publish, lambda key=None: registry.rollback(signing_key=key)):
        with pytest.raises(InvalidInputError, match=f"signed by {IDS[OLD]}.*--signing-key"):
            change(None)
        with pytest.raises(SignatureError, match=f"{IDS[NEW]}; statement 3 .* by {IDS[OLD]}"):
            change(NEW)
    with pytest.raises(InvalidInputError, match="give that signing key"):
        RegistryPublisher(bundle, registry.folder, None)  # before rounds are run for nothing
    with pytest.raises(SignatureError):
        RegistryPublisher(bundle, registry.folder, None, signing_key=NEW)
    assert (registry.history(), summary(registry)) == before
    with pytest.raises(InvalidInputError, match="there is no signing key"):
        RegistryPublisher(bundle, registry.folder / "new", None, share=0.5)
    with pytest.raises(InvalidInputError, match="share is 2"):
        RegistryPublisher(bundle, registry.folder, None, signing_key=OLD, share=2)


def test_a_release_is_rolled_out_by_shares(
    registry: Registry, publish: Callable[..., str], device: TrustedReleases, bundle: Bundle
) -> None:
    publish()
    publish(share=0.1)
    publish()  # takes the place of the one before, for the same devices
    assert summary(registry)[1:] == [
        (2, "2", None, None),
        (3, "3", None, 100_000),
        (4, "4", None, 100_000),
    ]
    first, second = (one.roll_out for one in registry.statements()[2:])
    assert first is not None
    assert second is not None
    assert first.salt == second.salt
    assert (first.rest.version, second.rest.version) == ("2", "2")
    for share, message in ((0.05, "has reached a share of 0.1, 0.05 is less"), (7, "from 0 to 1")):
        with pytest.raises(InvalidInputError, match=message):
            registry.roll_out("4", share, signing_key=OLD)
    with pytest.raises(InvalidInputError, match=r"older than release 4, .* releases rollback"):
        registry.roll_out("3", 0.5, signing_key=OLD)
    assert registry.roll_out("4", 0.5, signing_key=OLD).in_force
    registry.roll_out("4", 0.5, signing_key=OLD)
    registry.roll_out("4", 1, signing_key=OLD)
    registry.roll_out("4", 1, signing_key=OLD)
    assert summary(registry)[4:] == [(5, "4", None, 500_000), (6, "4", None, None)]
    with pytest.raises(InvalidInputError, match="in force for every device"):
        registry.roll_out("4", 0.5, signing_key=OLD)
    publish(share=0.25)
    third = registry.statements()[-1].roll_out
    assert third is not None
    assert third.salt != first.salt  # others are first
    registry.rollback(signing_key=OLD)  # what the rest of the devices has
    registry.roll_out("5", 0.5, signing_key=OLD)  # another try
    assert summary(registry)[6:] == [
        (7, "5", None, 250_000),
        (8, "4", "5", None),
        (9, "5", None, 500_000),
    ]
    registry.check()
    device.follow(registry.lineage(), manifest=bundle.manifest)
    found = device.target(bundle.manifest)
    assert found is not None
    assert found.version in ("4", "5")


def test_keys_follow_one_another_and_each_device_can_follow(
    registry: Registry, bundle: Bundle, publish: Callable[..., str], device: TrustedReleases
) -> None:
    manifest = bundle.manifest
    device.follow(registry.lineage(), manifest=manifest)
    publish()
    turned = registry.rotate_key(OLD, NEW, overlap=2)
    assert registry.rotate_key(OLD, NEW, overlap=2) == turned  # done again
    assert turned.signatures.keys() == {IDS[OLD], IDS[NEW]}
    assert [one.until for one in turned.keys] == [5, None]
    with pytest.raises(
        SignatureError, match=f"{IDS[OLD]} is being replaced .* sign with {IDS[NEW]}"
    ):
        registry.rotate_key(OLD, NEXT)
    publish(OLD)
    publish(NEW)
    with pytest.raises(SignatureError, match=f"{IDS[OLD]}, which could sign up to statement 5;"):
        publish(OLD)
    registry.rotate_key(NEW, NEXT, overlap=0)
    with pytest.raises(SignatureError):
        publish(NEW)
    publish(NEXT)
    with pytest.raises(InvalidInputError, match="overlap is -1"):
        registry.rotate_key(NEXT, OLD, overlap=-1)
    registry.check()
    sent = parse_lineage(registry.lineage())
    assert [one.sequence for one in sent] == [3, 6, 7]  # the changes of the keys, and the newest
    device.follow(registry.lineage(), manifest=manifest)  # offline since the first statement
    for key in (OLD, NEW, NEXT):
        fresh = TrustedReleases(public_key=public_key_of(key))
        fresh.follow(registry.lineage(), manifest=manifest)
        assert fresh.target(manifest) == device.target(manifest)
    # What a thief of the old key states is refused by whoever has seen its end.
    forged = Statement.parse(sent[-1].to_bytes()).signed(OLD)
    forged = Statement(**vars(forged) | {"sequence": 8, "signatures": {}}).signed(OLD)
    with pytest.raises(SignatureError, match=f"signed by {IDS[OLD]}, expected one of {IDS[NEXT]}"):
        device.follow(forged.to_bytes() + b"\n", manifest=manifest)


@pytest.mark.parametrize("signing", [OLD, NEW], ids=["by the old key", "by the new key"])
def test_a_key_that_is_stolen_in_its_overlap_is_cut_off_by_rotating_again(
    registry: Registry,
    bundle: Bundle,
    publish: Callable[..., str],
    device: TrustedReleases,
    signing: bytes,
) -> None:
    registry.rotate_key(OLD, NEW)
    assert ends(registry) == [12, None]
    assert ends_after(registry, signing, NEW, overlap=10) == [12, None]  # no longer than it was
    publish(OLD)
    assert ends_after(registry, signing, NEW, overlap=5) == [9, None]
    assert ends_after(registry, signing, NEW, overlap=5) == [9, None]
    assert ends_after(registry, signing, NEW, overlap=0) == [None]
    cut = registry.statements()[-1]
    assert (cut.sequence, list(cut.signatures)) == (5, [IDS[NEW]])
    assert registry.rotate_key(OLD, NEW, overlap=0) == cut  # done again, it says nothing again
    publish(NEW)
    registry.check()
    device.follow(registry.lineage(), manifest=bundle.manifest)
    forged = replace(registry.statements()[-1], sequence=7).signed(OLD)
    with pytest.raises(SignatureError, match=f"signed by {IDS[OLD]}, expected one of {IDS[NEW]}"):
        device.follow(forged.to_bytes() + b"\n", manifest=bundle.manifest)


def test_a_key_that_may_sign_one_more_statement_is_cut_off_by_that(registry: Registry) -> None:
    registry.rotate_key(OLD, NEW, overlap=1)
    assert ends_after(registry, OLD, NEW, overlap=0) == [None]
    assert len(registry.statements()) == 3
    assert ends_after(registry, OLD, NEW, overlap=0) == [None]
    assert len(registry.statements()) == 3


def test_a_rotation_ends_longer_overlaps_before_it(registry: Registry) -> None:
    registry.rotate_key(OLD, NEW)
    assert ends_after(registry, NEW, NEXT, overlap=2) == [5, 5, None]
    assert ends_after(registry, NEXT, OLD, overlap=20) == [5, 24, None]  # it may sign again
    assert ends_after(registry, OLD, NEW, overlap=0) == [None]
    registry.check()


def test_one_key_for_both_is_refused_where_that_would_change_nothing(registry: Registry) -> None:
    with pytest.raises(InvalidInputError, match="the one that signs now, and no other may sign"):
        registry.rotate_key(OLD, OLD)
    assert len(registry.statements()) == 1


def test_too_many_rotations_are_refused_before_no_device_can_read_them(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "_LARGEST_CHAIN", 1900)
    registry.rotate_key(OLD, NEW, overlap=0)
    registry.rotate_key(NEW, NEXT, overlap=0)
    with pytest.raises(InvalidInputError, match="begin a registry in another folder"):
        registry.rotate_key(NEXT, OLD, overlap=0)
    assert len(registry.statements()) == 3
    registry.check()


def test_a_rotation_that_devices_could_not_read_is_refused(registry: Registry) -> None:
    with pytest.raises(InvalidInputError, match=r"the new key is .*, the one that signs now"):
        statements.rotated(registry.statements()[-1], OLD, OLD, 0)
    keys = [bytes([number]) * 32 for number in range(1, 18)]
    for old, new in itertools.pairwise(keys[:16]):
        registry.rotate_key(old, new, overlap=100)
    with pytest.raises(InvalidInputError, match="16 keys may still sign, expected fewer than 16"):
        registry.rotate_key(keys[15], keys[16], overlap=100)
    registry.check()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ("DELETE FROM statements WHERE sequence = 2", CorruptArtifactError, r"statements \[1, 3\]"),
        ("UPDATE statements SET data = (SELECT data FROM statements WHERE sequence = 2)"
         " WHERE sequence = 3", ArtifactError, "statement"),
        ("UPDATE statements SET data = CAST(replace(CAST(data AS TEXT), '\"version\":\"3\"',"
         " '\"version\":\"4\"') AS BLOB) WHERE sequence = 3", SignatureError, "is not right"),
        ("UPDATE statements SET data = CAST(data AS TEXT)", CorruptArtifactError, "found str"),
        ("INSERT INTO in_force (version, since) VALUES ('2', 0)", CorruptArtifactError,
         "statement 3 puts release 3 in force, release 2 is recorded"),
    ],
)  # fmt: skip
def test_a_registry_somebody_changed_is_noticed(
    registry: Registry,
    publish: Callable[..., str],
    change: str,
    error: type[Exception],
    message: str,
) -> None:
    publish()
    publish()
    registry.check()
    with sqlite3.connect(registry.folder / REGISTRY_FILE) as connection:
        connection.execute(change)
    connection.close()
    with pytest.raises(error, match=message):
        registry.check()


def test_a_registry_set_back_to_a_copy_is_noticed_by_devices(
    registry: Registry, bundle: Bundle, publish: Callable[..., str], device: TrustedReleases
) -> None:
    publish()
    copy = (registry.folder / REGISTRY_FILE).read_bytes()
    publish()
    device.follow(registry.lineage(), manifest=bundle.manifest)
    (registry.folder / REGISTRY_FILE).write_bytes(copy)
    with pytest.raises(RollbackError, match=r"number 2 .* this device follows number 3"):
        device.follow(registry.lineage(), manifest=bundle.manifest)
    registry.rollback(signing_key=OLD)
    with pytest.raises(RollbackError, match="has another statement 3"):
        device.follow(registry.lineage(), manifest=bundle.manifest)


# The command line


def test_the_commands_state_and_show_it(
    registry: Registry,
    publish: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ["--registry", str(registry.folder)]
    old, new = ["--signing-key", OLD.hex()], ["--signing-key", NEW.hex()]
    publish()
    publish(share=0.1)
    run("roll-out", "3", "--share", "0.5", *where, *old)
    assert capsys.readouterr().out == (
        f"statement 4: release 3 in force for 0.5 of the devices, 2 for the rest, keys {IDS[OLD]}\n"
    )
    run("rollback", *where, *old)
    assert capsys.readouterr().out.startswith("release 2: in force\n")
    run("rotate-key", "--new-key", NEW.hex(), "--overlap", "3", *where, *old)
    expected = (
        "statement 6: release 2 in force, rolled back from 3, "
        f"keys {IDS[OLD]} (up to statement 9), {IDS[NEW]}\n"
    )
    assert capsys.readouterr().out == expected
    run("roll-out", "3", "--share", "1", "--json", *where, *new)
    assert json.loads(capsys.readouterr().out)["signed"]["sequence"] == 7
    run("lineage", "--output", str(tmp_path / "lineage.jsonl"), *where)
    assert capsys.readouterr().out.splitlines()[5] + "\n" == expected
    assert (tmp_path / "lineage.jsonl").read_bytes() == registry.lineage()
    run("lineage", "--output", str(tmp_path / "lineage.jsonl"), *where)  # in its own place
    (tmp_path / "queries.jsonl").write_text('{"query": "of somebody"}\n')
    with pytest.raises(InvalidInputError, match=r"queries\.jsonl exists and is not a lineage"):
        run("lineage", "--output", str(tmp_path / "queries.jsonl"), *where)
    assert (tmp_path / "queries.jsonl").read_text() == '{"query": "of somebody"}\n'
    capsys.readouterr()
    run("lineage", "--json", *where)
    said = json.loads(capsys.readouterr().out)["statements"]
    assert [one["release"]["version"] for one in said] == ["1", "2", "3", "3", "2", "2", "3"]
    with pytest.raises(InvalidInputError, match="give that signing key"):
        run("rollback", *where)


def test_a_registry_that_was_never_signed_has_no_lineage(bundle: Bundle, tmp_path: Path) -> None:
    Registry.of_bundle(tmp_path / "r", bundle)
    with pytest.raises(InvalidInputError, match="never signed"):
        run("lineage", "--registry", str(tmp_path / "r"))
