"""A process that closes nothing ends without a word on stderr."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.test_layout import FOLDERS, ROOT, modules
from tests.sdk.tiny_bundle import write_tiny_bundle, write_tiny_index

OPEN_ALL = """
import sys
from pocketquery import sdk
from pocketquery.client.store.store import QueryStore
from pocketquery.client.trusted_releases import TrustedReleases

def open_all(folder):
    encoder = sdk.load(f"{folder}/bundle")
    index = sdk.open_index(f"{folder}/index", encoder=encoder)
    hits = index.search("sea")
    store = QueryStore.open(f"{folder}/queries.sqlite")
    store.give_consent()
    store.add("sea", ["a"], "a")
    return encoder, index, hits, store, TrustedReleases(public_key=bytes(range(32)))
"""


def stderr_of(program: str, folder: Path) -> str:
    # torch may load SWIG, whose types warn when they are imported: not our words.
    swig = "ignore:builtin type swig:DeprecationWarning"
    options = ["-X", "dev", "-W", swig]
    command = [sys.executable, *options, "-c", OPEN_ALL + program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exit")
    write_tiny_bundle(folder / "bundle")
    write_tiny_index(folder / "index")
    return folder


@pytest.mark.parametrize(
    "program",
    [
        "opened = open_all(sys.argv[1])",
        "import threading\n"
        "opened = []\n"
        "work = threading.Thread(target=lambda: opened.append(open_all(sys.argv[1])))\n"
        "work.start()\n"
        "work.join()",
        "open_all(sys.argv[1])  # collected before the end",
        pytest.param(
            "from pocketquery.server.modeling import SentenceEncoder\n"
            "opened = open_all(sys.argv[1])",
            marks=pytest.mark.slow,  # imports torch, which keeps objects alive until the very end
        ),
    ],
)
def test_what_is_left_open_is_closed_in_silence(program: str, folder: Path) -> None:
    assert stderr_of(program, folder) == ""


@pytest.mark.parametrize("package", FOLDERS)
def test_nothing_of_ours_runs_while_modules_are_half_gone(package: str) -> None:
    for path in modules(package):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert "__del__" not in names, f"{path}: expected weakref.finalize"
