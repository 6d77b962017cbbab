"""A kill at any moment of publishing leaves the old bundle or the new one, whole."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_killed_at_many_lines(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.export.kill_points", str(tmp_path / name), "16"]
    # What a killed process leaves in the folder for temporaries goes with the test's own.
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    seen = ast.literal_eval(done.stdout.splitlines()[-1])
    assert set(seen) == {"1", "2"}, seen  # both the old and the new were met
