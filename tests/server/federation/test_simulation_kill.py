"""Rounds survive a kill at any line, to the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills import printed

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", [[], ["secure"], ["buffered"]])
@pytest.mark.parametrize("points", [2, pytest.param(40, marks=pytest.mark.very_slow)])
@pytest.mark.timeout(3600)
def test_rounds_killed_at_any_line_go_on_to_the_same_releases(
    tmp_path: Path, points: int, kind: list[str]
) -> None:
    module = "tests.server.federation.simulation_kill_points"
    said = printed(module, tmp_path, points, *kind, timeout=3600)
    assert said == [str(points)]
