"""What a fleet costs: 10^5 simulated devices, 1,000 a round, ten rounds, a 2x128 encoder.

    python benchmarks/scale.py

The devices are the real device's code, one after another in this process; the server's rounds,
journal, gate and registry are the real ones, and every message crosses Flower's wire form. Of each
round's devices TRAINED train; each of the others sends one of these changes as its own, clipped,
encoded and remembered like any (``--trained 0``: all train, hours). Of each round it says what went
over the wire, the processor time of the devices, of the gate and of the rest of the server, and
what the journal weighs. Beside it: peak memory with FEW and
with MANY devices that are connected while equally many train; the bytes of a device at a gateway;
and a gateway's journal, whose rows are registered devices.

Killed and started again it goes on in the round it was in (``runs/fleet/scale``); a round that was
interrupted is marked, because devices that had replied are asked again. What it extrapolates to
10^7 devices is formulas over these figures: docs/scale.md.

Must reach: peak memory with MANY devices at most 1.1 times that with FEW, and no reply lost. The
last line is one JSON object, stored as docs/results/scale.json by ``--store``; the exit code is 1
where a figure is missed. About a quarter of an hour of one core.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aggregation import peak
from fleet.small_fleet import SHAPE, WORK, small_fleet
from flwr.app import Message
from suite.results import store

from pocketquery.client.gateway.messages import offer_message
from pocketquery.client.gateway.signing import signed_headers
from pocketquery.client.offer import Offer
from pocketquery.client.training.training import LocalResult, train_locally
from pocketquery.sdk.files import write_atomic
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.federation import JOURNAL, run_rounds
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.parts import Decision, Publisher
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_gateway.journal import JOURNAL as GATEWAY_JOURNAL
from pocketquery_gateway.journal import GatewayJournal
from pocketquery_simulation.local_grid import Client, LocalGrid
from pocketquery_simulation.simulation import Simulation, open_simulation

DEVICES = 100_000
CLIENTS = 1_000
ROUNDS = 10
FEW, MANY = 1_000, 100_000
TRAINED = 60
WATCHED = 10  # devices of the round in which memory is looked at
MOST_MEMORY = 1.1


def main() -> int:
    """Run what is left, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--devices", type=int, default=DEVICES)
    add("--clients", type=int, default=CLIENTS, help="of a round")
    add("--rounds", type=int, default=ROUNDS)
    add("--trained", type=int, default=TRAINED, help="of those; 0: all")
    add("--output", type=Path, default=WORK / "scale")
    add("--peak-of", type=int, metavar="DEVICES", help="for itself")
    add("--store", action="store_true", help="write docs/results/scale.json")
    options = parser.parse_args()
    if options.peak_of:
        print(peak_with(options.peak_of))
        return 0
    rows = rounds(options)
    few, many = (peak_in_a_process(devices) for devices in (FEW, MANY))
    figures: dict[str, Any] = {
        "shape": SHAPE,
        "devices": options.devices,
        "clients_per_round": options.clients,
        "rounds": rows,
        "registered_bytes": gateway_row(options.devices),
        "gateway": gateway_bytes(rows[-1]["release_bytes"]),
        "peak_mb": {str(FEW): round(few / 2**20, 1), str(MANY): round(many / 2**20, 1)},
        "memory_of_many": round(many / few, 4),
        "lost": sum(max(0, options.clients - row["accepted"]) for row in rows),
    }
    print_table(figures)
    figures["reached"] = figures["memory_of_many"] <= MOST_MEMORY and not figures["lost"]
    if options.store:
        store("scale", figures)
    print(json.dumps(figures))
    return 0 if figures["reached"] else 1


def options_of(clients: int, count: int) -> FederationOptions:
    """Defaults, but for the size: robust against hostile devices, and with the gate."""
    given = {"clients-per-round": clients, "rounds": count, "shards": 10}
    return FederationOptions.of(given)


