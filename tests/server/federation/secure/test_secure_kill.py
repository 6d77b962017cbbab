"""A server killed at any transaction of a private round goes on to the same bits, and keeps no
secret."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
slow = pytest.mark.slow


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.parametrize(
    ("graph", "moments", "kinds"),
    [
        ("complete", "after", "boxes"),
        pytest.param("complete", "before,inside,after", "", marks=slow),
        pytest.param("ring", "after", "", marks=slow),
    ],
)
@pytest.mark.timeout(7200)
def test_killed_at_transactions_of_every_kind(
    tmp_path: Path, graph: str, moments: str, kinds: str
) -> None:
    # A killed process leaves its writes to the system, so where they go does not matter, and a disk
    # in memory spares thousands of waits.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    folder = tempfile.mkdtemp(dir=memory)
    module = "tests.server.federation.secure.secure_kill_points"
    command = [sys.executable, "-m", module, folder, graph, moments, *([kinds] if kinds else [])]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    tried = json.loads(done.stdout.splitlines()[-1])
    assert len(tried) == (1 if kinds else 13)
    assert set(tried.values()) == {len(moments.split(","))}
