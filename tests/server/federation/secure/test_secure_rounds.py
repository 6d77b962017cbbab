"""Private rounds from the first question to the release, with real devices that train and mask."""

from __future__ import annotations

from pathlib import Path
from typing import Any


from pocketquery.server.federation.rounds.clock import VirtualClock
from pocketquery.server.federation.rounds.federation import run_rounds
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.simulation.enrolment import simulated_environment
from pocketquery.server.federation.simulation.local_grid import FaultPlan, LocalGrid
from tests.server.federation.small_federation import Files, Parts, opened

SECURE: dict[str, Any] = {
    "secure": "on", "secure-least": 4, "clients-per-round": 8, "rest": 1, "rounds": 1,
}  # fmt: skip


def run(parts: Parts, faults: FaultPlan | None = None) -> list[RoundReport]:
    return run_rounds(
        parts.work,
        parts.publisher,
        parts.first,
        parts.options,
        LocalGrid(parts.devices, faults),
        VirtualClock(),
        environment=simulated_environment(parts.options.seed),
    )


def test_a_private_round_releases_the_mean_of_its_devices(
    federation: Files, tmp_path: Path
) -> None:
    with opened(federation, tmp_path, **SECURE) as parts:
        (report,) = run(parts)
    assert (report.asked, report.accepted, report.outcome) == (12, 8, "release 2")
    assert report.stages == {
        "ready": 8, "committed": 8, "survivors": 8, "confirmed": 8, "revealed": 6,
    }  # fmt: skip
    assert report.figures == {}
    assert report.quarantined == {}
