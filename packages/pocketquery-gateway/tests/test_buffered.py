"""Buffered rounds at a gateway: what is late in one step counts in the next, once, and less."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from small_gateway import (
    ROUND,
    SmallDevice,
    SmallGateway,
    code_of,
    devices,
    opened,
    small_release,
    state_of,
    update_for,
)

from pocketquery.client.offer import Offer
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.federation.rounds.round import close_round, receive
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_gateway.cohorts.announced_release import AnnouncedRelease
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer, cohort_offers
from pocketquery_gateway.cohorts.cohort_sum import CohortSum
from pocketquery_gateway.cohorts.merging import add_cohort
from pocketquery_gateway.journal import JOURNAL, GatewayJournal
from pocketquery_gateway.rounds.upload import Upload

BUFFERED = replace(
    ROUND,
    mode="buffered",
    clients_per_round=4,
    most_staleness=2,
    remembered_rounds=4,
    deadline_seconds=100.0,
)
_KEYS = 12


class Server:
    """A server whose every step is released, and what it asks of one gateway.

    It never sees an update; ``direct`` does, as if there were no gateway.
    """

    def __init__(self, **changes: Any) -> None:
        self.settings = replace(BUFFERED, **changes)
        self.state = state_of(small_release("1"))
        self.direct = open_round(self.state, self.settings)

    @property
    def release(self) -> bytes:
        return small_release(self.state.version)

    def asked(self, nodes: int = 1) -> list[CohortOffer]:
        offer = Offer(round=self.state.round, release=self.release)
        made = open_round(self.state, self.settings)
        return list(cohort_offers(made, offer, range(nodes)).values())

    def begins(self, small: SmallGateway) -> CohortOffer:
        """Ask the one gateway; what it was asked."""
        (asked,) = self.asked()
        small.begin(asked)
        return asked

    def hears(self, update: bytes) -> str:
        """What becomes of an update that a device sends to the server itself."""
        self.direct, receipt = receive(self.direct, update, 0.0)
        return receipt.reason.value if receipt.reason else ""

    def steps(self, *sums: bytes, released: bool = True) -> None:
        """Make a step of gateways' sums, which must be that of the devices themselves."""
        through = open_round(self.state, self.settings)
        for data in sums:
            through, receipt, _ = add_cohort(through, data, 0.0)
            assert receipt.accepted, receipt
        wanted, report = close_round(self.direct)
        found, told = close_round(through)
        assert told == report
        assert replace(found, seen={}).to_bytes() == replace(wanted, seen={}).to_bytes()
        version = str(int(self.state.version) + 1)
        following = wanted.released(version) if released else self.state.rejected(wanted)
        # What devices train from is the same adapter throughout: here only its name matters.
        self.state = replace(following, adapter=self.state.adapter)
        self.direct = open_round(self.state, self.settings)

    def ends(self, small: SmallGateway, asked: CohortOffer, *, released: bool = True) -> None:
        """Make a step of what a gateway has when its time is up."""
        small.clock.now += 91
        self.steps(small.answer(asked).content, released=released)

    def takes(self, device: SmallDevice, update: bytes, number: int = 0) -> None:
        """Both the gateway and a server without one accept an update."""
        assert device.send(update, number).status_code == 200
        assert self.hears(update) == ""

    def passes(self, count: int) -> None:
        """So many steps of which this gateway hears nothing."""
        for _ in range(count):
            bases = {**self.state.bases, self.state.round: self.state.version}
            version, number = str(int(self.state.version) + 1), self.state.round + 1
            self.state = replace(self.state, round=number, version=version, bases=bases)
            self.direct = open_round(self.state, self.settings)


