"""A kill at any statement leaves a journal that goes on to the same bits."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
def test_killed_at_every_statement(tmp_path: Path) -> None:
    # A killed process leaves its writes to the system, so where they go does not matter, and a disk
    # in memory spares thousands of waits.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    folder = tempfile.mkdtemp(dir=memory)
    command = [sys.executable, "-m", "tests.server.federation.kill_points", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    seen = ast.literal_eval(done.stdout.splitlines()[-1])
    assert set(seen) == {"idle", "open", "candidate", "cuts"}
    assert min(seen.values()) >= 5, seen
