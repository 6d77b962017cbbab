"""A kill at any moment leaves the old index or the new one, and the work can be done again."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.parametrize("operation", ["add", "delete", "compact", "build"])
def test_killed_at_many_lines(operation: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.sdk.kill_points", operation, str(tmp_path), "30"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    seen = ast.literal_eval(done.stdout.splitlines()[-1])
    assert len(seen) == 2, seen  # both the old and the new were met