def test_what_is_late_in_one_step_counts_in_the_next_with_its_discount(
    small: SmallGateway,
) -> None:
    server = Server()
    first = server.state
    asked = server.begins(small)
    fast, slow = devices(small, 6), devices(small, 1)[0]
    assert slow.offer()["offer"]["round"] == 0
    for number, device in enumerate(fast[:4]):
        update = update_for(first, number)
        server.takes(device, update)
    server.steps(small.answer(asked).content)

    late = update_for(first, 50)
    waits = slow.send(late, 0)
    assert (waits.status_code, code_of(waits)) == (503, "between_steps")
    assert waits.headers["retry-after"] == "60"  # a fifth of the deadline is less
    asked = server.begins(small)
    server.takes(slow, late, 0)
    assert slow.offer()["offer"] is None  # it has counted in this step
    for number, device in enumerate(fast[3:]):
        assert device.offer()["offer"]["round"] == 1
        update = update_for(server.state, 60 + number)
        server.takes(device, update, 1)
    found = small.answer(asked).content
    assert CohortSum.from_bytes(found).staleness == 1
    server.steps(found)


def test_a_device_counts_once_a_step_and_an_update_once(small: SmallGateway) -> None:
    server = Server()
    first = server.state
    asked = server.begins(small)
    one, two, three = devices(small, 3)
    early = update_for(first, 1)
    assert one.send(early).status_code == 200
    small.clock.now += 91  # its time is up
    assert one.send(early).status_code == 200  # it may have lost the answer
    assert server.hears(early) == ""
    server.steps(small.answer(asked).content)
    asked = server.begins(small)
    late = update_for(first, 2)
    server.takes(two, late, 0)
    assert two.send(late, 0).status_code == 200
    assert two.send(update_for(server.state, 3), 1).status_code == 200  # told of the first
    for sender in (one, three):  # its own, of the step before; and stolen from this one
        again = sender.send(early if sender is one else late, 0)
        assert again.status_code == 422
        assert code_of(again) == ("replay" if sender is one else "duplicate")
    for update in (early, late):
        assert server.hears(update) in ("replay", "duplicate")
    small.clock.now += 91
    found = small.answer(asked).content
    assert (CohortSum.from_bytes(found).count, CohortSum.from_bytes(found).staleness) == (1, 1)


def test_what_is_too_stale_is_left_out_with_its_reason(small: SmallGateway) -> None:
    server = Server()
    states = []
    for _ in range(4):
        states.append(server.state)
        asked = server.begins(small)
        server.ends(small, asked)
    asked = server.begins(small)
    made = devices(small, 6)
    for device, state in zip(made, states, strict=False):
        update = update_for(state, state.round)
        found = device.send(update, state.round)
        expected = server.hears(update)
        assert (found.status_code, expected) == ((200, "") if state.round > 1 else (422, expected))
        if state.round < 2:
            assert code_of(found) == expected == "stale_round"
    ahead = made[4].send(update_for(replace(server.state, round=9), 9), 9)
    assert (ahead.status_code, code_of(ahead)) == (409, "round_over")
    renamed = update_for(replace(states[3], version="2"), 10)  # round 3 offered another release
    assert code_of(made[5].send(renamed, 3)) == server.hears(renamed) == "stale_round"
    server.ends(small, asked)
    # Between two steps it is told at once that the next will not take it either.
    assert code_of(made[4].send(update_for(states[0], 11), 0)) == "round_over"


def test_a_round_that_the_gate_refused_puts_nobody_behind(small: SmallGateway) -> None:
    server = Server()
    first = server.state
    asked = server.begins(small)
    server.ends(small, asked, released=False)
    asked = server.begins(small)
    (device,) = devices(small, 1)
    update = update_for(first, 1)
    assert device.send(update, 0).status_code == 200
    server.hears(update)
    small.clock.now += 91
    found = small.answer(asked).content
    assert CohortSum.from_bytes(found).staleness == 0
    server.steps(found)


