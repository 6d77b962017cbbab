"""Virtual environments beside ours, under .rivals/ in the repository root, made when first needed.

    python benchmarks/rivals/environment.py

A rival that wants other versions than we do has one of its own. Where starting counts, we have one,
too, with nothing but ``pip install .`` in it: what else is installed, and an editable install,
change what a start costs.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["device_python", "fastembed_python", "pipelines_python", "rivals_python"]

_ROOT = Path(__file__).resolve().parents[2]
_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_PIPELINES = _REQUIREMENTS.with_name("requirements-pipelines.txt")
_CONSTRAINTS = _ROOT / "constraints.txt"


def rivals_python() -> Path:
    """The interpreter with the rivals of requirements.txt.

    Raises:
        subprocess.CalledProcessError: pip failed; it has said why.
    """
    return _python("quality", ["--requirement", str(_REQUIREMENTS)], [_REQUIREMENTS])


def pipelines_python() -> Path:
    """The interpreter with the pipelines of search_pipelines.py. Raises as ``rivals_python``."""
    return _python("pipelines", ["--requirement", str(_PIPELINES)], [_PIPELINES])


def fastembed_python() -> Path:
    """The interpreter with fastembed alone. Raises as ``rivals_python`` does."""
    return _python("fastembed", ["--constraint", str(_CONSTRAINTS), "fastembed"], [_CONSTRAINTS])


def device_python() -> Path:
    """The interpreter with our base install alone, of the checkout as it is. Raises as
    ``rivals_python`` does.
    """
    sdk = sorted([*_ROOT.glob("sdk/**/*.py"), *_ROOT.glob("sdk/default/*")])
    sources = [_CONSTRAINTS, _ROOT / "pyproject.toml", *sdk]
    return _python("device", ["--constraint", str(_CONSTRAINTS), str(_ROOT)], sources)


def _python(name: str, install: list[str], made_of: list[Path]) -> Path:
    """The interpreter of the environment ``name``, made anew where what it is made of changed."""
    folder = _ROOT / ".rivals" / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "made_of.sha256"
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in made_of)).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    print(f"making {folder} (once)", file=sys.stderr)
    venv.create(folder, clear=True, with_pip=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *install], check=True)
    stamp.write_text(wanted)
    return python


if __name__ == "__main__":
    for made in (rivals_python, pipelines_python, fastembed_python, device_python):
        print(made())
