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

from flwr.app import Message

from pocketquery.client.records import read_reply
from pocketquery.client.update import decode_update
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.releases.registry import Registry
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery_simulation.devices import SimulatedDevices
from pocketquery_simulation.local_grid import Client, Fault, LocalGrid
from tests.kills import in_a_fork, killed, lines_of
from tests.server.federation.chaos.lies import forged, plain_lies
from tests.server.federation.hostile_replies import BOMBS, npy, packed, reply_of
from tests.server.federation.simulation_kill_points import MODULES
from tests.server.federation.small_federation import Files, opened, write_federation

HONEST = 12
OPTIONS: dict[str, Any] = {"rounds": 3, "steps": 2, "over-selection": 1.0, "least-replies": 5}


def _of_the_next_round(update: bytes, _: int) -> bytes:
    """For a device that replies late: every round here makes a release, so its name is known."""
    number = decode_update(update).header.round
    return forged(update, round=str(number + 1), base_version=str(number + 2))


def _raising(update: bytes, _: int) -> bytes:
    return update[:0] + bytes([256])  # as a device's app may


_PLAIN = {name: lie.tell for name, lie in plain_lies(RoundSettings()).items()}
LIES: dict[str, Callable[[bytes, int], bytes]] = {
    **{name: _PLAIN[name] for name in ("nan", "norm", "shape", "dtype")},
    "bomb": lambda update, _: BOMBS[0],
    "npy header": lambda update, _: update,  # lies in its array, see below
    **{name: _PLAIN[name] for name in ("replay", "stale")},
    "late": _of_the_next_round,
    "twice": lambda update, _: update,
    **{name: _PLAIN[name] for name in ("negated", "weight", "oversized", "garbage")},
    "error": _raising,
    "silent": lambda update, _: update,
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
            said = LIES[kind](update, node)
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
        rows = parts.run(grid=LocalGrid(clients, _faults))
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
    lines = 0
    if kills:
        lines = in_a_fork(lambda: lines_of(lambda: run(files, folder / "counted"), MODULES)) or 0
        assert lines
        assert left(folder / "counted") == wanted
    for number in range(kills):
        work, line = folder / f"killed-{number}", lines * (2 * number + 1) // (2 * kills)
        killed(lambda: lines_of(lambda: run(files, work), MODULES, line))  # noqa: B023
        in_a_fork(lambda: len(run(files, work)))  # noqa: B023
        assert left(work) == wanted, f"killed at line {line} of {lines}, the rounds differ"
    print(json.dumps(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
