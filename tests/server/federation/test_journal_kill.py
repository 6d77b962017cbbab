"""A kill at any statement leaves a journal that goes on to the same bits."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.kills import by_fork, in_memory, printed

FEW = 11  # has no divisor in common with the statements of a reply


@by_fork
@pytest.mark.parametrize("step", [FEW, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [[], ["buffered"]], ids=["synchronous", "buffered"])
def test_killed_at_a_statement(tmp_path: Path, kind: list[str], step: int) -> None:
    module = "tests.server.federation.kill_points"
    with in_memory(tmp_path) as folder:
        seen = ast.literal_eval(printed(module, folder, step, *kind)[-1])
    assert set(seen) == {"idle", "open", "candidate", "cuts"}
    assert min(seen.values()) >= 5 // step + 1, seen
