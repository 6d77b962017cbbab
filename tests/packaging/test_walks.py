"""How much of the SDK runs on the way to a result; and that it stands alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging import walks as walks_module
from tests.packaging.walks import write_notes

MOST = {"first encode": 20, "warm encode": 8, "fifty notes": 36, "hybrid search": 22}

# Runs each command as the shell does, and says which modules of the packages above were imported.
ALONE = """
import os, sys
sys.argv[0] = "pocketquery"
from pocketquery.sdk.cli import main
for command in {commands!r}:
    code = main(command)
    above = [name for name in sys.modules if name.startswith(
        ("pocketquery.client", "pocketquery.server", "pocketquery.distill", "pocketquery.export",
         "pocketquery_")
    )]
    assert code == 0, command
    assert not above, (command, above)
"""


@pytest.fixture(scope="module")
def walks() -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, walks_module.__file__], capture_output=True, text=True, check=True
    )
    counted: dict[str, list[str]] = json.loads(done.stdout)
    return counted


@pytest.mark.parametrize("name", MOST)
def test_a_walk_crosses_few_files(name: str, walks: dict[str, list[str]]) -> None:
    files = walks[name]
    assert 5 < len(files) <= MOST[name], files
    assert {file.split("/")[0] for file in files} == {"sdk"}


def test_the_commands_of_the_sdk_import_nothing_above_it(tmp_path: Path) -> None:
    notes, index = write_notes(tmp_path / "notes"), str(tmp_path / "index")
    commands = [
        ["index", str(notes)],
        ["search", "when were they planted"],
        ["index", "--documents", str(notes), "--symmetric", "--output", index],
        ["encode", "tomatoes"],
        ["verify", index],
        ["slice", "--index", index, "--filter", '{"part": 1}', "--output", f"{index}-slice"],
        ["doctor", "--index", index],
    ]
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
    environment.pop("POCKETQUERY_INDEX", None)
    done = subprocess.run(
        [sys.executable, "-c", ALONE.format(commands=commands)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--corpus", "corpus.jsonl"], 0, ""),
        (["--corpus", "corpus.jsonl", "--teacher", "demo"], 2, "pocketquery[demo]"),
        (["--documents", ".", "--teacher", "a/b"], 2, "pocketquery[export]"),
    ],
)
def test_without_torch_the_bundle_encodes_and_a_teacher_names_its_extra(
    tmp_path: Path, options: list[str], code: int, message: str
) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "the sea is deep"}\n')
    (tmp_path / "notes.txt").write_text("the sea is deep")
    command = ["index", *options, "--output", "index"]
    program = "import sys; sys.modules['torch'] = None\nfrom pocketquery.sdk.cli import main\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}sys.exit(main({command!r}))"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert ("leave --teacher out" in done.stderr) == bool(message)