def test_a_gateway_takes_updates_of_rounds_whose_nonces_it_has(
    small: SmallGateway, tmp_path: Path
) -> None:
    """A gateway that lost its journal could not tell a replay; nor did it make such an offer."""
    server = Server()
    first = server.state
    asked = server.begins(small)
    server.passes(1)
    missed = server.state
    server.passes(1)
    asked = server.begins(small)
    one, two = devices(small, 2)
    assert one.send(update_for(first, 1), 0).status_code == 200
    assert code_of(two.send(update_for(missed, 2), 1)) == "stale_round"
    with opened(tmp_path / "other") as other:
        other.begin(asked)
        made = devices(other, 2)
        assert code_of(made[0].send(update_for(first, 3), 0)) == "stale_round"
    with opened(tmp_path / "other") as other:  # nor does a restart change that
        made[1].at = other
        assert code_of(made[1].send(update_for(first, 4), 0)) == "stale_round"


def test_what_is_rolled_back_does_not_count(small: SmallGateway) -> None:
    server = Server()
    first = server.state
    asked = server.begins(small)
    server.ends(small, asked)
    server.state = replace(server.state, version="1", bases={})
    asked = server.begins(small)
    (device,) = devices(small, 1)
    assert code_of(device.send(update_for(first, 1), 0)) == "stale_round"


def test_devices_train_while_a_step_is_made_and_no_more_than_may(small: SmallGateway) -> None:
    server = Server(clients_per_round=1, in_flight=3, least_replies=1)
    asked = server.begins(small)
    one, two, three, four, five = devices(small, 5)
    assert one.offer()["offer"] is not None
    assert two.offer()["offer"] is not None
    update = update_for(server.state, 1)
    server.takes(one, update)
    assert one.offer()["offer"] is None
    assert three.offer()["offer"] is not None  # the step is complete, and they begin to train
    assert four.offer()["offer"] is not None
    assert five.offer()["offer"] is None  # three train
    server.steps(small.answer(asked).content)
    asked = server.begins(small)
    assert five.offer()["offer"] is None  # and go on in the next
    assert two.ask("PUT", "/v1/rounds/0/declined").status_code == 204
    assert five.offer()["offer"]["round"] == 1
    assert three.send(update_for(state_of(small_release("1")), 3), 0).status_code == 200
    small.clock.now += 101
    assert one.offer()["offer"] is None  # the server has not asked for so long
    waits = four.send(update_for(state_of(small_release("1")), 4), 0)
    assert (code_of(waits), waits.headers["retry-after"]) == ("between_steps", "60")
    small.clock.now += 100
    late = four.send(update_for(state_of(small_release("1")), 4), 0)
    assert code_of(late) == "round_over"  # it has gone


def test_who_declines_between_steps_gives_its_place_to_another(small: SmallGateway) -> None:
    server = Server(clients_per_round=1, in_flight=1, least_replies=1)
    server.begins(small)
    one, two, three = devices(small, 3)
    assert one.send(update_for(server.state, 1)).status_code == 200
    assert two.offer()["offer"] is not None
    assert three.offer()["offer"] is None
    assert code_of(two.ask("PUT", "/v1/rounds/0/declined")) == "round_over"
    assert three.offer()["offer"] is not None


def test_where_the_server_ends_nobody_begins_or_waits(small: SmallGateway) -> None:
    server = Server(clients_per_round=1, least_replies=1)
    asked = server.begins(small)
    one, two, three = devices(small, 3)
    first = update_for(server.state, 1)
    server.takes(one, first)
    late = update_for(server.state, 2)
    assert code_of(two.send(late, 0)) == "between_steps"
    server.steps(small.answer(asked).content)
    body = AnnouncedRelease(server.release).to_bytes()
    assert small.control.put("/release", content=body).status_code == 204
    assert three.offer()["offer"] is None
    assert code_of(two.send(late, 0)) == "round_over"
    server.begins(small)  # and where it begins again
    assert three.offer()["offer"] is not None
    assert two.send(late, 0).status_code == 200


