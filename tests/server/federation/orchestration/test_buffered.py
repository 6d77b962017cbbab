"""Buffered rounds: what began from an older release counts less, and none of it twice."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.client.update import decode_update
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.orchestration.federation import finished_rounds
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.federation.rounds.round import close_round, receive
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_simulation.local_grid import Fault
from tests.server.federation.replies import SETTINGS, reply, small_state
from tests.server.federation.small_federation import Files, opened

BUFFERED = dataclasses.replace(
    SETTINGS, mode="buffered", clients_per_round=3, weighting="equal", most_staleness=2
)


def stepped(state: FederationState, settings: RoundSettings, *, released: bool) -> FederationState:
    """The state after a round of three updates of its own release."""
    opened = open_round(state, settings)
    for number in range(3):
        opened, receipt = receive(opened, reply(100 * state.round + number, state), 0.0)
        assert receipt.accepted
    candidate, _ = close_round(opened)
    if not released:
        return state.rejected(candidate)
    return candidate.released(str(int(state.version) + 1))


def test_an_update_counts_by_how_many_releases_it_is_behind() -> None:
    first = small_state()
    second = stepped(first, BUFFERED, released=True)
    third = stepped(second, BUFFERED, released=True)
    updates = [reply(number, state) for number, state in enumerate((first, second, third), 50)]
    opened = open_round(third, BUFFERED)
    for update in updates:
        opened, receipt = receive(opened, update, 0.0)
        assert receipt.accepted, receipt
    after, report = close_round(opened)
    assert report.staleness == 1.0
    assert report.weight == 3  # what is stale is made shorter, not left out of the mean
    decoded = [decode_update(update).change for update in updates]
    for name, before in third.adapter.items():
        parts = [change[name] / math.sqrt(1 + 2 - n) for n, change in enumerate(decoded)]
        np.testing.assert_allclose(after.adapter[name], before + sum(parts) / 3, atol=1e-6)


def test_what_is_too_far_behind_is_stale_and_a_rejected_round_puts_nobody_behind() -> None:
    first = small_state()
    state = first
    for released in (True, False, True, True):
        state = stepped(state, BUFFERED, released=released)
    assert (state.round, state.version) == (4, "4")
    opened = open_round(state, BUFFERED)
    assert opened.expected.earlier == {3: ("3", 1), 2: ("2", 2), 1: ("2", 2)}
    old = [
        reply(7, first),
        reply(8, dataclasses.replace(first, round=3)),  # release 1 was not offered in round 3
        reply(9, dataclasses.replace(state, round=5)),
    ]
    for update, reason in zip(old, ("stale_round", "stale_round", "future_round"), strict=True):
        opened, receipt = receive(opened, update, 0.0)
        assert receipt.reason == reason
    synchronous = dataclasses.replace(BUFFERED, mode="synchronous")
    stale = reply(10, dataclasses.replace(state, round=3, version="3"))
    assert receive(open_round(state, BUFFERED), stale, 0.0)[1].accepted
    assert not receive(open_round(state, synchronous), stale, 0.0)[1].accepted


def test_an_update_counts_once_however_late_it_comes_again() -> None:
    first = small_state()
    late = reply(77, first)
    opened, receipt = receive(open_round(first, BUFFERED), late, 0.0)
    assert receipt.accepted
    for number in (1, 2):
        opened, _ = receive(opened, reply(number, first), 0.0)
    state = close_round(opened)[0].released("2")
    for _ in range(3):
        opened, receipt = receive(open_round(state, BUFFERED), late, 0.0)
        assert receipt.reason in ("replay", "stale_round")
        state = stepped(state, BUFFERED, released=False)


def test_a_buffer_has_no_deadline_and_is_full_with_its_updates() -> None:
    opened = open_round(small_state(), BUFFERED, now=0.0)
    for number in range(3):
        assert not opened.is_full
        opened, receipt = receive(opened, reply(number), 1e9)
        assert receipt.accepted
    assert opened.is_full
    assert receive(opened, reply(9), 1e9)[1].reason == "too_late"


def test_the_state_remembers_what_was_offered_and_the_journal_with_it(tmp_path: Path) -> None:
    state = stepped(small_state(), BUFFERED, released=True)
    assert FederationState.from_bytes(state.to_bytes()).bases == {0: "1"}
    assert b"bases" not in small_state().to_bytes()
    with Journal.open(tmp_path / "rounds.sqlite") as journal:
        journal.begin(state, BUFFERED, now=0.0)
        assert journal.receive(reply(5, small_state()), 0.0).accepted
        before = journal.open_round
    with Journal.open(tmp_path / "rounds.sqlite") as journal:
        assert journal.open_round is not None
        assert before is not None
        assert journal.open_round.staleness == before.staleness == 1
        assert journal.open_round.expected == before.expected


def test_settings_of_synchronous_rounds_say_nothing_of_buffers() -> None:
    assert "mode" not in SETTINGS.to_dict()
    assert RoundSettings.from_dict(BUFFERED.to_dict()) == BUFFERED
    assert BUFFERED.at_once() == 12
    with pytest.raises(InvalidInputError, match="most_staleness is 9"):
        dataclasses.replace(BUFFERED, most_staleness=9)


OPTIONS: dict[str, Any] = {"mode": "buffered", "clients-per-round": 3, "in-flight": 4, "rounds": 4}


def test_devices_train_on_while_releases_are_made(federation: Files, tmp_path: Path) -> None:
    with opened(federation, tmp_path, **OPTIONS) as parts:
        rows = parts.run()
    assert [row.accepted for row in rows] == [3, 3, 3, 3]
    assert [row.outcome for row in rows] == [f"release {n}" for n in (2, 3, 4, 5)]
    # Of the four that train, the last in line of a round is heard in the next.
    assert rows[0].staleness == 0
    assert all(row.staleness and row.staleness > 0 for row in rows[1:])
    assert not any(row.quarantined for row in rows)
    assert finished_rounds(tmp_path) == rows


def test_who_dies_or_stays_silent_is_replaced_and_harms_nobody(
    federation: Files, tmp_path: Path
) -> None:
    kinds = [Fault.DIES, Fault.NEVER, Fault.LATE, Fault.TWICE]

    def faults(node: int, group: str) -> Fault:
        return kinds[node % 4] if node % 3 == 0 else Fault.NONE

    with opened(federation, tmp_path, **OPTIONS) as parts:
        rows = parts.run(faults)
    assert [row.accepted for row in rows] == [3, 3, 3, 3]
    assert sum(row.failed for row in rows) > 0


def test_a_fleet_too_small_for_the_buffer_ends_the_round_instead_of_waiting_for_ever(
    federation: Files, tmp_path: Path
) -> None:
    options = {**OPTIONS, "clients-per-round": 14, "rounds": 2}
    with opened(federation, tmp_path, **options) as parts:
        rows = parts.run(lambda node, group: Fault.DIES if node > 6 else Fault.NONE)
    assert [(row.asked, row.accepted, row.failed) for row in rows] == [(12, 6, 6)] * 2
    assert rows[1].version == "3"


def test_what_began_from_a_release_that_was_taken_back_does_not_count(
    federation: Files, tmp_path: Path
) -> None:
    with opened(federation, tmp_path, **{**OPTIONS, "rounds": 2}) as parts:
        parts.run()
        with Journal.open(tmp_path / "rounds.sqlite") as journal:
            state = journal.state
        assert state is not None
        assert parts.publisher.in_force(state).bases == {0: "1", 1: "2"}
        parts.publisher.registry.rollback("2")
        assert parts.publisher.in_force(state).bases == {}
