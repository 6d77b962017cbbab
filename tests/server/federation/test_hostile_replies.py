"""No reply ends a round, whatever is in it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from flwr.app import Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.offer import Offer
from pocketquery.client.records import read_reply
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.rounds import validation
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.federation.rounds.round import receive
from pocketquery.server.federation.rounds.validation import Quarantined, Reason, validate
from pocketquery_simulation.local_grid import LocalGrid
from tests.server.federation.hostile_replies import (
    BOMBS,
    NPY_HEADERS,
    container,
    fuzz,
    npy,
    packed,
    reply_of,
    tensor,
)
from tests.server.federation.replies import SETTINGS, reply, small_state

# An adapter as large as the reference student's, so that size alone refuses none of these.
EXPECTED = dataclasses.replace(
    open_round(small_state(), SETTINGS).expected, shapes={"adapter.layers.0.query.up": (4608, 8)}
)


@pytest.fixture(autouse=True)
def task() -> None:
    """Messages are made by a task; here by this one."""
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1


def quarantined(data: bytes) -> Quarantined:
    found = validate(data, EXPECTED)
    assert isinstance(found, Quarantined)
    return found


@pytest.mark.parametrize("number", range(len(NPY_HEADERS)))
def test_an_array_with_a_header_that_is_not_ours_reaches_validation_as_it_is(number: int) -> None:
    for version in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        data = npy(NPY_HEADERS[number], version=version)
        found = read_reply(reply_of(Message(RecordDict(), 1, "train"), data))
        assert found.update == data
        assert quarantined(data).reason == Reason.MALFORMED


@given(st.binary(max_size=200), st.binary(max_size=30))
def test_no_header_of_an_array_raises(header: bytes, content: bytes) -> None:
    data = npy(header, content)
    assert read_reply(reply_of(Message(RecordDict(), 1, "train"), data)).update == data


@pytest.mark.parametrize("number", range(len(BOMBS)))
def test_a_bomb_is_quarantined_by_its_name(number: int, caplog: pytest.LogCaptureFixture) -> None:
    found = quarantined(BOMBS[number])
    assert found.reason in (Reason.MALFORMED, Reason.WRONG_SCHEMA)
    assert not found.detail.startswith("reading it raised")  # by the codec, not by the net below it
    assert not caplog.records


@given(
    st.lists(st.integers(0, 2**70) | st.sampled_from([2**63 - 1, 10**4200]), max_size=300),
    st.lists(st.integers(0, 2**70), max_size=3),
)
def test_no_shape_raises(shape: list[int], offsets: list[int]) -> None:
    assert quarantined(tensor(str(shape), str(offsets)))


@given(st.recursive(st.just("1"), lambda inner: inner.map(lambda text: f"[{text}]"), max_leaves=1))
def test_no_nesting_raises(text: str) -> None:
    assert quarantined(container(f'{{"a":{text}}}'.encode()))


def test_what_raises_nevertheless_is_quarantined_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(data: bytes) -> None:
        raise ZeroDivisionError(data)

    monkeypatch.setattr(validation, "decode_update", broken)
    opened, receipt = receive(open_round(small_state(), SETTINGS), reply(1), 0.0)
    assert (receipt.reason, receipt.detail) == (
        Reason.MALFORMED,
        "reading it raised ZeroDivisionError",
    )
    assert dict(opened.quarantined) == {"malformed": 1}
    assert "ZeroDivisionError" in caplog.text


class Unpackable(LocalGrid):
    """A grid that cannot unpack the replies of one node, as Flower's raises where it cannot."""

    def __init__(self, nodes: int, bad: int, error: Exception) -> None:
        super().__init__(dict.fromkeys(range(nodes), self._client))
        self._bad, self._error = bad, error

    @staticmethod
    def _client(message: Message) -> Message:
        return reply_of(message, packed(reply(message.metadata.dst_node_id)))

    def pull_messages(self, message_ids: object) -> list[Message]:
        found = super().pull_messages(message_ids)  # type: ignore[arg-type]
        if any(one.metadata.src_node_id == self._bad for one in found):
            raise self._error
        return found


def drained(grid: LocalGrid, is_over: Callable[[], bool] = lambda: False) -> list[bytes | None]:
    exchange = Exchange(grid, VirtualClock())
    nodes = grid.get_node_ids()
    exchange.ask(Offer(0, b"release"), nodes, len(nodes), 600.0)
    return [arrival.reply.update for arrival in exchange.arrivals(is_over)]


@pytest.mark.parametrize("error", [TypeError("shape"), KeyError("id"), RuntimeError("no")])
def test_a_reply_that_flower_cannot_unpack_costs_no_other_reply(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    found = drained(Unpackable(6, 2, error))
    assert len(found) == 6
    assert found.count(b"") == 1
    assert set(found) - {b""} == {reply(node) for node in range(6) if node != 2}
    assert "could not be unpacked" in caplog.text


def test_a_broken_connection_is_no_reply() -> None:
    with pytest.raises(ConnectionError):
        drained(Unpackable(3, 1, ConnectionResetError("gone")))


class Chatty(LocalGrid):
    """A grid that hands out a message nobody asked for with every reply."""

    def pull_messages(self, message_ids: object) -> list[Message]:
        found = super().pull_messages(message_ids)  # type: ignore[arg-type]
        return [Message(RecordDict(), 0, "train") for _ in found] + found


def test_a_message_that_answers_nothing_is_no_reply() -> None:
    def client(message: Message) -> Message:
        return reply_of(message, packed(reply(message.metadata.dst_node_id)))

    assert len(drained(Chatty(dict.fromkeys(range(4), client)))) == 4


@pytest.mark.parametrize(
    ("count", "seed"), [(600, 1), pytest.param(15_000, 2, marks=pytest.mark.very_slow)]
)
@pytest.mark.timeout(900)
def test_replies_damaged_at_random_are_all_accounted_for_and_none_raises(
    count: int, seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    found = fuzz(count, seed, tmp_path)
    print(f"{sum(found.values())} replies: {dict(found.most_common())}")
    assert sum(found.values()) == count
    assert {"malformed", "wrong_schema", "accepted"} <= found.keys()
    assert found["malformed"] > found["accepted"]
    assert "reading a reply raised" not in caplog.text  # the net below the codec caught nothing
