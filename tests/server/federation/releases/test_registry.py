from __future__ import annotations

import dataclasses
import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.adapter import parse_adapter, read_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import ENCODER_FILE, Space
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    SignatureError,
    SpaceMismatchError,
    UnsupportedVersionError,
)
from pocketquery.server.federation.releases.registry import REGISTRY_FILE, Registry
from tests.sdk.tiny_bundle import UP, default_adapter, trained_adapter, write_tiny_bundle
from tests.server.federation.reports import ACCEPTED, REJECTED

PRIVATE = bytes(range(32))


@pytest.fixture
def registry(bundle: Bundle, tmp_path: Path) -> Registry:
    return Registry.of_bundle(tmp_path / "releases", bundle, clock=lambda: 1_700_000_000.0)


def grown(registry: Registry, bundle: Bundle) -> Registry:
    """1 accepted, 2 accepted, 3 rejected, 4 in force."""
    manifest = bundle.manifest
    registry.publish(trained_adapter(2), ACCEPTED, manifest=manifest, parent="1")
    registry.publish(trained_adapter(3), REJECTED, manifest=manifest, parent="2")
    registry.publish(trained_adapter(4), ACCEPTED, manifest=manifest, parent="2")
    return registry


def versions(registry: Registry) -> list[tuple[str, str | None, str]]:
    return [(one.version, one.parent, one.status) for one in registry.history()]


def test_it_begins_with_the_bundles_own_adapter(registry: Registry, bundle: Bundle) -> None:
    assert versions(registry) == [("1", None, "in force")]
    assert registry.current().recorded_at == 1_700_000_000.0
    assert registry.current().report is None
    plain, released = sdk.load(bundle.path), sdk.load(bundle.path, adapter=registry.read())
    assert np.array_equal(plain.encode("the sea"), released.encode("the sea"))


def test_opened_again_for_the_same_bundle_it_is_the_same(
    registry: Registry, bundle: Bundle
) -> None:
    grown(registry, bundle)
    again = Registry.of_bundle(registry.folder, bundle)
    assert again.history() == registry.history() == Registry.open(str(registry.folder)).history()


def test_an_accepted_candidate_is_in_force_and_devices_can_take_it(
    registry: Registry, bundle: Bundle
) -> None:
    release = registry.publish(trained_adapter(2), ACCEPTED, manifest=bundle.manifest, parent="1")
    assert (release.version, release.parent, release.status) == ("2", "1", "in force")
    assert release == registry.current() == registry.get("2")
    assert registry.get("1").status == "accepted"
    assert release.report == json.loads(json.dumps(ACCEPTED.to_dict()))
    data = registry.read()
    assert len(data) == release.bytes
    found = read_adapter(data, manifest=bundle.manifest)
    assert (found.version, found.parent_version) == ("2", "1")
    encoder = sdk.load(bundle.path)
    encoder.swap_adapter(data)
    assert encoder.version == "2"


def test_a_rejected_candidate_is_recorded_and_the_old_stays_in_force(
    registry: Registry, bundle: Bundle
) -> None:
    before = registry.read()
    release = registry.publish(trained_adapter(2), REJECTED, manifest=bundle.manifest, parent="1")
    assert (release.version, release.status, release.bytes) == ("2", "rejected", None)
    assert release.report is not None
    assert release.report["reason"] == "mean_fell"
    assert registry.current().version == "1"
    assert registry.read() == before
    with pytest.raises(InvalidInputError, match=r"release 2 was rejected by the gate \(mean_fell"):
        registry.read("2")


def test_numbers_grow_and_parents_are_those_in_force(registry: Registry, bundle: Bundle) -> None:
    assert versions(grown(registry, bundle)) == [
        ("1", None, "accepted"),
        ("2", "1", "accepted"),
        ("3", "2", "rejected"),
        ("4", "2", "in force"),
    ]
    registry.check()


def test_a_candidate_the_gate_could_not_measure_is_recorded(
    registry: Registry, bundle: Bundle
) -> None:
    broken = default_adapter() | {UP: np.full((16, 2), np.nan, np.float32)}
    report = dataclasses.replace(
        REJECTED, sets={"clean": dataclasses.replace(REJECTED.sets["clean"], after=float("nan"))}
    )
    release = registry.publish(broken, report, manifest=bundle.manifest, parent="1")
    assert release.status == "rejected"
    assert release.report is not None
    assert release.report["after"] is None
    with pytest.raises(InvalidInputError, match="NaN"):
        registry.publish(broken, ACCEPTED, manifest=bundle.manifest, parent="1")
    assert registry.current().version == "1"


