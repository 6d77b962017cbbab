from __future__ import annotations

import pytest

from pocketquery.sdk.indexing.options import print_skipped, print_skipped_files
from pocketquery.sdk.text_folders.listing import Skipped


def test_many_files_of_one_reason_hide_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    sources = [(f"{name}.py", "a .py file") for name in range(1000)]
    print_skipped(
        [*sources, ("a.md", "not UTF-8"), ("b.png", "a .png file"), ("c.png", "a .png file")]
    )
    assert capsys.readouterr().err.splitlines() == [
        "not read: 0.py and 999 more: a .py file",
        "not read: a.md: not UTF-8",
        "not read: b.png: a .png file",
        "not read: c.png: a .png file",
    ]


def test_of_very_many_reasons_some_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_skipped([(f"{byte}.txt", f"not UTF-8 at byte {byte}") for byte in range(107)])
    lines = capsys.readouterr().err.splitlines()
    assert lines[99:] == [
        "not read: 99.txt: not UTF-8 at byte 99",
        "not read: files for 7 more reasons",
    ]


def test_names_of_files_command_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_skipped([("a\x1b]0;x\x07.py", "a .py file")])
    print_skipped_files([Skipped("b.\x1b[2J", ".\x1b[2J", "a .\x1b[2J file")], verbose=True)
    assert "\x1b" not in capsys.readouterr().err
