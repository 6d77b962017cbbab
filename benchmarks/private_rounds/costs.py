"""What a private round costs one device, bytes and processor time, and what it costs the server."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from flwr.app import Message
from private_rounds.group import (
    ANNOUNCED,
    AUTHORITY,
    FEDERATION,
    NEIGHBOURS,
    Group,
    a_change,
    secret_of,
)

from pocketquery.client.device import Declined
from pocketquery.client.offer import Offer
from pocketquery.client.private.keys import RoundSecret, derive, held_label, mark
from pocketquery.client.private.ledger import Ledger
from pocketquery.client.private.masks import neighbours
from pocketquery.client.private.messages import (
    Announcement,
    CollectedBoxes,
    Confirmation,
    Stage,
    Unmasking,
)
from pocketquery.client.private.noise import Table
from pocketquery.client.private.participant import Participant
from pocketquery.client.private.rules import DeviceRules
from pocketquery.client.private.stages import (
    Held,
    Opened,
    Seat,
    confirm,
    deal,
    holders,
    mask,
    open_boxes,
    reveal,
)
from pocketquery.client.private.state_file import StateFile
from pocketquery.client.private.transport import MESSAGE_TYPE, handle_secure, secure_records
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.server.private.coordinator import SecureSum, Skipped
from pocketquery.server.private.unmasking import Unmasked, unmask
from pocketquery_simulation.local_grid import LocalGrid

__all__ = ["NOW", "bodies_of", "device_round", "rules_of", "server_seconds"]

NOW = 1_800_000_000.0  # Unix seconds


def device_round(group: Group, offer: Offer, folder: Path, repeat: int) -> dict[str, float]:
    """Bytes as Flower serialises them, and milliseconds without the training (the median of some
    rounds), of the device at position 0, whose neighbours are all there.
    """
    bodies = bodies_of(group)
    seconds, down, up = [], 0, 0
    for number in range(repeat):
        Table.of.cache_clear()  # as in a process of its own
        neighbours.cache_clear()
        device = _Timed(_participant(group, folder / f"{group.binding.size}-{number}"))
        grid = LocalGrid({0: device})
        for stage, body in bodies.items():
            records = secure_records(stage, body, offer if stage is Stage.OFFER else None)
            message = Message(records, 0, MESSAGE_TYPE, group_id=stage.name)
            (reply,) = grid.send_and_receive([message])
            if "secure" not in reply.content.config_records:
                sys.exit(f"the device declined in stage {stage.name}")
        seconds.append(device.seconds)
        down, up = grid.traffic.down, grid.traffic.up
    return {"down": down, "up": up, "device_ms": statistics.median(seconds) * 1e3}


class _Trained:
    """A trainer that is through: training is measured for itself."""

    epoch = "epoch"

    def __init__(self, size: int) -> None:
        self.change = {"adapter": a_change(size)}

    def train(self, offer: Offer) -> _Trained | Declined:
        return self

    def forgotten(self, epoch: str) -> str | None:
        return None


class _Timed:
    """A participant, and the processor time that its messages took.

    Of this thread, the only one that works: after the norms of the drawn change numpy's other
    threads spin for a tenth of a second, which would count as the device's.
    """

    def __init__(self, participant: Participant) -> None:
        self._participant = participant
        self.seconds = 0.0

    def __call__(self, message: Message) -> Message:
        start = time.thread_time()
        reply = handle_secure(message, self._participant)
        self.seconds += time.thread_time() - start
        return reply


def _participant(group: Group, folder: Path) -> Participant:
    """The device at position 0, in no round yet; its file and its ledger lie in ``folder``."""
    folder.mkdir()
    return Participant(
        _Trained(group.binding.encoding.size),
        group.keys[0],
        group.sum.certificates[0],
        public_key_of(AUTHORITY),
        rules=rules_of(group),
        state=StateFile(folder / "secure.safetensors"),
        ledger=Ledger(folder / "privacy.json"),
        clock=lambda: NOW,
    )


def rules_of(group: Group) -> DeviceRules:
    """What the device insists on."""
    noisy = group.binding.privacy.mode == "devices"
    return DeviceRules(
        neighbours=min(NEIGHBOURS, group.binding.neighbours),
        privacy="devices" if noisy else "any",
    )


def bodies_of(group: Group) -> dict[Stage, bytes]:
    """What the device gets in each stage. Its marks do not depend on what it drew itself."""
    binding = group.binding
    near, every = binding.ring[0], tuple(range(binding.size))
    boxes = tuple(
        deal(group.seat(one), secret_of(one)).boxes[binding.place(one, 0) - 1] for one in near
    )
    places = tuple(range(len(near)))
    collection = CollectedBoxes(binding.digest, places, boxes)
    closed = replace(group.sum, stage=Stage.CONFIRM, committed=every, survivors=every)
    this = [Held(0, bytes(32), bytes(32))]
    confirms = tuple(confirm(group.seat(one), this, every, every).marks[0] for one in near)
    held = tuple(_held_mark(group, one) for one in near)
    enough = binding.threshold + max(0, 2 * binding.threshold - len(near) - 1)
    unmasking = Unmasking(
        binding.digest, places[:enough], confirms[:enough], places[: len(held)], held
    )
    return {
        Stage.OFFER: Announcement(FEDERATION, ANNOUNCED, binding.privacy).to_bytes(),
        Stage.INVITE: group.sum.message(0),
        Stage.COLLECT: collection.to_bytes(binding),
        Stage.CONFIRM: closed.message(0),
        Stage.UNMASK: unmasking.to_bytes(binding),
    }


def _held_mark(group: Group, sender: int) -> bytes:
    """That ``sender`` holds the box of the device at position 0."""
    beta, own, other = group.binding.digest, group.keys[0], group.keys[sender]
    return mark(derive(other.agree(own.public), held_label(beta, other.public, own.public)), beta)


def server_seconds(group: Group, gone: float) -> float:
    """Processor time of the server over a whole group, of whom the share ``gone`` is, after they
    dealt boxes. The devices' work is done in between, and does not count.
    """
    size, devices = group.binding.size, _Devices(group)
    silent = set(range(1, size, round(1 / gone)))
    value, seconds = group.sum, 0.0
    while True:
        replies: dict[int, bytes] = {}
        for one in value.asked:
            start = time.process_time()
            body = value.message(one)
            seconds += time.process_time() - start
            if value.stage is Stage.INVITE or one not in silent:
                replies[one] = devices.answer(value, one, body)
        for one, reply in replies.items():
            start = time.process_time()
            value, wrong = value.receive(value.stage, one, reply)
            seconds += time.process_time() - start
            assert wrong is None, wrong
        if value.stage is Stage.UNMASK:
            break
        start = time.process_time()
        closed = value.close()
        seconds += time.process_time() - start
        assert not isinstance(closed, Skipped), closed
        value = closed
    start = time.process_time()
    found = unmask(value)
    seconds += time.process_time() - start
    assert isinstance(found, Unmasked), found
    assert len(found.survivors) == size - len(silent)
    return seconds


class _Devices:
    """The devices of a group: what they compute, without files and rules."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._opened: dict[int, list[Opened]] = {}

    def answer(self, value: SecureSum, position: int, body: bytes) -> bytes:
        """The body of a device's reply."""
        step: dict[Stage, Callable[[SecureSum, Seat, RoundSecret, bytes], bytes]] = {
            Stage.INVITE: lambda value, seat, secret, body: deal(seat, secret).to_bytes(),
            Stage.COLLECT: self._mask,
            Stage.CONFIRM: self._confirm,
            Stage.UNMASK: self._reveal,
        }
        seat = self._group.seat(position)
        return step[value.stage](value, seat, secret_of(position), body)

    def _mask(self, value: SecureSum, seat: Seat, secret: RoundSecret, body: bytes) -> bytes:
        opened = open_boxes(seat, CollectedBoxes.parse(body, value.binding))
        self._opened[seat.position] = opened
        change = a_change(value.binding.encoding.size, seat.position)
        return mask(seat, secret, opened, change).to_bytes()

    def _confirm(self, value: SecureSum, seat: Seat, secret: RoundSecret, body: bytes) -> bytes:
        said = Confirmation.parse(body, value.binding)
        return confirm(seat, self._held(seat), said.committed, said.survivors).to_bytes()

    def _reveal(self, value: SecureSum, seat: Seat, secret: RoundSecret, body: bytes) -> bytes:
        said = Unmasking.parse(body, value.binding)
        named = holders(seat, said)
        return reveal(seat, self._held(seat), value.held, named).to_bytes()

    def _held(self, seat: Seat) -> list[Held]:
        return [one.held for one in self._opened[seat.position]]
