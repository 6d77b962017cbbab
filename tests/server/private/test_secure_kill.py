"""A server killed at any transaction of a private round goes on to the same bits, and keeps no
secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kills import by_fork, in_memory, printed


@by_fork
@pytest.mark.parametrize(
    ("graph", "moments", "kinds"),
    [
        pytest.param("complete", "after", "boxes", marks=pytest.mark.slow),
        pytest.param("complete", "before,inside,after", "", marks=pytest.mark.very_slow),
        pytest.param("ring", "after", "", marks=pytest.mark.very_slow),
    ],
)
@pytest.mark.timeout(7200)
def test_killed_at_transactions_of_every_kind(
    tmp_path: Path, graph: str, moments: str, kinds: str
) -> None:
    module = "tests.server.private.secure_kill_points"
    chosen = [kinds] if kinds else []
    with in_memory(tmp_path) as folder:
        tried = json.loads(printed(module, folder, graph, moments, *chosen, timeout=7200)[-1])
    assert len(tried) == (1 if kinds else 13)
    assert set(tried.values()) == {len(moments.split(","))}
