"""A federation with one hostile client of each kind, killed (SIGKILL) on the way and resumed.

    python -m tests.server.federation.hostile_federation FOLDER KILLS

Twelve honest devices and sixteen hostile ones, all of them asked in each of three rounds. The
rounds are run whole, and then several times by a process that is killed at some line and by another
that goes on. Prints the rows of the whole run as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from pocketquery.client.records import read_reply
from pocketquery.client.transforms import SCALES
from pocketquery.client.update import decode_update, encode_update
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.server.federation.releases.registry import Registry
from pocketquery.server.federation.rounds.clock import VirtualClock
from pocketquery.server.federation.rounds.federation import run_rounds
from pocketquery.server.federation.rounds.journal import Journal
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.simulation.devices import SimulatedDevices
from pocketquery.server.federation.simulation.local_grid import Client, Fault, LocalGrid
from tests.killed_lines import lines_of
from tests.server.federation.hostile_replies import BOMBS, npy, packed, reply_of
from tests.server.federation.replies import forged
from tests.server.federation.simulation_kill_points import _MODULES, _in_child
from tests.server.federation.small_federation import Files, opened, write_federation

HONEST = 12
OPTIONS: dict[str, Any] = {"rounds": 3, "steps": 2, "over-selection": 1.0, "least-replies": 5}
LARGEST = RoundSettings().clip_norm * RoundSettings().norm_slack

Lie = Callable[[bytes], bytes]
"""What a device sends instead of its honest update."""


def _as_float(update: bytes) -> dict[str, Any]:
    return {name: value.copy() for name, value in decode_update(update).change.items()}


def _not_a_number(update: bytes) -> bytes:
    change = _as_float(update)
    next(iter(change.values())).flat[0] = np.nan
    metadata = decode_update(update).header
    plain, _ = encode_update(
        {name: np.nan_to_num(v) for name, v in change.items()},
        header=metadata,
        clip_norm=1.0,
        compress=False,
    )
    return forged(plain, change)


def _first(update: bytes) -> str:
    return min(parse(update).keys() - {SCALES})


def _wrong_shape(update: bytes) -> bytes:
    name = _first(update)
    return forged(update, {name: parse(update)[name].reshape(-1)})


def _wrong_dtype(update: bytes) -> bytes:
    name = _first(update)
    return forged(update, {name: parse(update)[name].astype(np.int16)})


def _negated(update: bytes) -> bytes:
    """As long and as heavy as it may be."""
    change = {name: -1000 * value for name, value in _as_float(update).items()}
    header = replace(decode_update(update).header, weight=RoundSettings().largest_weight)
    return encode_update(change, header=header, clip_norm=0.999 * LARGEST)[0]


def _of_the_round_before(update: bytes) -> bytes:
    number = decode_update(update).header.round
    return forged(update, round=str(number - 1)) if number else forged(update, base_version="0")


def _of_the_next_round(update: bytes) -> bytes:
    """For a device that replies late: every round here makes a release, so its name is known."""
    number = decode_update(update).header.round
    return forged(update, round=str(number + 1), base_version=str(number + 2))


LIES: dict[str, Lie] = {
    "nan": _not_a_number,
    "norm": lambda update: forged(update, {SCALES: parse(update)[SCALES] * np.float32(1e6)}),
    "shape": _wrong_shape,
    "dtype": _wrong_dtype,
    "bomb": lambda update: BOMBS[0],
    "npy header": lambda update: update,  # lies in its array, see below
    "replay": lambda update: forged(update, nonce="ab" * 16),
    "stale": _of_the_round_before,
    "late": _of_the_next_round,
    "twice": lambda update: update,
    "negated": _negated,
    "weight": lambda update: forged(update, weight="1e9"),
    "oversized": lambda update: update.ljust(1_000_000, b"\0"),
    "garbage": lambda update: np.random.default_rng(0).bytes(500),
    "error": lambda update: update[:0] + bytes([256]),  # raises, as a device's app may
    "silent": lambda update: update,
}
FAULTS = {"late": Fault.LATE, "twice": Fault.TWICE, "silent": Fault.NEVER}
KINDS = list(LIES)


@dataclass(frozen=True)
class Clients(Mapping[int, Client]):
    """Honest devices first, then one of each kind."""

    devices: SimulatedDevices

    def __getitem__(self, node: int) -> Client:
        client = self.devices[node]
        if node <= HONEST:
            return client
        kind = KINDS[node - HONEST - 1]

        def lying(message: Message) -> Message:
            update = read_reply(client(message)).update
            assert update is not None
            said = LIES[kind](update)
            return reply_of(message, npy(b"(", said) if kind == "npy header" else packed(said))

        return lying

    def __iter__(self) -> Iterator[int]:
        return iter(self.devices)

    def __len__(self) -> int:
        return len(self.devices)


def _faults(node: int, group: str) -> Fault:
    return FAULTS.get(KINDS[node - HONEST - 1], Fault.NONE) if node > HONEST else Fault.NONE


def run(files: Files, work: Path, kinds: int = len(LIES), **options: Any) -> list[dict[str, Any]]:
    """All rounds that are left, with the first ``kinds`` of the hostile ones; their rows."""
    chosen = OPTIONS | {"clients-per-round": HONEST + kinds} | options
    with opened(files, work, **chosen) as parts:
        stores = list(parts.devices.stores.values())
        named = {f"user-{n}": stores[n % len(stores)] for n in range(HONEST + kinds)}
        clients = Clients(replace(parts.devices, stores=named))
        rows = run_rounds(
            work,
            parts.publisher,
            parts.first,
            parts.options,
            LocalGrid(clients, _faults),
            VirtualClock(),
        )
    return [row.to_dict() for row in rows]


def left(work: Path) -> tuple[list[bytes], bytes]:
    """All releases, and the state after the last round."""
    registry = Registry.open(work / "releases")
    with Journal.open(work / "rounds.sqlite") as journal:
        assert journal.state is not None
        return [registry.read(one.version) for one in registry.history()], journal.state.to_bytes()


def main(folder: Path, kills: int) -> None:
    """Run whole, then killed and resumed."""
    files = write_federation(folder / "files")
    rows = run(files, folder / "whole")
    wanted = left(folder / "whole")
    lines = _in_child(lambda: lines_of(lambda: run(files, folder / "counted"), _MODULES))
    assert left(folder / "counted") == wanted
    for number in range(kills):
        work, line = folder / f"killed-{number}", lines * (2 * number + 1) // (2 * kills)
        _in_child(lambda: lines_of(lambda: run(files, work), _MODULES, line), killed=True)  # noqa: B023
        _in_child(lambda: len(run(files, work)))  # noqa: B023
        assert left(work) == wanted, f"killed at line {line} of {lines}, the rounds differ"
    print(json.dumps(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
