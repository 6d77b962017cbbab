"""A kill at any write of a release leaves the registry as it was or as it was to be, whole."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLAIN = ["first", "accept", "reject", "roll back", "file"]
SIGNED = ["begin signing", "accept, signed", "roll back, signed", "roll out", "rotate", "follow"]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="stops processes at system calls with ptrace"
)


def walked(folder: Path, names: list[str]) -> dict[str, Counter[str]]:
    """How often each operation left the old state and the new one."""
    module = "tests.server.federation.release_kill_points"
    command = [sys.executable, "-m", module, str(folder), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    seen = {
        found.pop("operation"): found for found in map(ast.literal_eval, done.stdout.splitlines())
    }
    assert list(seen) == names
    for operation, states in seen.items():
        assert states.keys() == {"old", "new"}, operation  # both were met
    return seen


def test_killed_at_every_change_on_disk(tmp_path: Path) -> None:
    assert walked(tmp_path, PLAIN)["accept"]["old"] > 10  # also inside SQLite's commit


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_signed_changes_killed_at_every_change_on_disk(tmp_path: Path) -> None:
    walked(tmp_path, SIGNED)
