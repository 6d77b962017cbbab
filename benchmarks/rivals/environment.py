"""The rivals' virtual environment, .rivals/ in the repository root, made when first needed.

python benchmarks/rivals/environment.py
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["rivals_python"]

_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_FOLDER = Path(__file__).resolve().parents[2] / ".rivals"


def rivals_python() -> Path:
    """The interpreter of the rivals' environment, which is made, or made anew after a change of
    requirements.txt, if need be.

    Raises:
        subprocess.CalledProcessError: pip failed; it has said why.
    """
    python = _FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = _FOLDER / "requirements.sha256"
    wanted = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    print(f"making {_FOLDER} (once)", file=sys.stderr)
    venv.create(_FOLDER, clear=True, with_pip=True)
    install = ["-m", "pip", "install", "--quiet", "--requirement", str(_REQUIREMENTS)]
    subprocess.run([str(python), *install], check=True)
    stamp.write_text(wanted)
    return python


if __name__ == "__main__":
    print(rivals_python())
