"""Whole private rounds through gateways: real devices that train and mask, gateway processes, the
server's driver."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from serve_gateway import Served, serving
from test_rounds import Devices, adapter_of
from test_rounds import node as plain_node
from turns import turn

from pocketquery.client.device import Declined
from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.participant import Participant
from pocketquery.client.private.state_file import StateFile
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.server.federation.orchestration.clock import SystemClock
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery_gateway.cohorts.records import RELAY
from pocketquery_gateway.control_client import Control
from pocketquery_gateway.node import relay
from pocketquery_join.connection import GATEWAY_KEY
from pocketquery_simulation.local_grid import Fault, FaultPlan, LocalGrid
from tests.server.federation.small_federation import USERS, Files, Parts, opened

OPTIONS: dict[str, Any] = {
    "secure": "on", "secure-least": 4, "rest": 1, "clients-per-round": USERS,
    "over-selection": 1.0, "deadline": 120.0, "stage-deadline": 90.0,
}  # fmt: skip
SECOND = 1  # the place of the device that drops, or leaves


def node(control: Control) -> Callable[[Message], Message]:
    """What a SuperNode's ClientApp does with a message."""

    def handle(message: Message) -> Message:
        if message.metadata.message_type == RELAY:
            return relay(message, control)
        return plain_node(control)(message)

    return handle


def through(parts: Parts, gateways: Sequence[Served]) -> list[RoundReport]:
    sockets = [one.folder / "gateway.sock" for one in gateways]
    nodes = {number: node(Control(path)) for number, path in enumerate(sockets, 1)}
    return parts.run(grid=LocalGrid(nodes), clock=SystemClock())


def gone(faults: Mapping[tuple[str, int], Fault]) -> FaultPlan:
    """Faults by stage and place."""
    return lambda node, group: faults.get((group, node - 1), Fault.NONE)


@dataclass
class Spied:
    """A device in private rounds that remembers what it sent."""

    participant: Participant
    sent: dict[int, list[bytes]]

    def answer(self, stage: int, body: bytes, offer: Offer | None = None) -> bytes | Declined:
        found = self.participant.answer(stage, body, offer)
        assert isinstance(found, bytes), found
        self.sent.setdefault(int(stage), []).append(found)
        return found

    def give_up(self, round: int) -> None:
        self.participant.give_up(round)


@dataclass
class Turn:
    """The outcome of one turn of a device."""

    place: int
    round: int
    what: str


class PrivateDevices(Devices):
    """The federation's devices, enrolled, one after another until stopped; they wait for nothing.

    Attributes:
        after: called after each turn.
        gone: places of devices that do nothing any more.
        sent: replies by stage.
    """

    def __init__(
        self,
        parts: Parts,
        gateways: Sequence[Served],
        folder: Path,
        after: Callable[[PrivateDevices, Turn], None] = lambda devices, turn: None,
    ) -> None:
        super().__init__(parts, gateways, folder)
        self.after = after
        self.gone: set[int] = set()
        self.sent: dict[int, list[bytes]] = {}
        self.turns: list[Turn] = []

    def participant(self, place: int) -> Spied:
        devices = self._parts.devices
        assert devices.enrolment is not None
        device, name = devices.device(place), devices.names[place]
        return Spied(devices.enrolment.participant(device, name, place), self.sent)

    def run(self) -> None:
        try:
            while not self._stopped.wait(0.02):
                for place, one in enumerate(self.parties):
                    if place in self.gone:
                        continue
                    number, device = one.private.round, self._parts.devices.device(place)
                    outcome = turn(one, device, self.participant(place))
                    taken = Turn(place, number if number is not None else -1,
                                f"{outcome.what} {outcome.detail}".strip())  # fmt: skip
                    if outcome.what not in ("idle", "waiting"):
                        self.turns.append(taken)
                        self.after(self, taken)
        except BaseException as error:
            self.error = error

    def count(self, what: str) -> int:
        return sum(turn.what == what for turn in self.turns)


