"""A kill at any write of a release leaves the registry as it was or as it was to be, whole."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(sys.platform != "linux", reason="stops processes at system calls with ptrace")
def test_killed_at_every_change_on_disk(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.server.federation.release_kill_points", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    seen = {
        found.pop("operation"): found for found in map(ast.literal_eval, done.stdout.splitlines())
    }
    assert seen.keys() == {"first", "accept", "reject", "roll back", "file"}
    for operation, states in seen.items():
        assert states.keys() == {"old", "new"}, operation  # both were met
    assert seen["accept"]["old"] > 10  # also inside SQLite's commit
