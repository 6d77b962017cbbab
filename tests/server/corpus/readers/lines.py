"""Files of JSON lines, and what is said of a bad line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketquery.sdk.errors import CorpusError


def write(path: Path, *lines: object) -> Path:
    """A file of JSON lines; its path."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def check_refused(read: Callable[[Path], object], path: Path, line: int, words: str) -> str:
    """The message that names the line with what is wrong in it."""
    with pytest.raises(CorpusError) as caught:
        read(path)
    message = str(caught.value)
    assert f"{path}, line {line}: " in message
    assert words in message
    return message
