"""Whole federated rounds: real devices that train, two gateway processes, the server's driver."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from flwr.app import Message
from serve_gateway import Served, serving
from turns import turn

from pocketquery.client.trusted_releases import TrustedReleases
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.server.federation.orchestration.clock import SystemClock
from pocketquery.server.federation.orchestration.federation import JOURNAL
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery_gateway.cohorts.records import ANNOUNCE
from pocketquery_gateway.control_client import Control
from pocketquery_gateway.node import announce, answer
from pocketquery_join.connection import GatewayConnection, device_key
from pocketquery_join.participation import RELEASE, Participation
from pocketquery_simulation.local_grid import LocalGrid
from tests.server.federation.small_federation import USERS, Files, Parts, opened

OPTIONS = {
    "clients-per-round": USERS,
    "over-selection": 1.0,
    "shards": 3,
    "deadline": 120.0,
}
KEY = bytes(range(32))
_ATTEMPTS = 1000  # five minutes: a gateway that starts again on a busy machine takes its time


def node(control: Control) -> Callable[[Message], Message]:
    """What a SuperNode's ClientApp does with a message."""

    def handle(message: Message) -> Message:
        if message.metadata.message_type == ANNOUNCE:
            return announce(message, control)
        return answer(message, control)

    return handle


class Devices(threading.Thread):
    """The federation's devices, one after another, each at its gateway, until stopped."""

    def __init__(self, parts: Parts, gateways: Sequence[Served], folder: Path) -> None:
        super().__init__()
        self._parts = parts
        self._stopped = threading.Event()
        self._open: list[GatewayConnection] = []
        self.error: BaseException | None = None
        self.outcomes: list[str] = []
        self.parties: list[Participation] = []
        for place in range(USERS):
            state = folder / f"device-{place}"
            url = gateways[place % len(gateways)].url
            connection = GatewayConnection(
                url, device_key(state), attempts=_ATTEMPTS, sleep=self._pause
            )
            self._open.append(connection)
            self.parties.append(Participation(connection, state))
            self.parties[-1].register()

    @staticmethod
    def _pause(seconds: float) -> None:
        """A gateway that was restarted takes what is signed from the next second on."""
        time.sleep(min(seconds, 0.3))

    def run(self) -> None:
        try:
            while not self._stopped.wait(0.02):
                for place, one in enumerate(self.parties):
                    self.outcomes.append(turn(one, self._parts.devices.device(place)).what)
        except BaseException as error:
            self.error = error

    def close(self) -> None:
        for connection in self._open:
            connection.close()

    def finish(self) -> None:
        self._stopped.set()
        self.join()
        if self.error is not None:
            raise self.error


@contextlib.contextmanager
def at_work(parts: Parts, gateways: Sequence[Served], folder: Path) -> Iterator[Devices]:
    devices = Devices(parts, gateways, folder)
    devices.start()
    try:
        yield devices
    finally:
        devices.finish()
        devices.close()


def through(parts: Parts, gateways: Sequence[Served]) -> list[RoundReport]:
    nodes = {number: node(one.control) for number, one in enumerate(gateways, 1)}
    return parts.run(grid=LocalGrid(nodes), clock=SystemClock())


def adapter_of(folder: Path) -> bytes:
    """All of the server's state but the nonces, which are cohorts' or devices'."""
    with Journal.open(folder / JOURNAL) as journal:
        assert journal.state is not None
        return replace(journal.state, seen={}).to_bytes()


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_gateways_give_the_bits_of_direct_devices(
    federation: Files, tmp_path: Path, count: int
) -> None:
    with opened(federation, tmp_path / "direct", **OPTIONS, **{"signing-key": KEY}) as parts:
        wanted = parts.run()
        release = parts.publisher.registry.read()
    with contextlib.ExitStack() as stack:
        gateways = [
            stack.enter_context(serving(tmp_path / f"gateway-{number}")) for number in range(count)
        ]
        given = {**OPTIONS, "gateways": count, "signing-key": KEY}
        parts = stack.enter_context(opened(federation, tmp_path / "through", **given))
        with at_work(parts, gateways, tmp_path / "devices") as devices:
            found = through(parts, gateways)
        assert devices.outcomes.count("accepted") == 2 * USERS
        assert parts.publisher.registry.read() == release
        assert adapter_of(tmp_path / "through") == adapter_of(tmp_path / "direct")
        for one, other in zip(found, wanted, strict=True):
            assert (one.accepted, one.change_norm, one.step_norm, one.mean_norm, one.version) == (
                other.accepted, other.change_norm, other.step_norm, other.mean_norm, other.version
            )  # fmt: skip
            assert one.figures == pytest.approx(other.figures)
        # Every device gets what the last round released, and searches with it.
        manifest = parts.bundle.manifest
        public_key = parts.devices.training_setup.public_key
        for place, party in enumerate(devices.parties[:3]):
            folder = tmp_path / "devices" / f"device-{place}"
            trusted = TrustedReleases(folder / "trusted.sqlite", public_key=public_key)
            path = party.refresh(manifest, trusted)
            assert path == folder / RELEASE
            assert path.read_bytes() == release
            assert parse_adapter(release).version == "3"
            assert party.refresh(manifest, trusted) is None
        devices.close()


@pytest.mark.slow
def test_a_round_survives_a_gateway_that_is_killed_and_one_that_is_restarted(
    federation: Files, tmp_path: Path
) -> None:
    """SIGKILL in the middle of the first round, SIGTERM in the middle of the second."""
    with opened(federation, tmp_path / "direct", **OPTIONS) as parts:
        parts.run()
        release = parts.publisher.registry.read()
    with opened(federation, tmp_path / "through", **OPTIONS, gateways=1) as parts:
        with serving(tmp_path / "gateway") as first:
            served = [first]
            stopped: list[int] = []

            def disturb() -> None:
                for number, how in ((0, "kill"), (1, "stop")):
                    wait_for(served[-1], number)
                    if how == "kill":
                        served[-1].kill()
                    else:
                        stopped.append(served[-1].stop())
                    again = stack.enter_context(serving(tmp_path / "gateway", port=served[-1].port))
                    served.append(again)

            with contextlib.ExitStack() as stack:
                with at_work(parts, served, tmp_path / "devices") as devices:
                    disturbing = threading.Thread(target=disturb)
                    disturbing.start()
                    through(parts, served)
                    disturbing.join()
                assert devices.outcomes.count("accepted") == 2 * USERS
        assert stopped == [0]
        assert len(served) == 3
        assert parts.publisher.registry.read() == release


def wait_for(served: Served, number: int) -> None:
    """Until some devices' updates to round ``number`` are in, and some not."""
    accepted = 0
    for _ in range(6000):
        log = (served.folder.parent / "log.jsonl").read_text().splitlines()
        begun = [line for line in log if json.loads(line)["event"] == "round_begun"]
        accepted = sum(
            json.loads(line).get("route", "").endswith("/update")
            and json.loads(line)["status"] == 200
            for line in log
        )
        if len(begun) > number and accepted >= number * USERS + 3:
            return
        time.sleep(0.005)
    urllib.request.urlopen(served.url + "/v1/health", timeout=5).close()
    raise AssertionError(f"round {number} did not begin; {accepted} updates came")
