"""How many updates a gateway takes: a second on this machine, and how long a device waits.

    python benchmarks/gateway_load.py

One gateway process, as ``pocketquery gateway`` runs it, and devices that upload over loopback: each
request is of another registered device, signed, of the size that the built-in encoder has,
and answered when its update is on disk. All of them are made before the clock starts. What is
measured, in turns:

flat out   updates a second with CONNECTIONS connections that send without a pause, and the
           gateway's own processor time for each; the sender shares the machine
at half    the time to an answer where requests come at half of MUST_REACH, whether or not earlier
           ones were answered (an open loop, so a gateway that stalls is not spared)
memory     the gateway's resident memory with FEW (the larger of two gateways') and with MANY
           registered devices, after equal rounds

Must reach: 1,000 updates a second on two cores, p99 of 250 ms at half of that, memory with MANY
devices at most 1.1 times that with FEW. Everything is bounded: the processes end, whatever comes.
The last line is one JSON object; the exit code is 1 where a figure is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from pocketquery.client.gateway.signing import signed_headers
from pocketquery.client.offer import Offer
from pocketquery.client.update import UpdateHeader, encode_update
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.cohort_sum import CohortSum
from pocketquery_gateway.control_client import Control
from pocketquery_gateway.journal import JOURNAL, GatewayJournal

MUST_REACH = 1000.0
MOST_P99 = 0.25
MOST_MEMORY = 1.1
FEW = 2_000
MANY = 100_000
CONNECTIONS = 64
MOST_CONNECTIONS = 1_500  # fewer than a gateway takes by default; what is due then waits
LONGEST = 60.0
HOST = "gateway.test"
ROOT = Path(__file__).resolve().parents[1]
DEFAULT = ROOT / "sdk" / "default"
SERVE = (
    "import argparse, sys\n"
    "from pocketquery_gateway.command import gateway\n"
    "parser = argparse.ArgumentParser()\n"
    "gateway(parser.add_subparsers())\n"
    "options = parser.parse_args(['gateway', '--config', sys.argv[1]])\n"
    "sys.exit(options.run(options))\n"
)


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bundle", default=str(DEFAULT), help="whose adapter is trained")
    parser.add_argument("--updates", type=int, default=6_000, help="of a round")
    parser.add_argument("--repeat", type=int, default=3, help="rounds flat out, and at half load")
    parser.add_argument("--many", type=int, default=MANY, help="registered devices")
    options = parser.parse_args()
    load = Load.of_bundle(Bundle.open(options.bundle), options.updates)
    print(f"{options.updates:,} updates of {len(load.update(0)):,} bytes in each round")
    fewer = max(FEW, options.updates)
    with tempfile.TemporaryDirectory() as folder:
        # The larger of two: how many bodies waited at once is chance, and their memory stays.
        few = max(
            memory_of(load, Path(folder) / name, fewer, options.repeat) for name in ("few", "again")
        )
        with running(Path(folder) / "many", load, options.many) as gateway:
            flat = [flat_out(gateway, load, number) for number in range(options.repeat)]
            many = gateway.memory()
            half = [
                at_rate(gateway, load, options.repeat + number, MUST_REACH / 2)
                for number in range(options.repeat)
            ]
    rate = statistics.median(one.rate for one in flat)
    cost = statistics.median(one.processor for one in flat)
    waits = np.concatenate(half)
    sender = statistics.median(one.sender for one in flat)
    p50, p99 = (float(np.quantile(waits, share)) for share in (0.5, 0.99))
    print(f"flat out  {rate:.0f} updates/s; {1e3 * cost:.2f} ms of the gateway's processor each, "
          f"{1e3 * sender:.2f} ms of the sender's")  # fmt: skip
    print(f"at half   p50 {1e3 * p50:.1f} ms, p99 {1e3 * p99:.1f} ms at {MUST_REACH / 2:.0f}/s")
    print(f"memory    {few / 2**20:.0f} MB with {fewer:,} devices, {many / 2**20:.0f} MB with many")
    reached = rate >= MUST_REACH and p99 <= MOST_P99 and many / few <= MOST_MEMORY
    print(f"expected {MUST_REACH:.0f} updates/s, p99 {1e3 * MOST_P99:.0f} ms, {MOST_MEMORY} times")
    figures = {
        "updates_per_second": round(rate, 1),
        "milliseconds_of_processor": round(1e3 * cost, 3),
        "milliseconds_of_sender": round(1e3 * sender, 3),
        "p50_ms": round(1e3 * p50, 2),
        "p99_ms": round(1e3 * p99, 2),
        "memory_of_many": round(many / few, 3),
    }
    print(json.dumps({**figures, "reached": reached}))
    return 0 if reached else 1


@dataclass(frozen=True)
class Load:
    """What devices send: one change, under as many nonces as there are devices."""

    release: bytes
    state: FederationState
    body: bytes
    nonce: str
    updates: int

    @classmethod
    def of_bundle(cls, bundle: Bundle, updates: int) -> Load:
        """Changes of this bundle's adapter."""
        tensors = bundle.adapter(required=True)
        release = pack_adapter(tensors, manifest=bundle.manifest, version="1", parent_version=None)
        state = FederationState.of_bundle(bundle)
        rng = np.random.default_rng(0)
        change = {
            name: rng.normal(0, 1e-3, value.shape).astype(np.float32)
            for name, value in state.adapter.items()
        }
        nonce = "0" * 32
        header = UpdateHeader(
            state.space_id, state.encoder_sha256, state.version, 0, nonce, weight=40.0
        )
        return cls(release, state, encode_update(change, header=header, clip_norm=1.25)[0], nonce,
                   updates)  # fmt: skip

    def update(self, device: int, number: int = 0) -> bytes:
        """What one device sends to a round: the header is text, so it is changed in place."""
        named = self.body.replace(self.nonce.encode(), f"{number:016x}{device:016x}".encode(), 1)
        if number == 0:
            return named
        found = f'"round":"{number}"'.encode()
        shorter = named.replace(b'"round":"0"', found, 1)
        if len(found) != len(b'"round":"0"'):
            raise ValueError("rounds have one digit here")
        return shorter

    def offer(self, number: int) -> CohortOffer:
        """What the server asks of the gateway."""
        settings = RoundSettings(clients_per_round=self.updates, over_selection=1.0)
        offer = Offer(round=number, release=self.release, clip_norm=settings.clip_norm)
        return CohortOffer(offer, settings, self.updates, self.updates, seconds=600.0)