def rounds(given: argparse.Namespace) -> list[dict[str, Any]]:
    """What each round cost; those of an earlier start are read."""
    folder, count = given.output, given.rounds
    measured = folder / "measured"
    started = time.monotonic()
    files, options = small_fleet(given.devices), options_of(given.clients, count)
    with open_simulation(files, folder, options) as simulation:
        measured.mkdir(exist_ok=True)  # a folder of one's own is empty when a simulation begins
        print(simulation.description, flush=True)
        run(simulation, Meter(simulation, folder, measured, given.trained), options)
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    return [json.loads((measured / f"{number}.json").read_bytes()) for number in range(count)]


def run(simulation: Simulation, meter: Meter, options: FederationOptions) -> None:
    """The rounds that are left, measured."""
    run_rounds(
        simulation.folder,
        meter,
        simulation.first,
        options,
        meter.grid,
        VirtualClock(),
        show=meter.show,
    )


class Meter(Mapping[int, Client]):
    """The devices and the publisher of a simulation, with their processor time.

    Args:
        simulation: an open simulation.
        folder: its own.
        measured: gets a row a round.
        trained: how many devices of a round train, the others send what these learnt; 0: all.
    """

    def __init__(
        self, simulation: Simulation, folder: Path, measured: Path, trained: int = 0
    ) -> None:
        self._devices = replace(simulation.devices, trains=self._trains)
        self._simulation, self._folder, self._measured = simulation, folder, measured
        self._most_trained = trained
        self._publisher: Publisher = simulation.publisher
        self.grid = LocalGrid(self)
        self._resumed = (folder / JOURNAL).is_file() and _has_open_round(folder / JOURNAL)
        self._begin()

    def __getitem__(self, node: int) -> Client:
        client = self._devices[node]

        def timed(message: Message) -> Message:
            before = time.process_time()
            try:
                return client(message)
            finally:
                self._device += time.process_time() - before

        return timed

    def __iter__(self) -> Iterator[int]:
        return iter(self._devices)

    def __len__(self) -> int:
        return len(self._devices)

    def _trains(self, name: str) -> Callable[..., LocalResult]:
        def train(*args: Any, **named: Any) -> LocalResult:
            if self._most_trained and len(self._learnt) >= self._most_trained:
                return self._learnt[zlib.crc32(name.encode()) % self._most_trained]
            before = time.process_time()
            found = train_locally(*args, **named)
            self._training += time.process_time() - before
            self._trained += 1
            if self._most_trained and not found.stopped:
                self._learnt.append(found)
            return found

        return train

    def in_force(self, state: FederationState) -> FederationState:
        """As the simulation's."""
        return self._publisher.in_force(state)

    def release(self, version: str) -> bytes:
        """As the simulation's."""
        return self._publisher.release(version)

    def lineage(self) -> bytes:
        """As the simulation's."""
        return self._publisher.lineage()

    def decide(
        self,
        state: FederationState,
        candidate: FederationState,
        privacy: Mapping[str, Any] | None = None,
    ) -> Decision:
        """As the simulation's, timed."""
        before = time.process_time()
        try:
            return self._publisher.decide(state, candidate, privacy)
        finally:
            self._gate += time.process_time() - before

    def show(self, report: RoundReport) -> None:
        """Write the row of a round that is over."""
        if report.version is None:
            return
        seen, before = self.grid.traffic, self._traffic
        total = time.process_time() - self._started
        sizes = {
            name: path.stat().st_size if (path := self._folder / f"{JOURNAL}{name}").exists() else 0
            for name in ("", "-wal")
        }
        row = {
            "round": report.round,
            "asked": report.asked,
            "accepted": report.accepted,
            "trained": self._trained,
            "outcome": report.outcome,
            "gate": report.gate,
            "down_bytes": seen.down - before.down,
            "up_bytes": seen.up - before.up,
            "messages": seen.messages - before.messages,
            "replies": seen.replies - before.replies,
            "device_cpu": round(self._device - self._training, 2),
            "training_ms": round(1e3 * self._training / max(1, self._trained), 1),
            "gate_cpu": round(self._gate, 2),
            "server_cpu": round(total - self._device - self._gate, 2),
            "written_bytes": _written() - self._before_written,
            "journal_bytes": sizes[""],
            "log_bytes": sizes["-wal"],
            "release_bytes": len(self._publisher.release(report.base_version)),
            "peak_mb": round(peak() / 2**20, 1),
            "interrupted": self._resumed,
        }
        write_atomic(self._measured / f"{report.round}.json", json.dumps(row) + "\n")
        print(json.dumps({name: row[name] for name in row if name != "gate"}), flush=True)
        self._resumed = False
        self._begin()

    def _begin(self) -> None:
        self._traffic = self.grid.traffic
        self._device = self._gate = self._training = 0.0
        self._trained, self._learnt = 0, list[LocalResult]()
        self._started = time.process_time()
        self._before_written = _written()


