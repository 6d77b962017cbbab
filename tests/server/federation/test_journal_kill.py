"""A kill at any statement leaves a journal that goes on to the same bits."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
def test_killed_at_every_statement(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.server.federation.kill_points", str(tmp_path / "k")]
    (tmp_path / "k").mkdir()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    seen = ast.literal_eval(done.stdout.splitlines()[-1])
    assert set(seen) == {"idle", "open", "candidate", "cuts"}
    assert min(seen.values()) >= 5, seen