def test_a_device_looks_for_the_next_step_five_times_while_one_may_last(tmp_path: Path) -> None:
    server = Server(clients_per_round=1, least_replies=1)
    with opened(tmp_path, poll_seconds=1) as small:
        small.begin(server.asked()[0])
        one, two = devices(small, 2)
        assert one.send(update_for(server.state, 1)).status_code == 200
        found = [two.send(update_for(server.state, 2)).headers["retry-after"]]
        small.clock.now += 99
        found.append(two.send(update_for(server.state, 2)).headers["retry-after"])
    assert found == ["20", "1"]


def test_a_synchronous_round_takes_nothing_of_another(small: SmallGateway) -> None:
    server = Server()
    first = server.state
    asked = server.begins(small)
    server.ends(small, asked)
    offer = Offer(round=1, release=server.release)
    plain = replace(BUFFERED, mode="synchronous")
    small.begin(CohortOffer(offer, plain, asked=4, wanted=4, seconds=90.0))
    (device,) = devices(small, 1)
    assert code_of(device.send(update_for(first, 1), 0)) == "round_over"
    assert device.offer()["offer"] is not None
    small.clock.now += 91
    assert device.offer()["offer"] is None


# Any order of arrivals, over journals


def taken(journal: GatewayJournal, device: int, number: int, data: bytes) -> str:
    """What a gateway says of an update, in a word."""
    digest = hashlib.sha256(data).digest()
    upload = Upload(key_of(device), number, data, digest, 20_000)
    with journal.batch():
        (found,) = journal.updates.receive_all([upload], most_uploads=1000)
    return type(found).__name__ if isinstance(found, Exception) else found[0].reason


def key_of(device: int) -> bytes:
    return bytes([device + 1]) * 32


arrivals = st.lists(
    st.tuples(st.integers(0, _KEYS - 1), st.integers(0, 3), st.booleans()), max_size=9
)


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(st.tuples(arrivals, st.booleans()), min_size=1, max_size=5))
def test_any_order_of_arrivals_gives_the_bits_of_direct_devices(
    steps: list[tuple[list[tuple[int, int, bool]], bool]],
) -> None:
    """Two gateways, which are stopped and opened again at any arrival. By arrival: the device,
    which belongs to one of them, how many rounds ago it began, and whether a restart comes first.
    """
    server, sent, seconds = Server(), 0, [0.0]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, str(at), JOURNAL) for at in range(2)]

        def start(at: int) -> GatewayJournal:
            return GatewayJournal.open(paths[at], clock=lambda: seconds[0])

        journals = [start(at) for at in range(2)]
        for device in range(_KEYS):
            with journals[device % 2].batch():
                journals[device % 2].register(key_of(device), 1, 100)
        states: list[FederationState] = []
        for came, released in steps:
            states.append(server.state)
            asked = server.asked(nodes=2)
            counted: set[int] = set()
            for journal, one in zip(journals, asked, strict=True):
                with journal.batch():
                    assert journal.begin(one)
            for device, ago, restarts in came:
                at, began = device % 2, states[max(0, len(states) - 1 - ago)]
                if restarts:
                    journals[at].disconnect()
                    journals[at] = start(at)
                sent += 1
                update = update_for(began, sent)
                was_open = journals[at].cohort_round.is_open
                said = taken(journals[at], device, began.round, update)
                if device in counted:  # it is told of its first
                    continue
                if not was_open:
                    assert said in ("BetweenStepsError", "RoundOverError")
                    continue
                counted.add(device)
                assert server.hears(update) == said
            seconds[0] += 91.0
            sums = []
            for journal, one in zip(journals, asked, strict=True):
                with journal.batch():
                    journal.cohort_round.close_if_over()
                found = journal.cohort_round.answer(one.digest)
                assert found is not None
                sums.append(found)
            server.steps(*sums, released=released)
        for journal in journals:
            journal.disconnect()