def test_the_same_candidate_is_recorded_once(registry: Registry, bundle: Bundle) -> None:
    grown(registry, bundle)
    before = registry.history()
    for seed, report, parent in ((4, ACCEPTED, "2"), (3, REJECTED, "2"), (2, ACCEPTED, "1")):
        again = registry.publish(
            trained_adapter(seed), report, manifest=bundle.manifest, parent=parent
        )
        assert again.version == str(seed)
    assert registry.history() == before


def test_what_was_judged_against_another_release_is_refused(
    registry: Registry, bundle: Bundle
) -> None:
    grown(registry, bundle)
    with pytest.raises(InvalidInputError, match="follows release 2, release 4 is in force"):
        registry.publish(trained_adapter(9), ACCEPTED, manifest=bundle.manifest, parent="2")


def test_rolling_back_puts_the_old_file_in_force(registry: Registry, bundle: Bundle) -> None:
    grown(registry, bundle)
    old = registry.read("2")
    release = registry.rollback()
    assert (release.version, release.status) == ("2", "in force")
    assert registry.read() == old
    assert registry.rollback("2") == release  # it is already
    assert registry.rollback("4").in_force  # and forwards again
    assert registry.rollback("1").version == "1"
    with pytest.raises(InvalidInputError, match="release 1 is the first"):
        registry.rollback()
    after = registry.publish(trained_adapter(5), ACCEPTED, manifest=bundle.manifest, parent="1")
    assert (after.version, after.parent) == ("5", "1")
    assert registry.rollback().version == "1"


@pytest.mark.parametrize("version", ["7", "", "02", "1; DROP TABLE releases"])
def test_rolling_back_to_an_unknown_version_lists_the_known(
    registry: Registry, bundle: Bundle, version: str
) -> None:
    grown(registry, bundle)
    known = r"known are 1 \(accepted\), 2 \(accepted\), 3 \(rejected\), 4 \(in force\)"
    for call in (registry.rollback, registry.get, registry.read):
        with pytest.raises(InvalidInputError, match=known):
            call(version)
    with pytest.raises(InvalidInputError, match=f"was rejected.*{known}"):
        registry.rollback("3")
    assert registry.current().version == "4"


def test_releases_are_signed(bundle: Bundle, tmp_path: Path) -> None:
    registry = Registry.of_bundle(tmp_path / "r", bundle, signing_key=PRIVATE)
    registry.publish(
        trained_adapter(2), None, manifest=bundle.manifest, parent="1", signing_key=PRIVATE
    )
    for version in ("1", "2"):
        data = registry.read(version)
        read_adapter(data, manifest=bundle.manifest, public_key=public_key_of(PRIVATE))
        with pytest.raises(SignatureError):
            read_adapter(data, manifest=bundle.manifest, public_key=public_key_of(b"\x01" * 32))


def test_versions_follow_the_bundles_own(tmp_path: Path) -> None:
    for own, following in (("41", "42"), ("2026-11", "2026-11.1")):
        path = write_tiny_bundle(
            tmp_path / own, adapter=default_adapter(), encoder_version=own, parent_version="0"
        )
        other = Bundle.open(path)
        registry = Registry.of_bundle(tmp_path / f"r{own}", other)
        release = registry.publish(trained_adapter(2), None, manifest=other.manifest, parent=own)
        assert (release.version, release.parent) == (following, own)
        assert registry.get(own).parent == "0"
        registry.rollback(own)
        with pytest.raises(InvalidInputError, match=f"release {own} is the first"):
            registry.rollback()


def test_a_registry_of_another_bundle_is_named_with_both_ids(
    registry: Registry, bundle: Bundle, tmp_path: Path
) -> None:
    elsewhere = write_tiny_bundle(
        tmp_path / "b", adapter=default_adapter(), space=Space("space-other", 16)
    )
    with pytest.raises(SpaceMismatchError, match=f"{bundle.manifest.space.id}.*space-other"):
        Registry.of_bundle(registry.folder, Bundle.open(elsewhere))
    files = dict(bundle.manifest.files)
    files[ENCODER_FILE] = files[ENCODER_FILE]._replace(sha256="0" * 64)
    manifest = bundle.manifest._replace(files=files)
    expected = f"{bundle.manifest.files[ENCODER_FILE].sha256}.*{'0' * 64}"
    with pytest.raises(CorruptArtifactError, match=expected):
        registry.publish(trained_adapter(2), None, manifest=manifest, parent="1")


def test_a_bundle_without_an_adapter_has_no_releases(tmp_path: Path) -> None:
    path = write_tiny_bundle(tmp_path / "b")
    with pytest.raises(InvalidInputError, match=r"has no adapter\.safetensors"):
        Registry.of_bundle(tmp_path / "r", Bundle.open(path))
    with pytest.raises(ArtifactNotFoundError, match="found no registry"):
        Registry.open(tmp_path / "r")


