"""A wheel of this tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("sdk", "client", "server", "distill", "export")


def build_wheel(folder: Path, variables: Mapping[str, str] | None = None) -> Path:
    """Build it in ``folder``, from a copy: setuptools leaves a build folder where it builds."""
    tree = folder / "tree"
    for name in (*PACKAGES, "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).is_dir():
            # sdk/js is npm's; what it builds is there where it was built.
            ignored = shutil.ignore_patterns(
                "__pycache__", "node_modules", "src", "test", "scripts"
            )
            shutil.copytree(ROOT / name, tree / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, tree / name)
    return wheel_of(tree, folder, variables)


def wheel_of(tree: Path, folder: Path, variables: Mapping[str, str] | None = None) -> Path:
    """Build the wheel of the project in ``tree``, which gets a build folder, in ``folder``."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--quiet", "--wheel-dir", str(folder), str(tree)]
    environment = {**os.environ, **(variables or {})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("pocketquery*.whl")
    return path
