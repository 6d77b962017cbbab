"""Runs what writes releases many times, each time killed (SIGKILL) at another change on disk.

    python -m tests.server.federation.release_kill_points FOLDER [OPERATION ...]

The operation runs in a forked process that is stopped at every system call (ptrace). At each stop
the folder is compared with what it was; at the n-th difference the process is killed, for every n
until it ends by itself: so each state that the operation ever leaves on disk, in the middle of
SQLite's commit too, is one that a kill left. After each, this process checks that the registry is
the old one or the new one, whole, and that the operation can be done again. Prints what it saw.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pocketquery.client.trusted_releases import TrustedReleases
from pocketquery.sdk.bundle.adapter import parse_adapter, write_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.bundle.statement import Statement
from pocketquery.sdk.errors import ArtifactNotFoundError
from pocketquery.server.federation.releases.registry import Registry
from tests.kills import killed_at_change
from tests.sdk.tiny_bundle import default_adapter, trained_adapter, write_tiny_bundle
from tests.server.federation.reports import REJECTED

KEY, NEW_KEY = bytes(range(32)), bytes(range(1, 33))

Operation = Callable[[Path], object]
State = list[tuple[str, str, int | None]]


def operations(bundle: Bundle) -> dict[str, tuple[Operation, Operation]]:
    """By name: what makes the registry before, and what is killed."""
    manifest = bundle.manifest

    def nothing(folder: Path) -> None:
        folder.mkdir()

    def first(folder: Path) -> None:
        Registry.of_bundle(folder, bundle)

    def accept(folder: Path) -> None:
        Registry.open(folder).publish(trained_adapter(2), None, manifest=manifest, parent="1")

    def second(folder: Path) -> None:
        first(folder)
        accept(folder)

    def reject(folder: Path) -> None:
        Registry.open(folder).publish(trained_adapter(3), REJECTED, manifest=manifest, parent="2")

    def roll_back(folder: Path) -> None:
        Registry.open(folder).rollback("1")

    def signed(folder: Path) -> None:
        Registry.of_bundle(folder, bundle, signing_key=KEY)
        for number in (2, 3):
            parent, share = str(number - 1), 1.0 if number == 2 else 0.25
            Registry.open(folder).publish(
                trained_adapter(number),
                None,
                manifest=manifest,
                parent=parent,
                signing_key=KEY,
                share=share,
            )

    def begin_signing(folder: Path) -> None:
        Registry.of_bundle(folder, bundle, signing_key=KEY)

    def accept_signed(folder: Path) -> None:
        Registry.open(folder).publish(
            trained_adapter(4), None, manifest=manifest, parent="3", signing_key=KEY
        )

    def roll_back_signed(folder: Path) -> None:
        Registry.open(folder).rollback("1", signing_key=KEY)

    def roll_out(folder: Path) -> None:
        Registry.open(folder).roll_out("3", 1, signing_key=KEY)

    def rotate(folder: Path) -> None:
        Registry.open(folder).rotate_key(KEY, NEW_KEY)

    def device(folder: Path) -> None:
        signed(folder)
        trusted = TrustedReleases(folder / "device", public_key=public_key_of(KEY))
        trusted.follow(Registry.open(folder).lineage(), manifest=manifest)
        rotate(folder)

    def follow(folder: Path) -> None:
        TrustedReleases(folder / "device").follow(
            Registry.open(folder).lineage(), manifest=manifest
        )

    def write_file(folder: Path) -> None:
        write_adapter(folder / "a", trained_adapter(2), manifest=manifest, version="2")

    def first_and_file(folder: Path) -> None:
        first(folder)
        write_adapter(folder / "a", trained_adapter(1), manifest=manifest, version="1")

    return {
        "first": (nothing, first),
        "accept": (first, accept),
        "reject": (second, reject),
        "roll back": (second, roll_back),
        "begin signing": (second, begin_signing),
        "accept, signed": (signed, accept_signed),
        "roll back, signed": (signed, roll_back_signed),
        "roll out": (signed, roll_out),
        "rotate": (signed, rotate),
        "follow": (device, follow),
        "file": (first_and_file, write_file),
    }


def state_of(folder: Path) -> State | None:
    """What is recorded, every file checked; None where there is no registry."""
    try:
        registry = Registry.open(folder)
    except ArtifactNotFoundError:
        return None
    registry.check()
    found: State = [(one.version, one.status, one.bytes) for one in registry.history()]
    found += [(one.release.version, "stated", one.sequence) for one in registry.statements()]
    if (folder / "device").exists():
        with contextlib.closing(sqlite3.connect(folder / "device")) as connection:
            ((statement,),) = connection.execute("SELECT statement FROM encoders")
        found.append((Statement.parse(statement).release.version, "known", len(statement)))
    if (folder / "a").exists():
        found.append((parse_adapter((folder / "a").read_bytes()).version, "file", None))
    return found


def walk(prepare: Operation, operation: Operation, folder: Path) -> Counter[str]:
    """Kill ``operation`` at each of its changes; how often the old and the new state was left."""
    prepare(folder / "old")
    old = state_of(folder / "old")
    shutil.copytree(folder / "old", folder / "new")
    operation(folder / "new")
    new = state_of(folder / "new")
    assert old != new
    seen: Counter[str] = Counter()
    change = 1
    while True:
        path = folder / "killed"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(folder / "old", path)
        if not killed_at_change(operation, path, change):
            assert state_of(path) == new
            return seen
        found = state_of(path)
        assert found in (old, new), (change, found)
        seen["new" if found == new else "old"] += 1
        operation(path)
        assert state_of(path) == new, change
        change += 1


def main(folder: Path, names: list[str]) -> None:
    """Walk the operations of these names; all, where there are none."""
    bundle = Bundle.open(write_tiny_bundle(folder / "bundle", adapter=default_adapter()))
    for name, (prepare, operation) in operations(bundle).items():
        if names and name not in names:
            continue
        place = folder / name
        place.mkdir()
        print({"operation": name, **walk(prepare, operation, place)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
