"""The scripts of ``pocketquery completion``, used by a real bash."""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketquery.sdk.cli import main, whole_parser
from pocketquery.sdk.commands import Parsed
from pocketquery.sdk.completion import _takes_path
from pocketquery.sdk.validation import whole

pytest.importorskip("shtab")

Words = Callable[..., set[str]]

# What bash does at a Tab: it calls the function that `complete -F` named, and reads COMPREPLY.
_TAB = """
source "$1"; shift
function=$(complete -p pocketquery | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
"$function" pocketquery "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def device_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the commands of the base install, as on a device: the others would import torch."""
    points = [
        p
        for p in importlib.metadata.entry_points(group="pocketquery.commands")
        if ".sdk." in p.module
    ]
    points += [importlib.metadata.EntryPoint("absent", "absent_room:run", "pocketquery.commands")]
    monkeypatch.setattr("pocketquery.sdk.cli.entry_points", lambda group: points)


@pytest.fixture
def after_tab(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Words:
    """What bash offers for the words so far; the last one is being written."""
    if shutil.which("bash") is None:
        pytest.skip("no bash here")
    device_commands(monkeypatch)
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "script.bash"
    script.write_text(capsys.readouterr().out)

    def offered(*words: str) -> set[str]:
        command = ["bash", "--norc", "-c", _TAB, "bash", str(script), "pocketquery", *words]
        result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert result.stderr == ""
        return set(filter(None, result.stdout.splitlines()))

    return offered


def test_commands(after_tab: Words) -> None:
    assert {"encode", "search", "verify", "doctor", "completion", "absent"} <= after_tab("")
    assert after_tab("sea") == {"search"}
    assert after_tab("xy") == set()


def test_options_and_their_values(after_tab: Words, tmp_path: Path) -> None:
    (tmp_path / "my-bundle").mkdir()
    assert {"--bundle", "--index", "--json"} <= after_tab("doctor", "--")
    assert after_tab("search", "--mo") == {"--mode"}
    assert after_tab("search", "--mode", "") == {"dense", "lexical", "hybrid"}
    assert after_tab("search", "--bundle", "my") == {"my-bundle"}
    assert after_tab("search", "-k", "my") == set()  # a number is no file
    assert after_tab("verify", "my") == {"my-bundle"}
    assert after_tab("completion", "") == {"bash", "zsh", "fish"}


def test_an_integer_with_a_rule_is_no_file_either() -> None:
    add = argparse.ArgumentParser().add_argument
    found = [_takes_path(add(f"--{kind}", type=kind)) for kind in (int, Parsed(whole(), int), str)]
    assert found == [False, False, True]


@pytest.mark.parametrize(("shell", "first"), [("zsh", "#compdef pocketquery"), ("fish", "#")])
def test_the_other_shells(
    shell: str,
    first: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    device_commands(monkeypatch)
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script.startswith(first)
    assert "doctor" in script
    assert "index-public-key" in script
    if shutil.which(shell) is not None:
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_without_the_extra_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert 'pip install "pocketquery[completion]"' in capsys.readouterr().err


@pytest.mark.slow
def test_every_command_is_in_the_whole_parser() -> None:
    said = whole_parser().format_help()
    for point in importlib.metadata.entry_points(group="pocketquery.commands"):
        assert point.name in said
