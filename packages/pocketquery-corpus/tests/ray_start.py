"""An environment in which Ray's processes start in time on a busy machine.

Ray starts seven processes, and a part of them has 15 seconds. Each imports jsonschema, which takes
two seconds more where rfc3987-syntax is installed: it builds a grammar. What we test with brings
it; who installs the package alone has not got it.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["ray_environment"]


def ray_environment(folder: Path) -> dict[str, str]:
    """This process's environment, where rfc3987-syntax cannot be imported; ``folder`` is filled."""
    folder.mkdir(exist_ok=True)
    (folder / "rfc3987_syntax.py").write_text("raise ImportError\n")
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": path}
