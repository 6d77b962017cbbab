"""The scripts that drive the search page in a real browser, and where what they need lies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

__all__ = ["CHROMIUM", "PACKAGE", "PAGE", "PLAYWRIGHT", "ROOT", "WEB", "browser", "built", "seen"]

ROOT = Path(__file__).parents[2]
WEB = ROOT / "examples" / "web"
PAGE = ROOT / "sdk" / "serving" / "web"
PACKAGE = ROOT / "sdk" / "js"
PLAYWRIGHT = PACKAGE / "node_modules" / "playwright-core" / "index.js"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"

is_built = all((PACKAGE / "dist" / name).exists() for name in ("web.js", "gateway.js"))
built = pytest.mark.skipif(
    not is_built or not (PACKAGE / "node_modules").is_dir(),
    reason="sdk/js is not built: npm ci && npm run build",
)
browser = pytest.mark.skipif(
    not Path(CHROMIUM).exists() or not PLAYWRIGHT.exists() or shutil.which("node") is None,
    reason="no Chromium, no node or no playwright-core",
)


def seen(script: str, *, cwd: Path | None = None, **settings: Any) -> Any:
    """What the script beside this file prints, JSON; it is given the settings, and where to find
    what all of them need."""
    given = {
        "python": sys.executable,
        "serve": WEB / "serve.py",
        "playwright": PLAYWRIGHT,
        "chromium": CHROMIUM,
        **settings,
    }
    command = ["node", str(Path(__file__).with_name(script)), json.dumps(given, default=str)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=cwd)
    return json.loads(ended.stdout)
