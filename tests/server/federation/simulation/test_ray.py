"""Flower's own engine: with Ray the same simulation on many cores, without it what to install."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ray_start import ray_environment
from tests.server.federation.small_federation import Files

ROOT = Path(__file__).parents[4]
WITHOUT = (
    'the package "ray" is needed here and is not installed; install it with: pip install '
    '"pocketquery[simulation]"'
)


@pytest.mark.slow
@pytest.mark.timeout(900)  # Ray is started twice, which takes a busy machine minutes
def test_rounds_run_on_ray_and_its_absence_and_errors_are_told(
    federation: Files, tmp_path: Path
) -> None:
    module = "tests.server.federation.ray_rounds"
    result = subprocess.run(
        [sys.executable, "-m", module, str(federation.folder), str(tmp_path / "rounds")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ray_environment(tmp_path / "environment"),
    )
    assert result.returncode == 0, result.stderr
    if importlib.util.find_spec("ray") is None:
        assert result.stdout.splitlines() == [WITHOUT]
        return
    assert result.stdout.splitlines() == ["the disk is full", "[(0, 4), (1, 4)]"]
    assert "DEPRECATED" not in result.stderr
    assert len(list((tmp_path / "rounds" / "devices").iterdir())) >= 4
