"""Devices of private rounds behind gateways, whatever a gateway answers; and stage bundles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from flwr.app import Message
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.transport import SecureReply
from pocketquery.sdk.bundle.safetensors import parse_whole, serialize
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.private.secure_round import SecureRound
from pocketquery.server.private.settings import SecureSettings
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.exchange import GatewayExchange
from pocketquery_gateway.cohorts.members import GatewayMembers, member_of
from pocketquery_gateway.cohorts.records import (
    RELAY,
    read_part,
    records_of,
)
from pocketquery_gateway.cohorts.stage_bundle import StageBundle
from pocketquery_simulation.local_grid import LocalGrid
from tests.server.federation.replies import SETTINGS, small_state

SECURE = SecureSettings(federation="clinics", enrolment="ab" * 32, least=2)
bundles = st.builds(
    StageBundle,
    st.integers(0, 10**18 - 1),
    st.sampled_from(Stage),
    st.dictionaries(st.integers(0, 2**32 - 1), st.binary(max_size=40), max_size=5),
    st.floats(0, 1e9),
    st.integers(0, 2**32),
    st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple),
)


@given(bundles)
def test_a_bundle_is_read_as_it_was_written(bundle: StageBundle) -> None:
    data = bundle.to_bytes()
    found = StageBundle.from_bytes(data)
    assert found == bundle
    assert found.to_bytes() == data


@given(bundles, st.data())
def test_any_other_bytes_are_told_apart(bundle: StageBundle, draw: st.DataObject) -> None:
    data = bytearray(bundle.to_bytes())
    place = draw.draw(st.integers(0, len(data) - 1))
    data[place] ^= draw.draw(st.integers(1, 255))
    cut = draw.draw(st.integers(0, len(data)))
    for changed in (bytes(data), bytes(data[:cut]), bundle.to_bytes() + b"x"):
        try:
            StageBundle.from_bytes(changed)
        except CorruptArtifactError:
            continue


@pytest.mark.parametrize(
    ("old", "new"),
    [('[[1, 2], [3, 1]]', '[[3, 2], [1, 1]]'), ('[[1, 2], [3, 1]]', '[[1, 2], [1, 1]]'),
     ('[[1, 2], [3, 1]]', '[[1, 2], [3, 0]]'), ('[[1, 2], [3, 1]]', '[[1, 4], [3, -1]]'),
     ('[[1, 2], [3, 1]]', '[[1, 2], 3]'), ('"stage": 2', '"stage": 6'),
     ('"seconds": 1.5', '"seconds": -1'), ('"gone": []', '"gone": [-1]')],
)  # fmt: skip
def test_what_is_no_bundle_is_told(old: str, new: str) -> None:
    data = StageBundle(0, Stage.INVITE, {1: b"ab", 3: b"c"}, 1.5).to_bytes()
    tensors, metadata = parse_whole(data)
    assert old in metadata["body"]
    changed = serialize(tensors, metadata | {"body": metadata["body"].replace(old, new)})
    with pytest.raises(CorruptArtifactError, match="stage bundle"):
        StageBundle.from_bytes(changed)


def members(
    answers: dict[int, Callable[[Message], StageBundle]],
) -> tuple[GatewayMembers, list[StageBundle]]:
    """Members behind gateways, by node, that answer so; and what those were asked."""
    asked: list[StageBundle] = []

    def node(number: int) -> Callable[[Message], Message]:
        def handle(message: Message) -> Message:
            if message.metadata.message_type == RELAY:
                asked.append(read_part(message, StageBundle))
            return Message(records_of(answers[number](message)), reply_to=message)

        return handle

    clock = VirtualClock()
    grid = LocalGrid({number: node(number) for number in answers})
    return GatewayMembers(GatewayExchange(Exchange(grid, clock), clock), clock), asked


def told(made: GatewayMembers) -> list[tuple[int, SecureReply]]:
    return [(one.node, one.reply) for one in made.arrivals(lambda: False)]


def test_a_gateway_speaks_for_the_seats_that_it_was_asked_for() -> None:
    def honest(message: Message) -> StageBundle:
        down = read_part(message, StageBundle)
        return StageBundle(3, down.stage, {seat: b"from %d" % seat for seat in down.bodies})

    def hostile(message: Message) -> StageBundle:
        return StageBundle(3, Stage.INVITE, {0: b"asked", 1: b"not asked", 7: b"nobody"}, gone=(1,))

    made, asked = members({1: honest, 2: hostile})
    messages = [(member_of(node, seat), b"down") for node, seat in ((1, 0), (1, 5), (2, 0))]
    made.ask(messages, 3, Stage.INVITE, 100.0)
    assert told(made) == [
        (member_of(1, 0), SecureReply(2, b"from 0")),
        (member_of(1, 5), SecureReply(2, b"from 5")),
        (member_of(2, 0), SecureReply(2, b"asked")),
    ]
    assert [(one.seconds, dict(one.bodies)) for one in asked] == [
        (25.0, {0: b"down", 5: b"down"}), (25.0, {0: b"down"}),
    ]  # fmt: skip


def test_a_gateway_is_asked_again_for_those_who_have_not_replied() -> None:
    came = iter([{1: b"first"}, {}, {0: b"second"}])

    def slow(message: Message) -> StageBundle:
        return StageBundle(0, Stage.UNMASK, next(came), gone=(2,))

    made, asked = members({9: slow})
    made.ask([(member_of(9, seat), b"") for seat in range(3)], 0, Stage.UNMASK, 100.0)
    assert told(made) == [
        (member_of(9, 1), SecureReply(5, b"first")),
        (member_of(9, 0), SecureReply(0, None)),  # one that declines
        (member_of(9, 0), SecureReply(5, b"second")),
    ]
    assert [sorted(one.bodies) for one in asked] == [[0, 1, 2], [0], [0]]


@pytest.mark.parametrize("failing", ["raises", "another stage", "nobody"])
def test_a_gateway_that_fails_is_not_asked_without_end(failing: str) -> None:
    def bad(message: Message) -> StageBundle:
        if failing == "raises":
            raise ConnectionResetError("its process is gone")
        return StageBundle(0, Stage.INVITE if failing == "another stage" else Stage.COLLECT)

    made, asked = members({1: bad})
    made.ask([(member_of(1, 0), b"")], 0, Stage.COLLECT, 100.0)
    assert all(reply.body is None for _, reply in told(made))
    assert len(asked) == 8


def test_who_is_ready_comes_once_and_no_more_than_were_asked_for() -> None:
    began: list[CohortOffer] = []

    def gateway(message: Message) -> StageBundle:
        began.append(read_part(message, CohortOffer))
        return StageBundle(4, Stage.OFFER, {seat: b"%d" % seat for seat in range(9)}, declined=2)

    made, _ = members({1: gateway, 2: gateway})
    settings = replace(SETTINGS, clients_per_round=4, over_selection=1.5)
    opened = open_round(replace(small_state(), round=4), settings, asked=6)
    known = {member_of(1, 0): None}
    secure = SecureRound(SECURE, bytes(32), ready=known)  # type: ignore[arg-type]
    made.offer(replace(opened, secure=secure), Offer(4, b"release"), [1, 2])
    found = told(made)
    assert [member for member, reply in found if reply.body is not None] == [
        member_of(node, seat) for node, seat in ((1, 1), (1, 2), (2, 0), (2, 1), (2, 2))
    ]
    assert sum(reply.body is None for _, reply in found) == 4
    assert [(one.asked, one.wanted, one.secure) for one in began] == [(3, 2, SECURE)] * 2


@pytest.mark.parametrize("node", [0, 5, 2**64 - 1])
def test_a_member_is_its_node_and_its_seat(node: int) -> None:
    assert divmod(member_of(node, 2**32 - 1), 2**32) == (node, 2**32 - 1)
