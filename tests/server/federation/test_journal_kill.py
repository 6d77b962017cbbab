"""A kill at any statement leaves a journal that goes on to the same bits."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.kills import by_fork, in_memory, printed


@by_fork
@pytest.mark.parametrize("kind", [[], pytest.param(["buffered"], marks=pytest.mark.slow)])
def test_killed_at_every_statement(tmp_path: Path, kind: list[str]) -> None:
    with in_memory(tmp_path) as folder:
        seen = ast.literal_eval(printed("tests.server.federation.kill_points", folder, *kind)[-1])
    assert set(seen) == {"idle", "open", "candidate", "cuts"}
    assert min(seen.values()) >= 5, seen
