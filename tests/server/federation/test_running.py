"""Rounds from the first question to the release, with real devices that train, die, lie and lag."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.adapter import parse_adapter
from pocketquery.sdk.errors import ArtifactError
from pocketquery.server.federation.clock import VirtualClock
from pocketquery.server.federation.local_grid import Fault, FaultPlan, LocalGrid
from pocketquery.server.federation.round_row import RoundRow
from pocketquery.server.federation.running import run_rounds
from tests.server.federation.small_federation import Files, Parts, opened


def run(
    parts: Parts, faults: FaultPlan | None = None, seen: list[RoundRow] | None = None
) -> list[RoundRow]:
    return run_rounds(
        parts.work,
        parts.publisher,
        parts.first,
        parts.options,
        LocalGrid(parts.devices, faults),
        VirtualClock(),
        show=(seen if seen is not None else []).append,
    )


def test_rounds_make_releases_that_devices_can_load(federation: Files, tmp_path: Path) -> None:
    seen: list[RoundRow] = []
    with opened(federation, tmp_path) as parts:
        rows = run(parts, seen=seen)
    assert [(row.round, row.asked, row.accepted, row.outcome) for row in rows] == [
        (0, 6, 4, "release 2"),
        (1, 6, 4, "release 3"),
    ]
    for row in rows:
        assert row.figures["loss"] > 0
        assert 0 < row.figures["drift"] < 0.2
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
            rows = run(parts)
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
        first, second = run(parts, faults)
    assert (first.asked, first.accepted, first.failed) == (12, 3, 3)
    assert first.quarantined == {"duplicate": 3}
    assert first.seconds > 600  # it waited for the silent ones, to the deadline
    assert second.accepted == 12
    assert second.quarantined == {"stale_round": 3}


def test_a_round_with_too_few_replies_is_skipped_and_the_release_stays(
    federation: Files, tmp_path: Path
) -> None:
    with opened(federation, tmp_path) as parts:
        rows = run(parts, lambda node, group: Fault.DIES if group == "0" else Fault.NONE)
    assert rows[0].outcome == "skipped"
    assert rows[0].failed == 6
    assert "0 valid replies, at least 2 needed" in str(rows[0].skipped)
    assert (rows[0].version, rows[1].version) == ("1", "2")


def test_a_release_that_was_rolled_back_is_where_the_next_round_begins(
    federation: Files, tmp_path: Path
) -> None:
    with opened(federation, tmp_path, optimizer="fedadam") as parts:
        run(parts)
        parts.publisher.registry.rollback("2")
    with opened(federation, tmp_path, optimizer="fedadam", rounds=3) as parts:
        rows = run(parts)
    assert (rows[2].base_version, rows[2].version) == ("2", "4")
    assert parse_adapter(parts.publisher.registry.read()).parent_version == "2"


def test_a_round_is_not_begun_before_enough_devices_are_connected(
    federation: Files, tmp_path: Path
) -> None:
    with (
        opened(federation, tmp_path) as parts,
        pytest.raises(ArtifactError, match="0 devices are connected after 120 s, a round needs 2"),
    ):
        run_rounds(
            tmp_path, parts.publisher, parts.first, parts.options, LocalGrid({}), VirtualClock()
        )
    assert not (tmp_path / "rounds.json").exists()
