"""Whole buffered rounds: real devices that train, gateway processes, the server's driver."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from serve_gateway import Served, serving
from test_rounds import Devices, through
from turns import turn

from pocketquery.client.device import Answer, Answering, Contribution
from pocketquery.client.offer import Offer
from pocketquery.client.update import decode_update
from pocketquery.server.federation.orchestration.federation import JOURNAL
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.federation.rounds.round import close_round, receive
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_join.connection import GatewayConnection, device_key
from pocketquery_join.participation import Participation
from tests.server.federation.small_federation import Files, Parts, opened

K = 6
SLOW, BETWEEN = 6, 8  # devices that begin in the first step and send after it
TIMES = {0: 2, 1: 2, 2: 1, 3: 2, 4: 1, 5: 2, SLOW: 1, BETWEEN: 1}
OPTIONS = {"mode": "buffered", "clients-per-round": K, "rounds": 2, "shards": 3, "deadline": 300.0}


class Part(threading.Thread):
    """One device at its gateway, until it has counted as often as :data:`TIMES` says."""

    def __init__(self, parts: Parts, place: int, gateway: Served, folder: Path) -> None:
        super().__init__()
        self.place = place
        self.updates: list[bytes] = []
        self.error: BaseException | None = None
        self.begins, self.began, self.stopped = (threading.Event() for _ in range(3))
        self.may_send: Callable[[Offer], bool] = lambda offer: True
        self._parts, self._times = parts, TIMES[place]
        self._connection = GatewayConnection(
            gateway.url, device_key(folder), attempts=1000, sleep=Devices._pause
        )
        self.party = Participation(self._connection, folder)
        self.party.register()

    def run(self) -> None:
        try:
            self.begins.wait()
            while self._times and not self.stopped.wait(0.02):
                said = turn(self.party, self)
                assert said.what in ("accepted", "idle"), said
                self._times -= said.what == "accepted"
        except BaseException as error:
            self.error = error
        finally:
            self.began.set()
            self._connection.close()

    def answer(self, offer: Offer) -> Answer:
        """What the device answers, once it may send it."""
        device: Answering = self._parts.devices.device(self.place)
        given = device.answer(offer)
        assert isinstance(given, Contribution)
        self.updates.append(given.update)
        self.began.set()
        while not self.may_send(offer) and not self.stopped.wait(0.05):
            pass
        return given

    def is_offered_the_second(self) -> bool:
        """Whether the gateway has begun the second step."""
        found, _ = self.party.ask()
        return found is not None and found.round == 1


@dataclass(frozen=True)
class Log:
    """What a gateway says of updates."""

    gateway: Served

    def count(self, status: int) -> int:
        """How many it answered so."""
        lines = (self.gateway.folder.parent / "log.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in lines]
        return sum(
            one.get("route", "").endswith("/update") and one["status"] == status for one in found
        )


@contextlib.contextmanager
def fleet(parts: Parts, gateways: Sequence[Served], folder: Path) -> Iterator[dict[int, Part]]:
    """Two devices begin first and send last: one while the first gateway has answered and, where
    there is a second, waits for that; the other in the second step."""
    devices = {
        place: Part(parts, place, gateways[place % len(gateways)], folder / f"device-{place}")
        for place in TIMES
    }
    log, share = Log(gateways[0]), K // len(gateways)
    slow, between, last = devices[SLOW], devices[BETWEEN], devices[5]
    slow.may_send = lambda offer: slow.is_offered_the_second()
    between.may_send = lambda offer: log.count(200) >= share
    if len(gateways) > 1:
        last.may_send = lambda offer: offer.round == 1 or log.count(503) > 0
    for device in devices.values():
        device.start()
    try:
        yield devices
    finally:
        for device in devices.values():
            device.stopped.set()
            device.begins.set()
        for device in devices.values():
            device.join()
    for device in devices.values():
        if device.error is not None:
            raise device.error


def begin(devices: dict[int, Part]) -> None:
    """The two that are slow take the first offers."""
    for place in (SLOW, BETWEEN):
        devices[place].begins.set()
    for place in (SLOW, BETWEEN):
        devices[place].began.wait()
    for device in devices.values():
        device.begins.set()


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_slow_devices_count_in_the_step_after_with_their_discount(
    federation: Files, tmp_path: Path, count: int
) -> None:
    with contextlib.ExitStack() as stack:
        gateways = [
            stack.enter_context(serving(tmp_path / f"gateway-{number}")) for number in range(count)
        ]
        parts = stack.enter_context(
            opened(federation, tmp_path / "through", **OPTIONS, gateways=count)
        )
        with fleet(parts, gateways, tmp_path / "devices") as devices:
            beginning = threading.Thread(target=begin, args=(devices,))
            beginning.start()
            rows = through(parts, gateways)
            beginning.join()
        assert [(row.accepted, row.staleness, row.version) for row in rows] == [
            (K, 0, "2"), (K, 2 / K, "3"),
        ]  # fmt: skip
        assert not any(row.quarantined for row in rows)
        with Journal.open(tmp_path / "through" / JOURNAL) as journal:
            found = journal.state
        # The same updates, sent to a server without gateways, give the same bits.
        state, settings = parts.first, parts.options.settings
        for number in range(2):
            step = open_round(state, settings)
            for data in updates_of(devices, number):
                step, receipt = receive(step, data, 0.0)
                assert receipt.accepted, receipt
            candidate, report = close_round(step)
            assert report.mean_norm == rows[number].mean_norm
            state = candidate.released(str(number + 2))
        assert found is not None
        assert same_but_nonces(found) == same_but_nonces(state)


def updates_of(devices: dict[int, Part], number: int) -> list[bytes]:
    """What was sent to the step ``number``; the slow ones began before it."""
    found = []
    for place, device in devices.items():
        for data in device.updates:
            began = decode_update(data).header.round
            if began + (place in (SLOW, BETWEEN)) == number:
                found.append(data)
    return found


def same_but_nonces(state: FederationState) -> bytes:
    """All of a state but the nonces, which are cohorts' or devices'."""
    return replace(state, seen={}).to_bytes()
