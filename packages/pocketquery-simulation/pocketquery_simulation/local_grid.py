"""Flower's Grid within this process: thousands of simulated devices, one after another.

A device lives only while it answers, so memory is one device's. Nothing runs in the background and
no clock decides anything: the order of replies is the order in which the messages were pushed, and
one seed gives the same bits. Messages cross a real wire form both ways (Flower's protobuf), so what
a simulated device sees is what a device sees.

Faults are part of it: a device may die, stay silent, reply after the round or reply twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from flwr.app import Error, Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as WireMessage
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

__all__ = ["Client", "Fault", "FaultPlan", "LocalGrid", "Traffic"]

Client: TypeAlias = Callable[[Message], Message]
"""A device: it gets a message and gives the reply, or raises."""


class Fault(StrEnum):
    """What may go wrong between a device and the server."""

    NONE = "none"
    DIES = "dies"  # before it does anything; the SuperNode reports an error
    NEVER = "never"  # it trains, but its reply is lost
    LATE = "late"  # its reply comes after the next round was begun
    TWICE = "twice"  # its reply comes twice


FaultPlan: TypeAlias = Callable[[int, str], Fault]
"""The fault of a node (its id) in a round, or in a stage of one (the message's group id)."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of the serialised messages that went over the grid.

    Attributes:
        down, up: to the devices and from them.
        messages, replies: how many those were.
    """

    down: int = 0
    up: int = 0
    messages: int = 0
    replies: int = 0


class LocalGrid(Grid):
    """Devices by node id. A device runs when its reply is pulled, one a call.

    Args:
        clients: what handles a node's messages.
        faults: what goes wrong where; by default nothing.
        keeps: whether who was not needed in one round still trains in the next, as in buffered
            rounds.
    """

    def __init__(
        self,
        clients: Mapping[int, Client],
        faults: FaultPlan | None = None,
        *,
        keeps: bool = False,
    ) -> None:
        self._keeps = keeps
        self._clients = clients
        self._faults = faults or (lambda node, group: Fault.NONE)
        self._waiting: dict[str, bytes] = {}  # messages that no device has handled yet
        self._ready: dict[str, list[bytes]] = {}  # replies to hand out
        self._late: dict[str, bytes] = {}  # replies that come with the next round
        self._group: str | None = None
        self._run = Run.create_empty(run_id=1)
        self._traffic = Traffic()
        # Whose messages this process makes: where no SuperLink says so, the grid does.
        TaskIdentity.task_id, TaskIdentity.run_id = 1, self._run.run_id
        TaskIdentity.node_id = SUPERLINK_NODE_ID

    @property
    def traffic(self) -> Traffic:
        """What went over the grid so far."""
        return self._traffic

    @property
    def run(self) -> Run:
        """The one run of this grid."""
        return self._run

    def set_run(self, run: Run) -> None:
        """Set the run."""
        self._run = run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """A message; Flower itself now prefers the constructor."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """All devices, in the order they were given."""
        return list(self._clients)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Take messages for devices; nothing is handled before its reply is pulled."""
        ids = []
        for message in messages:
            metadata = message.metadata
            metadata.__dict__["_message_id"] = message.object_id  # as Flower's own grids do
            wire = _to_wire(message)
            self._count(down=len(wire), messages=1)
            self._begin(metadata.group_id)
            self._waiting[metadata.message_id] = wire
            ids.append(metadata.message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Replies that are there; where none is, the next device runs. Empty: nothing more comes.

        Only a device that stays silent, or is late, gives an empty list while others still wait;
        ask again, as one asks a network.
        """
        wanted = list(message_ids)
        ready = [one for one in wanted if one in self._ready]
        if not ready:
            due = next((one for one in wanted if one in self._waiting), None)
            if due is not None:
                self._handle(due)
            ready = [due] if due in self._ready else []
        replies = [wire for one in ready for wire in self._ready.pop(one)]
        self._count(up=sum(map(len, replies)), replies=len(replies))
        return [_from_wire(wire) for wire in replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """The replies of all devices that reply; ``timeout`` has no meaning here."""
        ids = self.push_messages(messages)
        replies = []
        while any(one in self._waiting or one in self._ready for one in ids):
            replies += self.pull_messages(ids)
        return replies

    def _handle(self, message_id: str) -> None:
        """Let one device answer; what it does wrong becomes a reply, as in a SuperNode."""
        message = _from_wire(self._waiting.pop(message_id))
        node, group = message.metadata.dst_node_id, message.metadata.group_id
        fault = self._faults(node, group)
        try:
            if fault is Fault.DIES:
                raise ConnectionResetError("the device died")
            reply = self._clients[node](message)
        except Exception as error:
            code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            reply = Message(Error(code, f"{type(error).__name__}: {error}"), reply_to=message)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        wire = _to_wire(reply)
        if fault is Fault.LATE:
            self._late[message_id] = wire
        elif fault is not Fault.NEVER:
            self._ready[message_id] = [wire, wire] if fault is Fault.TWICE else [wire]

    def _begin(self, group: str) -> None:
        """A message of another round or stage: what is late comes now; who was not needed never
        trains."""
        if group == self._group:
            return
        self._group = group
        if not self._keeps:
            self._waiting.clear()
        self._ready |= {message_id: [wire] for message_id, wire in self._late.items()}
        self._late.clear()

    def _count(self, *, down: int = 0, up: int = 0, messages: int = 0, replies: int = 0) -> None:
        seen = self._traffic
        self._traffic = Traffic(
            seen.down + down, seen.up + up, seen.messages + messages, seen.replies + replies
        )


def _to_wire(message: Message) -> bytes:
    wire: bytes = message_to_proto(message).SerializeToString()
    return wire


def _from_wire(data: bytes) -> Message:
    return message_from_proto(WireMessage.FromString(data))
