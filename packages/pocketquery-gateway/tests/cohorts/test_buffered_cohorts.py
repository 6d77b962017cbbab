"""Buffered rounds through gateways: what the offer says of older releases, what the sum of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.offer import Offer
from pocketquery.sdk.bundle.safetensors import parse_whole, serialize
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.open_round import OpenRound, open_round
from pocketquery.server.federation.rounds.round import close_round, receive
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.federation.rounds.validation import Reason
from pocketquery.server.private.settings import SecureSettings
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer, cohort_offers
from pocketquery_gateway.cohorts.cohort_sum import CohortSum
from pocketquery_gateway.cohorts.collector import CohortCollector, receive_cohort
from pocketquery_gateway.cohorts.exchange import GatewayExchange
from pocketquery_gateway.cohorts.merging import add_cohort
from pocketquery_gateway.cohorts.records import (
    SUM,
    TRAIN,
    byte_records,
    read_part,
    records_of,
)
from pocketquery_simulation.local_grid import Fault, LocalGrid
from tests.server.federation.replies import SETTINGS, reply, small_state

BUFFERED = replace(
    SETTINGS,
    mode="buffered",
    clients_per_round=6,
    weighting="equal",
    most_staleness=2,
    aggregation="median",
    shards=3,
    shard_seed=11,
)


def after_rounds(count: int) -> list[FederationState]:
    """The states that so many buffered rounds begin from, each on a release of its own."""
    states = [small_state()]
    for _ in range(count - 1):
        opened = open_round(states[-1], BUFFERED)
        for number in range(3):
            opened, receipt = receive(opened, reply(100 * len(states) + number, states[-1]), 0.0)
            assert receipt.accepted
        candidate, _ = close_round(opened)
        states.append(candidate.released(str(len(states) + 1)))
    return states


STATES = after_rounds(4)
LAST = STATES[-1]


def asked(state: FederationState = LAST, **changes: Any) -> CohortOffer:
    opened = open_round(state, BUFFERED)
    return replace(cohort_offers(opened, Offer(state.round, b"release"), [7])[7], **changes)


def sent(records: RecordDict) -> Message:
    return LocalGrid({}).create_message(records, TRAIN, 1, "3")


def sum_of(opened: OpenRound, updates: list[bytes], nonce: int = 1) -> bytes:
    for update in updates:
        opened, receipt = receive(opened, update, 0.0)
        assert receipt.accepted, receipt
    return CohortSum.of_round(opened, f"{nonce:032x}", declined=0, figures={}).to_bytes()


@settings(max_examples=60, deadline=None)
@given(
    begun=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=3, max_size=6),
    order=st.permutations(range(3)),
)
def test_gateways_give_the_bits_of_direct_devices_however_stale(
    begun: list[tuple[int, int]], order: list[int]
) -> None:
    """By device: the round that it began in, and its gateway."""
    updates = [reply(900 + n, STATES[number]) for n, (number, _) in enumerate(begun)]
    direct = open_round(LAST, BUFFERED)
    for update in updates:
        direct, receipt = receive(direct, update, 0.0)
        assert receipt.accepted, receipt
    through = open_round(LAST, BUFFERED)
    for gateway in order:
        mine = [u for u, (_, at) in zip(updates, begun, strict=True) if at == gateway]
        data = sum_of(open_round(LAST, BUFFERED), mine, gateway)
        through, receipt, _ = add_cohort(through, data, 0.0)
        assert receipt.accepted, receipt
    wanted, report = close_round(direct)
    found, told = close_round(through)
    assert told == report
    assert told.staleness == sum(3 - number for number, _ in begun) / len(begun)
    assert replace(found, seen={}).to_bytes() == replace(wanted, seen={}).to_bytes()


def test_an_offer_says_what_the_remembered_rounds_offered() -> None:
    made = asked()
    assert made.bases == LAST.bases == {0: "1", 1: "2", 2: "3"}
    assert CohortOffer.from_bytes(made.to_bytes()) == made
    # Rolled back, it is another round: what an update counts may differ.
    assert replace(made, bases={}).digest != made.digest
    synchronous = replace(BUFFERED, mode="synchronous")
    opened = open_round(LAST, synchronous)
    (plain,) = cohort_offers(opened, Offer(3, b"release"), [7]).values()
    assert plain.bases == {}


def test_an_offer_carries_the_release_that_a_roll_out_leaves_to_the_other_devices() -> None:
    plain, made = asked(), asked(left_release=b"other")
    for one in (plain, made):
        assert read_part(sent(records_of(one)), CohortOffer) == one
    assert made.digest == plain.digest  # it makes no other round


def test_gateways_share_the_places_in_which_devices_train() -> None:
    opened = open_round(LAST, replace(BUFFERED, clients_per_round=5, in_flight=12))
    found = cohort_offers(opened, Offer(3, b"release"), [1, 2, 3])
    assert [(one.asked, one.wanted, one.at_once) for one in found.values()] == [
        (2, 2, 5), (2, 2, 5), (1, 1, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bases": {3: "4"}}, "bases of rounds"),
        ({"bases": {-1: "4"}}, "bases of rounds"),
        ({"settings": replace(BUFFERED, mode="synchronous")}, "rounds are synchronous"),
        ({"secure": SecureSettings(federation="a", enrolment="0" * 64)}, "masks cancel"),
    ],
)
def test_what_no_round_can_begin_from_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        asked(**changes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"0": "1", "1": "2", "2": "3"}', '{"0": 1, "1": "2", "2": "3"}'),
        ('{"0": "1", "1": "2", "2": "3"}', '{"x": "1", "1": "2", "2": "3"}'),
        ('"asked": ', '"asces": '),
        ("pocketquery-cohort-offer", "pocketquery-cohort-0ffer"),
        ("pocketquery-offer", "pocketquery-0ffer"),
    ],
)
def test_an_offer_of_another_making_cannot_be_read(old: str, new: str) -> None:
    tensors, metadata = parse_whole(asked().to_bytes())
    changed = {name: text.replace(old, new) for name, text in metadata.items()}
    assert changed != metadata
    with pytest.raises(CorruptArtifactError, match="offer"):
        CohortOffer.from_bytes(serialize(tensors, changed))


def test_a_sum_says_how_stale_it_is_and_cannot_say_more_than_can_be() -> None:
    updates = [reply(n, STATES[1 + n % 3]) for n in range(6)]
    data = sum_of(open_round(LAST, BUFFERED), updates)
    found = CohortSum.from_bytes(data)
    assert (found.staleness, found.to_bytes()) == (6, data)
    fresh = sum_of(open_round(LAST, BUFFERED), [reply(1, LAST)])
    assert b"staleness" not in fresh
    for claimed, accepted in ((12, True), (13, False)):
        told = replace(found, staleness=claimed).to_bytes()
        _, receipt, _ = add_cohort(open_round(LAST, BUFFERED), told, 0.0)
        assert receipt.accepted is accepted
        assert receipt.reason is (None if accepted else Reason.STALE_ROUND)
    synchronous = replace(SETTINGS, weighting="equal")
    honest = CohortSum.from_bytes(sum_of(open_round(LAST, synchronous), [reply(1, LAST)]))
    told = replace(honest, staleness=1).to_bytes()
    assert not add_cohort(open_round(LAST, synchronous), told, 0.0)[1].accepted


def test_the_journal_keeps_how_stale_a_sum_is(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "rounds.sqlite") as journal:
        journal.begin(LAST, BUFFERED, now=0.0)
        data = sum_of(open_round(LAST, BUFFERED), [reply(1, STATES[1]), reply(2, LAST)])
        assert receive_cohort(journal, data, 0.0)[0].accepted
    with Journal.open(tmp_path / "rounds.sqlite") as journal:
        assert journal.open_round is not None
        assert (journal.open_round.accepted, journal.open_round.staleness) == (2, 2)


def driven(
    folder: Path, answers: dict[int, Callable[[CohortOffer], bytes | None]], chosen: RoundSettings
) -> tuple[RoundReport, float]:
    """A buffered round over gateways that answer so (None: never); the clock's reading after."""

    def node(number: int) -> Callable[[Message], Message]:
        def handle(message: Message) -> Message:
            data = answers[number](read_part(message, CohortOffer))
            if data is None:
                raise ConnectionResetError("its process is gone")
            return Message(byte_records(SUM, data), reply_to=message)

        return handle

    clock = VirtualClock()
    grid = LocalGrid({number: node(number) for number in answers}, silent)
    with Journal.open(folder / "rounds.sqlite", clock=clock.now) as journal:
        opened = journal.begin(LAST, chosen)
        exchange = Exchange(grid, clock)
        gateways = GatewayExchange(exchange, clock)
        collector = CohortCollector(exchange, journal, clock, len(answers), gateways=gateways)
        heard = RoundReport(LAST.round, LAST.version, asked=opened.asked)
        return collector.collect(heard, opened, Offer(3, b"release"), list(answers)), clock.now()


def silent(node: int, group: str) -> Fault:
    return Fault.NEVER if node == 3 else Fault.NONE


def test_a_step_waits_for_no_gateway_beyond_the_deadline(tmp_path: Path) -> None:
    def two(offer: CohortOffer) -> bytes:
        began = replace(LAST, bases=dict(offer.bases))
        first = 10 * next(numbers)
        updates = [reply(first + n, STATES[2 + n]) for n in range(offer.wanted)]
        return sum_of(open_round(began, offer.settings), updates, first)

    numbers = iter(range(1, 9))
    heard, _ = driven(tmp_path / "whole", {1: two, 2: two, 4: two}, BUFFERED)
    assert (heard.accepted, heard.failed) == (6, 0)
    heard, now = driven(tmp_path / "partial", {1: two, 2: lambda _: None, 3: two}, BUFFERED)
    assert (heard.accepted, heard.failed) == (2, 1)
    assert now >= BUFFERED.deadline_seconds
