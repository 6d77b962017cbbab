"""Two search pages on one origin, each under its own path: neither touches what the other keeps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.examples.test_web import TRAINING, make_learning_index

ROOT = Path(__file__).parents[2]
WEB = ROOT / "examples" / "web"
PLAYWRIGHT = ROOT / "sdk" / "js" / "node_modules" / "playwright-core" / "index.js"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"

is_built = (ROOT / "sdk" / "js" / "dist" / "web.js").exists() and PLAYWRIGHT.exists()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not is_built, reason="sdk/js is not built: npm ci && npm run build"),
    pytest.mark.skipif(
        not Path(CHROMIUM).exists() or shutil.which("node") is None, reason="no Chromium or node"
    ),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What web_neighbours.mjs saw."""
    folder = tmp_path_factory.mktemp("neighbours")
    indexes = {"a": make_learning_index(folder / "a"), "b": make_learning_index(folder / "b", 40)}
    settings = {
        "python": sys.executable,
        "serve": str(WEB / "serve.py"),
        "playwright": str(PLAYWRIGHT),
        "chromium": CHROMIUM,
        "sites": {name: [str(TRAINING), str(index)] for name, index in indexes.items()},
        "query": "water oxygen of the castle",
    }
    command = ["node", str(Path(__file__).with_name("web_neighbours.mjs")), json.dumps(settings)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ended.stdout)


def test_each_page_goes_on_without_a_network(found: Any) -> None:
    assert found["errors"] == []
    a, b = found["a"], found["b"]
    assert a["documents"].startswith("90 (")
    assert b["documents"].startswith("40 (")
    assert found["anew"] == b  # everything was forgotten there, and fetched again
    assert found["offline"]["a"] == {**a, "asks": False}
    assert found["offline"]["b"] == b


def test_who_agrees_on_one_page_has_not_agreed_on_the_other(found: Any) -> None:
    assert found["a"]["asks"]
    assert found["b"]["asks"]
    assert not found["offline"]["a"]["asks"]
    assert found["offline"]["b"]["asks"]


def test_of_what_an_earlier_version_kept_each_page_deletes_its_own(found: Any) -> None:
    assert found["leftByA"] == ["/b/sha256/older"]
    assert found["leftByB"] == []
