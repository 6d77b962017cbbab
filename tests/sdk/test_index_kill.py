"""A kill at any moment leaves the old index or the new one, and the work can be done again."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.kills import by_fork, printed


@by_fork
@pytest.mark.parametrize("points", [8, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "operation", ["add", "first", "change", "delete", "compact", "build", "slice", "delta"]
)
def test_killed_at_many_lines(operation: str, points: int, tmp_path: Path) -> None:
    seen = ast.literal_eval(printed("tests.sdk.kill_points", operation, tmp_path, points)[-1])
    assert len(seen) == 2, seen  # both the old and the new were met
