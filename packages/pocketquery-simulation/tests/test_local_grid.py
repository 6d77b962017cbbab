"""The in-process grid: real Flower messages over the wire form, one device at a time."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.serde import message_to_proto
from flwr.serverapp import Grid

from pocketquery_simulation.local_grid import (
    Fault,
    FaultPlan,
    LocalGrid,
)


class Counting:
    """A device that answers with the round and how often anybody was asked before."""

    def __init__(self) -> None:
        self.handled: list[int] = []

    def __call__(self, message: Message) -> Message:
        self.handled.append(message.metadata.dst_node_id)
        content = message.content.array_records["down"]["bytes"].numpy()
        return Message(
            RecordDict({"up": ArrayRecord([content[:4]]), "of": ConfigRecord({"n": len(content)})}),
            reply_to=message,
        )


def grid_of(nodes: int, faults: FaultPlan | None = None) -> tuple[LocalGrid, Counting]:
    client = Counting()
    return LocalGrid(dict.fromkeys(range(100, 100 + nodes), client), faults), client


def message(node: int, group: str = "0") -> Message:
    content = RecordDict({"down": ArrayRecord({"bytes": _array(1000)})})
    return Message(content, node, "train", group_id=group)


def _array(length: int) -> object:
    from flwr.app import Array

    return Array(np.arange(length, dtype=np.uint8))


def drain(grid: Grid, ids: list[str], pulls: int = 30) -> list[Message]:
    return [reply for _ in range(pulls) for reply in grid.pull_messages(ids)]


def test_a_device_runs_when_its_reply_is_pulled_and_one_at_a_time() -> None:
    grid, client = grid_of(3)
    ids = grid.push_messages([message(node) for node in grid.get_node_ids()])
    assert client.handled == []
    (first,) = grid.pull_messages(ids)
    assert client.handled == [100]
    assert first.metadata.reply_to_message_id == ids[0]
    assert first.metadata.src_node_id == 100
    np.testing.assert_array_equal(
        first.content.array_records["up"].to_numpy_ndarrays()[0], np.arange(4, dtype=np.uint8)
    )
    assert len(grid.pull_messages(ids)) == len(grid.pull_messages(ids)) == 1
    assert client.handled == [100, 101, 102]
    assert grid.pull_messages(ids) == []


def test_what_is_counted_is_the_serialised_messages() -> None:
    grid, _ = grid_of(2)
    sent = [message(node) for node in grid.get_node_ids()]
    replies = grid.send_and_receive(sent)
    assert grid.traffic.down == sum(len(message_to_proto(one).SerializeToString()) for one in sent)
    assert grid.traffic.up == sum(len(message_to_proto(one).SerializeToString()) for one in replies)
    assert (grid.traffic.messages, grid.traffic.replies) == (2, 2)
    assert 1000 < grid.traffic.down / 2 < 1500


def test_each_fault_does_what_it_says() -> None:
    plan = {100: Fault.DIES, 101: Fault.NEVER, 102: Fault.LATE, 103: Fault.TWICE}
    grid, client = grid_of(5, lambda node, group: plan.get(node, Fault.NONE))
    ids = grid.push_messages([message(node) for node in grid.get_node_ids()])
    replies = drain(grid, ids)
    assert [reply.metadata.src_node_id for reply in replies] == [100, 103, 103, 104]
    assert replies[0].has_error()
    assert replies[0].error.reason == "ConnectionResetError: the device died"
    assert client.handled == [101, 102, 103, 104]
    later = grid.push_messages([message(104, "1")])
    late = drain(grid, ids + later)
    assert [reply.metadata.group_id for reply in late] == ["0", "1"]
    assert late[0].metadata.src_node_id == 102


def test_a_device_that_was_not_needed_in_its_round_never_trains() -> None:
    grid, client = grid_of(3)
    ids = grid.push_messages([message(node) for node in grid.get_node_ids()])
    grid.pull_messages(ids)
    later = grid.push_messages([message(100, "1")])
    drain(grid, ids + later)
    assert client.handled == [100, 100]


def test_a_device_that_raises_is_an_error_reply_and_an_interruption_is_not() -> None:
    def broken(message: Message) -> Message:
        raise ValueError("out of memory")

    def interrupted(message: Message) -> Message:
        raise KeyboardInterrupt

    grid = LocalGrid({1: broken, 2: interrupted})
    (reply,) = grid.send_and_receive([message(1)])
    assert reply.error.reason == "ValueError: out of memory"
    with pytest.raises(KeyboardInterrupt):
        grid.send_and_receive([message(2)])


def test_it_is_a_grid_as_flower_defines_one() -> None:
    grid, _ = grid_of(2)
    assert isinstance(grid, Grid)
    assert [node.node_id for node in grid.get_nodes()] == [100, 101]
    made = grid.create_message(RecordDict(), "train", 100, "7", ttl=5.0)
    assert (made.metadata.group_id, made.metadata.ttl) == ("7", 5.0)
    grid.set_run(grid.run)
    assert grid.run.run_id == 1
