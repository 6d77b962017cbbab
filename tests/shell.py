"""The command line in this process: its exit code and what it prints."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pocketquery.sdk.cli import main


class Printed(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str


class Shell:
    """Calls ``pocketquery`` with words of any kind, and checks how it ended."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object, code: int = 0, says: str = "") -> Printed:
        self._capsys.readouterr()
        try:
            ended = main([str(word) for word in words])
        except SystemExit as end:
            ended = int(end.code or 0)
        printed = Printed(ended, *self._capsys.readouterr())
        assert ended == code, printed
        assert says in (printed.err if code == 2 else printed.out), printed
        return printed