@dataclass(frozen=True)
class Flat:
    """Updates a second, and seconds of processor time for each: the gateway's and the sender's."""

    rate: float
    processor: float
    sender: float


class Gateway:
    """A gateway's process."""

    def __init__(self, process: subprocess.Popen[str], port: int, control: Control) -> None:
        self.process, self.port, self.control = process, port, control

    def processor(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Resident bytes."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(one.split()[1]) for one in lines if one.startswith("VmRSS")) * 1024


def key_of(device: int) -> bytes:
    """A device's private key."""
    return hashlib.sha256(f"device {device}".encode()).digest()


@contextmanager
def running(folder: Path, load: Load, devices: int) -> Iterator[Gateway]:
    """A gateway with so many devices, of which the first ``load.updates`` will send."""
    from pocketquery.sdk.bundle.signature import public_key_of

    files = folder / "files"
    with GatewayJournal.open(files / JOURNAL) as journal, journal.batch():
        for device in range(devices):
            sends = device < load.updates
            key = public_key_of(key_of(device)) if sends else key_of(device)
            journal.register(key, 20_000, devices)
    config = folder / "gateway.toml"
    config.write_text(
        'folder = "files"\nlisten = "127.0.0.1:0"\nrequests-per-minute = 1e9\n'
        f'address-requests-per-minute = 1e9\nauthorities = ["{HOST}"]\n'
        "address-connections = 0\n"  # all devices have this machine's
    )
    with (folder / "log.jsonl").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(config)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    assert process.stdout is not None
    try:
        port = json.loads(process.stdout.readline() or '{"port": 0}')["port"]
        if not port:
            sys.exit((folder / "log.jsonl").read_text()[-2000:])
        time.sleep(1.1)  # what is signed before the gateway's start is refused
        yield Gateway(process, port, Control(files / "gateway.sock", patience=30.0))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def memory_of(load: Load, folder: Path, devices: int, repeat: int) -> int:
    """Resident memory after so many rounds, with fewer devices."""
    with running(folder, load, devices) as gateway:
        for number in range(repeat):
            flat_out(gateway, load, number)
        return gateway.memory()


def requests(load: Load, number: int) -> list[bytes]:
    """Every device's request, as it goes over the wire."""
    path, made, now = f"/v1/rounds/{number}/update", [], int(time.time())
    for device in range(load.updates):
        body = load.update(device, number)
        headers = signed_headers(
            key_of(device), "PUT", HOST, path, body, created=now, nonce=os.urandom(16)
        )
        lines = [f"PUT {path} HTTP/1.1", f"host: {HOST}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        made.append("\r\n".join([*lines, "", ""]).encode() + body)
    return made


class Sender:
    """Connections that are kept, each with one request at a time; sockets and nothing above them,
    for what the sender takes the gateway has not.

    Args:
        port: the gateway's, on loopback.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._free: list[int] = []
        self._due: dict[int, float] = {}
        self._came: dict[int, bytes] = {}

    @property
    def waiting(self) -> int:
        """How many requests are not answered yet."""
        return len(self._due)

    def send(self, request: bytes, due: float) -> None:
        """Send a request that was to be sent at ``due``, on a new connection where all are busy."""
        if not self._free:
            made = socket.create_connection(("127.0.0.1", self._port))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            self._sockets[made.fileno()] = made
            self._poll.register(made.fileno(), select.EPOLLIN)
            self._free.append(made.fileno())
        number = self._free.pop()
        self._due[number] = due
        self._sockets[number].sendall(request)

    def answers(self, seconds: float) -> list[float]:
        """What came within so many seconds, or at once: for each the seconds since it was due.

        Raises:
            ConnectionError: a request was refused, or nothing came for a minute.
        """
        waits = []
        events = self._poll.poll(seconds)
        now = time.perf_counter()
        for number, _ in events:
            came = self._came.pop(number, b"") + self._sockets[number].recv(65_536)
            head, _, body = came.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            if not came.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(f"{came[:300]!r}")
            if not length or len(body) < int(length):
                self._came[number] = came
                continue
            waits.append(now - self._due.pop(number))
            self._free.append(number)
        if not events and self._due and now - min(self._due.values()) > LONGEST:
            raise ConnectionError("a request was not answered")
        return waits

    def close(self) -> None:
        """Close all connections."""
        self._poll.close()
        for one in self._sockets.values():
            one.close()


def flat_out(gateway: Gateway, load: Load, number: int) -> Flat:
    """A round as fast as it goes."""
    gateway.control._begin(load.offer(number))
    made = iter(requests(load, number))
    with closing(Sender(gateway.port)) as sender:
        before, own, started = gateway.processor(), time.process_time(), time.perf_counter()
        for request in islice(made, CONNECTIONS):
            sender.send(request, started)
        while sender.waiting:
            answered = len(sender.answers(1.0))
            for request in islice(made, answered):
                sender.send(request, time.perf_counter())
        took = time.perf_counter() - started
        own, used = time.process_time() - own, gateway.processor() - before
    check(gateway, load, number)
    found = Flat(load.updates / took, used / load.updates, own / load.updates)
    print(f"round {number}: {found.rate:.0f} updates/s, {1e3 * found.processor:.2f} ms of "
          f"processor time each, sender {1e3 * found.sender:.3f} ms", flush=True)  # fmt: skip
    return found


def at_rate(gateway: Gateway, load: Load, number: int, rate: float) -> Sequence[float]:
    """Seconds to each answer where requests come at ``rate`` a second."""
    gateway.control._begin(load.offer(number))
    made, waits = requests(load, number), []
    with closing(Sender(gateway.port)) as sender:
        started = time.perf_counter()
        for place, request in enumerate(made):
            due = started + place / rate
            while (left := due - time.perf_counter()) > 0 or sender.waiting >= MOST_CONNECTIONS:
                waits += sender.answers(max(0.0, left) or 1.0)
            sender.send(request, due)
            waits += sender.answers(0.0)
        while sender.waiting:
            waits += sender.answers(1.0)
    check(gateway, load, number)
    p99 = float(np.quantile(waits, 0.99))
    print(f"round {number}: p99 {1e3 * p99:.1f} ms at {rate:.0f}/s", flush=True)
    return waits


def check(gateway: Gateway, load: Load, number: int) -> None:
    """Whether every update is in the sum."""
    cohort = CohortSum.from_bytes(gateway.control.answer_to(load.offer(number)))
    if cohort.count != load.updates:
        sys.exit(f"{cohort.count} updates are in the sum, expected {load.updates}")


if __name__ == "__main__":
    sys.exit(main())
