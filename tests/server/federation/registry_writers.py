"""Processes that write to one registry at the same time, and are killed (SIGKILL) at any moment.

    python -m tests.server.federation.registry_writers FOLDER SEED

Each publishes, rolls back, rolls out by shares and rotates the key, as its seed draws, and prints a
line for each change that was done: ``statement`` and ``release``, the numbers it was told of. What
it is refused, as another was first, it draws anew.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pocketquery.client.trusted_releases import TrustedReleases
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.errors import InvalidInputError, SignatureError
from pocketquery.server.federation.releases.registry import Registry
from tests.sdk.tiny_bundle import default_adapter, trained_adapter, write_tiny_bundle
from tests.server.federation.reports import REJECTED

ROOT = Path(__file__).parents[3]


def key(number: int) -> bytes:
    """The private key after ``number`` rotations."""
    return bytes([1 + number]) * 32


def keys() -> dict[bytes, bytes]:
    """Private keys by the public ones."""
    return {public_key_of(key(number)): key(number) for number in range(64)}


def make(folder: Path) -> Registry:
    """A registry with a bundle beside it."""
    bundle = Bundle.open(write_tiny_bundle(folder / "bundle", adapter=default_adapter()))
    return Registry.of_bundle(folder / "releases", bundle, signing_key=key(0))


def write(folder: Path, seed: int) -> Iterator[dict[str, str]]:
    """Change the registry again and again; what was done each time."""
    rng, known = random.Random(seed), keys()
    registry = Registry.open(folder / "releases")
    manifest = Bundle.open(folder / "bundle").manifest

    def publish(signing: bytes) -> str:
        tensors, report = trained_adapter(rng.randrange(2**31)), rng.choice([None, None, REJECTED])
        parent, share = registry.current().version, rng.choice([1.0, 0.25])
        return registry.publish(
            tensors, report, manifest=manifest, parent=parent, signing_key=signing, share=share
        ).version

    def roll_back(signing: bytes) -> str:
        accepted = [one.version for one in registry.history() if one.accepted]
        return registry.rollback(rng.choice(accepted), signing_key=signing).version

    def roll_out(signing: bytes) -> str:
        version, share = registry.current().version, rng.choice([0.5, 0.75, 1.0])
        return registry.roll_out(version, share, signing_key=signing).version

    def rotate(signing: bytes) -> str:
        number = 1 + max(place for place in range(64) if known[public_key_of(key(place))] in used())
        return registry.rotate_key(signing, key(number), overlap=4).release.version

    def used() -> set[bytes]:
        return {known[one.key] for said in registry.statements() for one in said.keys}

    actions: list[Callable[[bytes], str]] = [publish, publish, publish, roll_back, roll_out, rotate]
    weights = [1, 1, 1, 1, 1, 0.2]
    while True:
        signing = known[registry.statements()[-1].keys[-1].key]
        action = rng.choices(actions, weights)[0]
        try:
            version = action(signing)
        except (InvalidInputError, SignatureError):  # another came first
            continue
        yield {"action": action.__name__, "release": version}


def storm(folder: Path, *, writers: int, kills: int, seed: int) -> dict[str, Any]:
    """Let ``writers`` write at once, and kill one of them ``kills`` times, after it did something;
    another takes its place. What was seen.

    After every kill a device follows, and the registry is checked; at the end nothing that was done
    is missing.
    """
    rng = random.Random(seed)
    registry, done = make(folder), list[dict[str, str]]()
    manifest = Bundle.open(folder / "bundle").manifest
    device = TrustedReleases(folder / "device", public_key=public_key_of(key(0)))
    running = {number: _start(folder, seed * 1000 + number) for number in range(writers)}
    lengths = []
    try:
        for number in range(writers, writers + kills):
            victim = rng.choice(list(running))
            done += _read(running[victim], rng.randint(1, 4))
            time.sleep(rng.uniform(0, 0.03))  # into whatever it does next
            done += _killed(running.pop(victim))
            registry.check()
            device.follow(registry.lineage(), manifest=manifest)
            lengths.append(len(registry.statements()))
            running[number] = _start(folder, seed * 1000 + number)
    finally:
        for process in running.values():
            done += _killed(process)
    registry.check()
    device.follow(registry.lineage(), manifest=manifest)
    assert lengths == sorted(lengths)  # nothing goes back
    history = {one.version: one for one in registry.history()}
    numbers = [int(version) for version in history]
    assert numbers == list(range(1, 1 + len(numbers)))
    for one in done:
        assert one["release"] in history, one
    accepted = [one for one in history.values() if one.accepted]
    stated = {one.release.version for one in registry.statements()}
    assert stated == {one.version for one in accepted}  # each came into force, and it was said
    kinds = {one["action"] for one in done}
    return {"statements": len(registry.statements()), "done": len(done), "kinds": sorted(kinds)}


def _start(folder: Path, seed: int) -> subprocess.Popen[str]:
    module = "tests.server.federation.registry_writers"
    command = [sys.executable, "-m", module, str(folder), str(seed)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _read(process: subprocess.Popen[str], lines: int) -> list[dict[str, str]]:
    """The next changes that it says it has done."""
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(lines)]


def _killed(process: subprocess.Popen[str]) -> list[dict[str, str]]:
    """Kill it; what it said that it had done, but for a line that the kill cut."""
    ended = process.poll()
    process.kill()
    said, _ = process.communicate()
    assert ended is None, (ended, said)  # it never ends by itself
    return [json.loads(line) for line in said.splitlines(keepends=True) if line.endswith("\n")]


if __name__ == "__main__":
    for change in write(Path(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(change), flush=True)