@contextlib.contextmanager
def at_work(
    parts: Parts,
    gateways: Sequence[Served],
    folder: Path,
    after: Callable[[PrivateDevices, Turn], None] = lambda devices, turn: None,
) -> Iterator[PrivateDevices]:
    devices = PrivateDevices(parts, gateways, folder, after)
    devices.start()
    try:
        yield devices
    finally:
        devices.finish()
        devices.close()


def leave_after_masking(devices: PrivateDevices, turn: Turn) -> None:
    """In the first round one device has its gateway forget it, once its change is masked; in the
    second it is back."""
    party = devices.parties[SECOND]
    if (turn.place, turn.round, turn.what) == (SECOND, 0, "answered stage 3"):
        party.leave()
        devices.gone.add(SECOND)
    elif turn.what == "ready" and devices.count("ready") > USERS and SECOND in devices.gone:
        devices.gone.remove(SECOND)
        party.register()


def same(found: Sequence[RoundReport], wanted: Sequence[RoundReport]) -> None:
    """Reports tell the same of the sums."""
    for one, other in zip(found, wanted, strict=True):
        names = ("accepted", "change_norm", "step_norm", "weight", "version", "filled_shards")
        assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]
        assert {**one.stages, "revealed": 0} == {**other.stages, "revealed": 0}


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_gateways_give_the_bits_of_direct_devices(
    federation: Files, tmp_path: Path, rounds: int
) -> None:
    """Two groups that span both gateways; one device leaves once it has masked."""
    given = {**OPTIONS, "rounds": rounds, "secure-groups": 2, "aggregation": "mean"}
    faults = {("0.4", SECOND): Fault.NEVER}
    with opened(federation, tmp_path / "direct", **given) as parts:
        wanted = parts.run(gone(faults))
        release = parts.publisher.registry.read()
    with contextlib.ExitStack() as stack:
        gateways = [stack.enter_context(serving(tmp_path / f"{number}")) for number in range(2)]
        parts = stack.enter_context(opened(federation, tmp_path / "through", **given, gateways=2))
        with at_work(parts, gateways, tmp_path / "keys", leave_after_masking):
            found = through(parts, gateways)
        same(found, wanted)
        assert parts.publisher.registry.read() == release
        assert adapter_of(tmp_path / "through") == adapter_of(tmp_path / "direct")


