"""Rounds survive a kill at any line, to the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", [[], ["secure"]])
@pytest.mark.parametrize("points", [6, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.timeout(3600)
def test_rounds_killed_at_any_line_go_on_to_the_same_releases(
    tmp_path: Path, points: int, kind: list[str]
) -> None:
    module = "tests.server.federation.simulation_kill_points"
    result = subprocess.run(
        [sys.executable, "-m", module, str(tmp_path), str(points), *kind],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [str(points)]
