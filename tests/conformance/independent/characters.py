"""The tables of conformance/tables."""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parents[3] / "conformance" / "tables"


def table(name: str) -> dict[str, Any]:
    """A file of tables."""
    found: dict[str, Any] = json.loads((TABLES / name).read_text(encoding="utf-8"))
    return found


class Characters:
    """Code points and ranges as ``"300-36F 483"``."""

    def __init__(self, text: str) -> None:
        self._bounds: list[int] = []
        for span in text.split():
            first, _, last = span.partition("-")
            self._bounds += [int(first, 16), int(last or first, 16) + 1]

    def __contains__(self, character: str) -> bool:
        return bisect_right(self._bounds, ord(character)) % 2 == 1


def pairs(text: str) -> dict[str, str]:
    """``"41>61 42>62"``."""
    points = (pair.split(">") for pair in text.split())
    return {chr(int(one, 16)): chr(int(other, 16)) for one, other in points}