def test_what_is_no_registry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match="found no registry"):
        Registry.open(tmp_path)
    path = tmp_path / REGISTRY_FILE
    path.touch()  # what a kill at the first moment leaves
    with pytest.raises(ArtifactNotFoundError, match="found no registry"):
        Registry.open(tmp_path)
    path.write_bytes(b"not a database, but longer than the header of one" * 9)
    with pytest.raises(CorruptArtifactError, match="damaged or not a registry"):
        Registry.open(tmp_path)
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE meta (key TEXT)")
    connection.close()
    with pytest.raises(CorruptArtifactError, match="not a registry"):
        Registry.open(tmp_path)


@pytest.mark.parametrize(("version", "problem"), [(2, "from 3 on"), (4, "up to 3; upgrade")])
def test_a_registry_of_another_version_is_refused(
    registry: Registry, version: int, problem: str
) -> None:
    with sqlite3.connect(registry.folder / REGISTRY_FILE) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with pytest.raises(UnsupportedVersionError, match=problem):
        Registry.open(registry.folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE releases SET data = zeroblob(length(data)) WHERE version = '2'", "release 2"),
        ("UPDATE releases SET data = (SELECT data FROM releases WHERE version = '4')"
         " WHERE version = '2'", "is that of version 4"),
        ("UPDATE releases SET tensors_sha256 = 'x' WHERE version = '2'", "expected x"),
        ("UPDATE releases SET accepted = 0 WHERE version = '2'", "rejected and is in use"),
    ],
)  # fmt: skip
def test_a_registry_somebody_changed_is_noticed(
    registry: Registry, bundle: Bundle, change: str, message: str
) -> None:
    grown(registry, bundle)
    with sqlite3.connect(registry.folder / REGISTRY_FILE) as connection:
        connection.execute(change)
    connection.close()
    with pytest.raises(CorruptArtifactError, match=message):
        registry.check()


def test_a_full_disk_leaves_the_old_in_force(bundle: Bundle, tmp_path: Path) -> None:
    Registry.of_bundle(tmp_path / "r", bundle)
    code = """
import resource, signal, sys
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.errors import ArtifactError
from pocketquery.server.federation.releases.registry import Registry
from tests.sdk.tiny_bundle import trained_adapter
manifest = Bundle.open(sys.argv[1]).manifest
registry = Registry.open(sys.argv[2])
size = (registry.folder / "releases.sqlite").stat().st_size
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))  # no file may grow beyond it
try:
    for seed in range(2, 40):
        parent = registry.current().version
        registry.publish(trained_adapter(seed), None, manifest=manifest, parent=parent)
except ArtifactError as error:
    print(parent, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(bundle.path), str(tmp_path / "r")],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
    )
    last, _, message = done.stdout.partition(" ")
    assert "nothing was changed" in message, done.stderr
    registry = Registry.open(tmp_path / "r")
    registry.check()
    assert registry.current().version == last


def test_publishers_at_the_same_time_make_one_history(registry: Registry, bundle: Bundle) -> None:
    refused: list[InvalidInputError] = []

    def publish(seed: int) -> None:
        try:
            registry.publish(trained_adapter(seed), ACCEPTED, manifest=bundle.manifest, parent="1")
        except InvalidInputError as error:
            refused.append(error)

    threads = [threading.Thread(target=publish, args=(seed,)) for seed in range(2, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.version for one in registry.history()] == ["1", "2"]  # one came first
    assert len(refused) == 5


def test_a_registry_that_may_not_be_written_can_be_read(registry: Registry, bundle: Bundle) -> None:
    grown(registry, bundle)
    (registry.folder / REGISTRY_FILE).chmod(0o444)
    registry.folder.chmod(0o555)
    try:
        code = (
            "import os, sys\n"
            "from pocketquery.server.federation.releases.registry import Registry\n"
            "if os.getuid() == 0: os.setuid(65534)\n"  # root may write anything
            "print(len(Registry.open(sys.argv[1]).history()))"
        )
        for parent in registry.folder.parents:  # pytest's own, closed to others
            if parent == Path(tempfile.gettempdir()):
                break
            parent.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", code, str(registry.folder)], capture_output=True, text=True
        )
        assert done.stdout == "4\n", done.stderr
    finally:
        registry.folder.chmod(0o755)


def test_every_release_says_its_parent(registry: Registry, bundle: Bundle) -> None:
    grown(registry, bundle)
    for release in registry.history():
        if release.accepted:
            assert parse_adapter(registry.read(release.version)).parent_version == release.parent
