"""A kill at any moment of publishing leaves the old bundle or the new one, whole."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.kills import by_fork, printed


@pytest.mark.slow  # the fast run kills a writer in tests/sdk/bundle/test_bundle.py
@by_fork
@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_killed_at_many_lines(name: str, tmp_path: Path) -> None:
    seen = ast.literal_eval(printed("tests.export.kill_points", tmp_path / name, 16)[-1])
    assert set(seen) == {"1", "2"}, seen  # both the old and the new were met