def _has_open_round(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return bool(connection.execute("SELECT count(*) FROM open_round").fetchone()[0])
    finally:
        connection.close()


def _written() -> int:
    """Bytes that this process has handed to the system to write so far."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def peak_in_a_process(devices: int) -> int:
    """Peak memory in bytes of a process in which so many devices are connected."""
    command = [sys.executable, str(Path(__file__).absolute()), "--peak-of", str(devices)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return int(done.stdout.splitlines()[-1])


def peak_with(devices: int) -> int:
    """A round of a few of so many devices, in this process; its peak memory in bytes."""
    options = options_of(WATCHED, 1)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_simulation(small_fleet(devices), Path(folder), options) as simulation,
    ):
        run(simulation, Meter(simulation, Path(folder), Path(folder)), options)
    return peak()


def gateway_row(devices: int) -> float:
    """Bytes that a registered device has in a gateway's journal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / GATEWAY_JOURNAL
        with GatewayJournal.open(path) as journal, journal.batch():
            for _ in range(devices):
                journal.register(os.urandom(32), 20_000, devices)
        return round(path.stat().st_size / devices, 1)


def gateway_bytes(release_bytes: int) -> dict[str, int]:
    """Bytes that one device sends and gets over HTTPS in a round, by what they are; without the
    answers' headers and TLS."""
    options = options_of(CLIENTS, 1)
    release = bytes(release_bytes)
    offer = Offer(round=9, release=release, config=options.local)
    host = "gateway.example.org"

    def asked(method: str, path: str, body: bytes = b"") -> int:
        signed = signed_headers(
            bytes(32), method, host, path, body, created=1_800_000_000, nonce=bytes(16)
        )
        lines = [f"{method} {path} HTTP/1.1", f"host: {host}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in signed.items()]
        return len("\r\n".join([*lines, "", ""]))

    return {
        "poll_up": asked("GET", "/v1/offer"),
        "poll_down": len(json.dumps(offer_message(None, 60))),
        "offer_down": len(json.dumps(offer_message(offer, 0))),
        "release_down": len(release),
        "update_up_headers": asked("PUT", "/v1/rounds/9/update"),
    }


def print_table(figures: Mapping[str, Any]) -> None:
    """A line a round, and the totals."""
    print(f"{'round':>5} {'in':>5} {'down MB':>8} {'up MB':>7} {'train ms':>9} {'else s':>7} "
          f"{'gate s':>7} {'server s':>9} {'journal KB':>11} {'peak MB':>8}  outcome")  # fmt: skip
    for row in figures["rounds"]:
        print(
            f"{row['round']:5} {row['accepted']:5} {row['down_bytes'] / 1e6:8.1f} "
            f"{row['up_bytes'] / 1e6:7.1f} {row['training_ms']:9.0f} {row['device_cpu']:7.1f} "
            f"{row['gate_cpu']:7.1f} {row['server_cpu']:9.1f} "
            f"{row['journal_bytes'] / 1e3:11.1f} {row['peak_mb']:8.1f}  {row['outcome']}"
            f"{' (interrupted)' if row['interrupted'] else ''}"
        )
    print(
        f"memory   {figures['peak_mb']}, {figures['memory_of_many']} times, at most {MOST_MEMORY}"
    )
    print(f"gateway  {figures['registered_bytes']} bytes a registered device; {figures['gateway']}")


if __name__ == "__main__":
    sys.exit(main())