def pieces(data: bytes) -> list[bytes]:
    """Slices that are in no other bytes by chance."""
    return [data[at : at + 24] for at in range(0, len(data) - 24, max(24, len(data) // 4))]


@dataclass
class Watch:
    """Looks into a gateway's files after each turn of a device, and kills it after some.

    Attributes:
        parts: of the server.
        served: the gateway, and those that were started in its place.
        kill_after: how many devices have answered a stage where it is killed, by stage.
        found: the stages whose replies were in a file, by the stage that was being answered.
    """

    parts: Parts
    served: list[Served]
    stack: contextlib.ExitStack
    kill_after: dict[int, int]
    found: dict[str, set[int]] = field(default_factory=dict)
    changes: list[bytes] = field(default_factory=list)

    def __call__(self, devices: PrivateDevices, turn: Turn) -> None:
        if turn.what == "ready":
            path = self.parts.work / "devices" / f"{turn.place:06d}.secure.safetensors"
            state = StateFile(path).load()
            assert state is not None
            assert state.change.size
            self.changes.append(state.change.tobytes())
        self.look(devices, turn.what)
        for stage, count in list(self.kill_after.items()):
            if turn.what.endswith(f"stage {stage}") and devices.count(turn.what) == count:
                del self.kill_after[stage]
                folder, port = self.served[-1].folder.parent, self.served[-1].port
                self.served[-1].kill()
                self.served.append(self.stack.enter_context(serving(folder, port=port)))
                self.look(devices, turn.what)

    def look(self, devices: PrivateDevices, now: str) -> None:
        folder = self.served[-1].folder.parent
        files = [path for path in folder.rglob("*") if path.is_file()]
        held = b"".join(path.read_bytes() for path in files)
        for change in self.changes:
            assert not any(piece in held for piece in pieces(change)), "an unmasked change"
        for stage, bodies in devices.sent.items():
            # beta and position are in the server's messages; a masked change is behind marks
            start = {Stage.OFFER: 0, Stage.COLLECT: -2000}.get(Stage(stage), 36)
            secret = [body[start:] for body in bodies]
            if any(piece in held for one in secret for piece in pieces(one)):
                self.found.setdefault(now, set()).add(stage)


@pytest.mark.slow
def test_a_gateway_that_is_killed_loses_nothing_and_writes_no_change(
    federation: Files, tmp_path: Path
) -> None:
    """SIGKILL while masked changes come, and while shares do; what is over is overwritten."""
    given = {**OPTIONS, "rounds": 1}
    with opened(federation, tmp_path / "direct", **given) as parts:
        wanted = parts.run()
        release = parts.publisher.registry.read()
    with contextlib.ExitStack() as stack:
        served = [stack.enter_context(serving(tmp_path / "gateway"))]
        parts = stack.enter_context(opened(federation, tmp_path / "through", **given, gateways=1))
        watch = Watch(parts, served, stack, {3: 5, 4: 4})
        with at_work(parts, served, tmp_path / "keys", watch) as devices:
            found = through(parts, served)
        assert len(served) == 3
        same(found, wanted)
        assert parts.publisher.registry.read() == release
        # Five masked changes were asked for anew, the confirm marks were not.
        assert (devices.count("answered stage 3"), devices.count("answered stage 4")) == (17, 12)
        assert {turn.what for turn in devices.turns if turn.round == 0} == {
            "answered stage 2", "answered stage 3", "answered stage 4", "accepted",
        }  # fmt: skip
        # What is searched for is found while it is on its way, and no masked change ever is.
        assert watch.found["ready"] == {1}
        assert watch.found["answered stage 2"] == {1, 2}
        assert watch.found["answered stage 3"] == {2}
        assert watch.found["answered stage 4"] == {4}
        assert {5} <= watch.found["accepted"] <= {4, 5}  # of confirm marks, those that go on
        watch.look(devices, "over")
        assert "over" not in watch.found
        log = (tmp_path / "gateway" / "log.jsonl").read_text()
        for place in range(USERS):
            key = (tmp_path / "keys" / f"device-{place}" / GATEWAY_KEY).read_bytes()
            assert public_key_of(key).hex()[:12] not in log
        said = [json.loads(line) for line in log.splitlines()]
        assert [one["stage"] for one in said if one["event"] == "stage_begun"] == [2, 3, 4, 5]


@pytest.mark.slow
def test_a_device_that_falls_silent_is_waited_for_as_long_as_a_stage_lasts(
    federation: Files, tmp_path: Path
) -> None:
    """One before it masks, one after: the sum is that of the others and of the second."""
    given = {**OPTIONS, "rounds": 1, "stage-deadline": 20.0}
    faults = {("0.3", 0): Fault.NEVER, ("0.4", SECOND): Fault.NEVER}
    with opened(federation, tmp_path / "direct", **given) as parts:
        wanted = parts.run(gone(faults))
        release = parts.publisher.registry.read()

    def drop(devices: PrivateDevices, turn: Turn) -> None:
        if (turn.place, turn.what) in ((0, "answered stage 2"), (SECOND, "answered stage 3")):
            devices.gone.add(turn.place)

    with contextlib.ExitStack() as stack:
        gateways = [stack.enter_context(serving(tmp_path / f"{number}")) for number in range(2)]
        parts = stack.enter_context(opened(federation, tmp_path / "through", **given, gateways=2))
        with at_work(parts, gateways, tmp_path / "keys", drop):
            found = through(parts, gateways)
        same(found, wanted)
        assert found[0].stages["survivors"] == USERS - 1
        assert parts.publisher.registry.read() == release
