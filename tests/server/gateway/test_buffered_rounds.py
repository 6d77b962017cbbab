"""Whole buffered rounds: real devices that train, gateway processes, the server's driver."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pocketquery.client.device import Answer, Contribution, Offer
from pocketquery.client.gateway.connection import GatewayConnection, device_key
from pocketquery.client.gateway.participation import Answering, Participation
from pocketquery.client.update import decode_update
from pocketquery.server.federation.rounds.federation import JOURNAL
from pocketquery.server.federation.rounds.journal import Journal
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.federation.rounds.round import close_round, receive
from pocketquery.server.federation.rounds.state import FederationState
from tests.server.federation.small_federation import Files, Parts, opened
from tests.server.gateway.serve_gateway import Served, serving
from tests.server.gateway.test_rounds import Devices, through

SLOW = 6
OPTIONS = {"mode": "buffered", "clients-per-round": 6, "rounds": 2, "shards": 3, "deadline": 300.0}


class Part(threading.Thread):
    """One device at its gateway, which counts ``times`` times and then goes.

    Args:
        parts: of the federation.
        place: which device.
        gateway: where it is registered.
        folder: of its files.
        times: how often it takes part.
        waits: what it waits for before its first question.
    """

    def __init__(
        self, parts: Parts, place: int, gateway: Served, folder: Path, times: int,
        waits: threading.Event,
    ) -> None:  # fmt: skip
        super().__init__()
        self.place = place
        self.updates: list[bytes] = []
        self.error: BaseException | None = None
        self.offered, self.stopped = threading.Event(), threading.Event()
        self._parts, self._times, self._waits = parts, times, waits
        self._connection = GatewayConnection(
            gateway.url, device_key(folder), attempts=100, sleep=Devices._pause
        )
        self.party = Participation(self._connection, folder)
        self.party.register()

    def run(self) -> None:
        try:
            self._waits.wait()
            while self._times and not self.stopped.wait(0.02):
                said = self.party.take_part(self)
                assert said.what in ("accepted", "idle"), said
                self._times -= said.what == "accepted"
        except BaseException as error:
            self.error = error
        finally:
            self.offered.set()
            self._connection.close()

    def answer(self, offer: Offer) -> Answer:
        """What the device answers, and where it is the slow one, not before the next offer."""
        device: Answering = self._parts.devices.device(self.place)
        given = device.answer(offer)
        assert isinstance(given, Contribution)
        self.updates.append(given.update)
        self.offered.set()
        while self.place == SLOW and offer.round == 0 and not self.stopped.is_set():
            found, _ = self.party.ask()
            if found is not None and found.offer.round == 1:
                break
            self.stopped.wait(0.05)
        return given


@contextlib.contextmanager
def fleet(parts: Parts, gateways: Sequence[Served], folder: Path) -> Iterator[list[Part]]:
    """Seven devices: six make the first step, five of them and the slow one the second."""
    at_once = threading.Event()
    at_once.set()
    slow = Part(parts, SLOW, gateways[0], folder / "device-slow", 1, at_once)
    devices = [
        Part(parts, place, gateways[place % len(gateways)], folder / f"device-{place}",
             1 if place == 4 else 2, slow.offered)
        for place in range(SLOW)
    ]  # fmt: skip
    devices.append(slow)
    for device in devices:
        device.start()
    try:
        yield devices
    finally:
        for device in devices:
            device.stopped.set()
        for device in devices:
            device.join()
    for device in devices:
        if device.error is not None:
            raise device.error


@pytest.mark.parametrize("count", [1, 2])
def test_a_slow_device_counts_in_the_step_after_with_its_discount(
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
            rows = through(parts, gateways)
        assert [(row.accepted, row.staleness, row.version) for row in rows] == [
            (6, 0, "2"), (6, 1 / 6, "3"),
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


def updates_of(devices: Sequence[Part], number: int) -> list[bytes]:
    """What was sent to the step ``number``: of the slow device, what it began before."""
    fast = [data for one in devices[:SLOW] for data in one.updates]
    late = devices[SLOW].updates if number else []
    assert all(decode_update(data).header.round == 0 for data in late)
    return [data for data in fast if decode_update(data).header.round == number] + late


def same_but_nonces(state: FederationState) -> bytes:
    """All of a state but the nonces, which are cohorts' or devices'."""
    return replace(state, seen={}).to_bytes()
