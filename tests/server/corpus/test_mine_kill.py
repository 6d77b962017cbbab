"""A kill at any moment of mining leaves the old store or the new one."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
def test_killed_at_many_lines(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.server.corpus.mine_kill_points", str(tmp_path), "12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    seen = ast.literal_eval(done.stdout.splitlines()[-1])
    assert set(seen) == {"old", "new"}, seen
