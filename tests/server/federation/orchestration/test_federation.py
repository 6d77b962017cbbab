"""Rounds from the first question to the release, with real devices that train, die, lie and lag."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.encoder import AdapterSource
from pocketquery.sdk.errors import ArtifactError
from pocketquery.server.federation.orchestration.federation import finished_rounds
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.releases.gate import Gate
from pocketquery.server.federation.releases.gate_data import judged_by_shipped
from pocketquery.server.federation.releases.gate_report import AcceptanceReport, GateSettings
from pocketquery.server.federation.releases.publishing import RegistryPublisher
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_simulation.local_grid import Fault, LocalGrid
from tests.server.federation.small_federation import Files, opened


def test_rounds_make_releases_that_devices_can_load(federation: Files, tmp_path: Path) -> None:
    seen: list[RoundReport] = []
    with opened(federation, tmp_path) as parts:
        rows = parts.run(show=seen.append)
    assert [(row.round, row.asked, row.accepted, row.outcome) for row in rows] == [
        (0, 6, 4, "release 2"),
        (1, 6, 4, "release 3"),
    ]
    for row in rows:
        assert row.figures["loss"] > 0
        assert 0 < row.figures["drift"] < 0.2
    assert finished_rounds(tmp_path) == rows
    listed = json.loads((tmp_path / "rounds.json").read_text())["rounds"]
    assert [RoundReport.from_dict(one) for one in listed] == rows
    assert [row.accepted for row in seen if row.round == 0] == [0, 1, 2, 3, 4, 4]
    encoder = sdk.load(federation.bundle, adapter=parts.publisher.registry.read())
    assert encoder.version == "3"
    plain = sdk.load(federation.bundle)
    assert not np.array_equal(encoder.encode("the river"), plain.encode("the river"))
    assert float(encoder.encode("the river") @ plain.encode("the river")) > 0.9


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(
    federation: Files, tmp_path: Path
) -> None:
    found = []
    for number, seed in enumerate((5, 5, 6)):
        with opened(federation, tmp_path / str(number), seed=seed) as parts:
            rows = parts.run()
            found.append((rows, parts.publisher.registry.read()))
    assert found[0] == found[1]
    assert found[0][1] != found[2][1]


def test_devices_that_die_stay_silent_lag_or_repeat_are_counted_and_harm_nobody(
    federation: Files, tmp_path: Path
) -> None:
    kinds = [Fault.DIES, Fault.NEVER, Fault.LATE, Fault.TWICE]

    def faults(node: int, group: str) -> Fault:
        return kinds[node % 4] if group == "0" else Fault.NONE

    options = {"clients-per-round": 12, "over-selection": 1.0, "rounds": 2}
    with opened(federation, tmp_path, **options) as parts:
        first, second = parts.run(faults)
    assert (first.asked, first.accepted, first.failed) == (12, 3, 3)
    assert first.quarantined == {"duplicate": 3}
    assert first.seconds > 600  # it waited for the silent ones, to the deadline
    assert second.accepted == 12
    assert second.quarantined == {"stale_round": 3}


def test_a_round_with_too_few_replies_is_skipped_and_the_release_stays(
    federation: Files, tmp_path: Path
) -> None:
    with opened(federation, tmp_path) as parts:
        rows = parts.run(lambda node, group: Fault.DIES if group == "0" else Fault.NONE)
    assert rows[0].outcome == "skipped"
    assert rows[0].failed == 6
    assert "0 valid replies, at least 2 needed" in str(rows[0].skipped)
    assert (rows[0].version, rows[1].version) == ("1", "2")


def test_a_release_that_was_rolled_back_is_where_the_next_round_begins(
    federation: Files, tmp_path: Path
) -> None:
    # So small a server's step that no device's monitors end its training.
    adam: dict[str, Any] = {"optimizer": "fedadam", "server-learning-rate": 0.1}
    with opened(federation, tmp_path, **adam) as parts:
        parts.run()
        parts.publisher.registry.rollback("2")
    with opened(federation, tmp_path, **adam, rounds=3) as parts:
        rows = parts.run()
    assert (rows[2].base_version, rows[2].version) == ("2", "4")
    assert parse_adapter(parts.publisher.registry.read()).parent_version == "2"


def test_a_candidate_the_gate_refuses_leaves_the_release_in_force(
    federation: Files, tmp_path: Path
) -> None:
    encoder = sdk.load(federation.bundle)
    with opened(federation, tmp_path) as parts, sdk.open_index(federation.index) as index:
        held_out = judged_by_shipped(index, encoder, ["the river", "a mountain", "norman castle"])
        refusing = Gate(parts.bundle, held_out, GateSettings(least_mean=1.0))
        publisher = RegistryPublisher(parts.bundle, tmp_path / "releases", refusing)
        rows = replace(parts, publisher=publisher).run()
        with Journal.open(tmp_path / "rounds.sqlite") as journal:
            state = journal.state
    assert [(row.base_version, row.outcome) for row in rows] == [("1", "rejected")] * 2
    assert [row.gate and row.gate["reason"] for row in rows] == ["mean_fell"] * 2
    assert publisher.registry.current().version == "1"
    assert len(publisher.registry.history()) == 3
    assert state is not None
    assert (state.round, state.version) == (2, "1")
    for name, value in parts.first.adapter.items():
        np.testing.assert_array_equal(state.adapter[name], value)


def test_what_a_candidate_has_cost_in_privacy_goes_with_it(
    federation: Files, tmp_path: Path
) -> None:
    encoder = sdk.load(federation.bundle)
    with opened(federation, tmp_path) as parts, sdk.open_index(federation.index) as index:
        gate = Gate(parts.bundle, judged_by_shipped(index, encoder, ["the river", "a mountain"]))
        publisher = RegistryPublisher(parts.bundle, tmp_path / "releases", gate)
        state = parts.first
        changed = {name: value + np.float32(1e-3) for name, value in state.adapter.items()}
        candidate = replace(state, round=1, adapter=changed)
        cost = {"season": "1", "epsilon": 1.98, "delta": 1e-6}
        plain = publisher.decide(state, candidate)
        private = publisher.decide(state, replace(candidate, adapter=state.adapter), cost)
    assert plain.report is not None
    assert private.report is not None
    assert "privacy" not in plain.report
    assert private.report["privacy"] == cost
    assert (publisher.registry.history()[-1].report or {})["privacy"] == cost


def test_a_release_rolled_back_while_a_round_runs_is_not_followed(
    federation: Files, tmp_path: Path
) -> None:
    with opened(federation, tmp_path, rounds=3) as parts:
        registry = parts.publisher.registry

        def roll_back(row: RoundReport) -> None:
            if (row.round, row.accepted) == (1, 2) and registry.current().version == "2":
                registry.rollback("1")

        rows = parts.run(show=roll_back)
    assert rows[1].outcome == "skipped"
    assert rows[1].skipped == "release 2 was rolled back to 1 meanwhile"
    assert (rows[2].base_version, rows[2].version) == ("1", "3")


def test_a_release_rolled_out_again_while_a_round_runs_is_not_followed(
    federation: Files, tmp_path: Path
) -> None:
    with opened(federation, tmp_path, rounds=3) as parts:
        registry = parts.publisher.registry

        def intervene(row: RoundReport) -> None:
            if (row.round, row.outcome) == (0, "release 2"):
                registry.rollback("1")
            elif (row.round, row.accepted) == (1, 2) and registry.current().version == "1":
                registry.rollback("2")  # begun from release 1, as the round in progress

        rows = parts.run(show=intervene)
    assert [row.base_version for row in rows] == ["1", "1", "2"]
    assert rows[1].skipped == "release 1 was rolled back to 2 meanwhile"
    assert (rows[2].outcome, registry.current().parent) == ("release 3", "2")


def test_a_candidate_published_before_a_kill_is_decided_on_as_it_was(
    federation: Files, tmp_path: Path
) -> None:
    with opened(federation, tmp_path) as parts, sdk.open_index(federation.index) as index:
        state, candidate = parts.first, moved(parts.first, 1)
        held_out = judged_by_shipped(index, sdk.load(federation.bundle), ["the river", "a tower"])

        def publisher(least_mean: float) -> RegistryPublisher:
            settings = GateSettings(
                least_gain=-1, least_mean=least_mean, least_low=-1, most_risen=1
            )
            gate = Gate(parts.bundle, held_out, settings)
            return RegistryPublisher(parts.bundle, tmp_path / "releases", gate)

        cost = {"season": "1", "epsilon": 1.98, "delta": 1e-6}
        before = publisher(-1).decide(state, candidate, cost)
        assert (before.accepted, before.version) == (True, "2")
        stricter = publisher(1.0)  # than the gate that accepted it
        assert stricter.decide(state, candidate, cost) == before
        assert len(stricter.registry.history()) == 2


def test_a_release_rolled_back_while_its_gate_judges_is_not_followed(
    federation: Files, tmp_path: Path
) -> None:
    class Slow(Gate):
        def judge(self, old: AdapterSource | None, new: AdapterSource) -> AcceptanceReport:
            found = super().judge(old, new)
            registry.rollback("1")
            return found

    with opened(federation, tmp_path) as parts, sdk.open_index(federation.index) as index:
        registry = parts.publisher.registry
        first, second = (moved(parts.first, number) for number in (1, 2))
        state = first.released(parts.publisher.decide(parts.first, first).version)
        held_out = judged_by_shipped(index, sdk.load(federation.bundle), ["the river", "a tower"])
        slow = RegistryPublisher(parts.bundle, tmp_path / "releases", Slow(parts.bundle, held_out))
        found = slow.decide(state, second)
    assert (found.accepted, found.version) == (False, "1")
    assert found.skipped == "release 2 was rolled back to 1 meanwhile"
    assert len(registry.history()) == 2


def test_a_candidate_published_before_a_kill_and_taken_back_is_not_followed(
    federation: Files, tmp_path: Path
) -> None:
    with opened(federation, tmp_path) as parts:
        candidate = moved(parts.first, 1)
        assert parts.publisher.decide(parts.first, candidate).accepted
        parts.publisher.registry.rollback("1")
        found = parts.publisher.decide(parts.first, candidate)
    assert (found.accepted, found.version) == (False, "1")
    assert found.skipped == "release 2 was rolled back to 1 meanwhile"


def moved(state: FederationState, number: int) -> FederationState:
    """What a round after ``state`` may propose."""
    by = np.float32(number * 1e-3)
    adapter = {name: value + by for name, value in state.adapter.items()}
    return replace(state, round=state.round + 1, adapter=adapter)


def test_every_round_draws_its_devices_anew(federation: Files, tmp_path: Path) -> None:
    asked: dict[str, list[int]] = {"0": [], "1": []}

    def watch(node: int, group: str) -> Fault:
        asked[group].append(node)
        return Fault.NONE

    with opened(federation, tmp_path) as parts:
        parts.run(watch)
    assert [len(set(nodes)) for nodes in asked.values()] == [4, 4]
    assert asked["0"] != asked["1"]


def test_a_device_that_declines_counts_in_its_own_round_alone(
    federation: Files, tmp_path: Path
) -> None:
    options = {"clients-per-round": 12, "over-selection": 1.0}
    with opened(federation, tmp_path, **options) as parts:
        stores = dict(parts.devices.stores)
        stores["user-2"] = replace(stores["user-2"], consent=False)
        stores["user-5"] = replace(stores["user-5"], consent=False)
        unwilling = replace(parts, devices=replace(parts.devices, stores=stores))
        late = {("0", 3)}  # user-2's node
        rows = unwilling.run(lambda n, g: Fault.LATE if (g, n) in late else Fault.NONE)
    assert [(row.declined, row.accepted) for row in rows] == [(1, 10), (2, 10)]


def test_a_round_is_not_begun_before_enough_devices_are_connected(
    federation: Files, tmp_path: Path
) -> None:
    with (
        opened(federation, tmp_path) as parts,
        pytest.raises(ArtifactError, match="0 devices are connected after 120 s, a round needs 2"),
    ):
        parts.run(grid=LocalGrid({}))
    assert not (tmp_path / "rounds.json").exists()
