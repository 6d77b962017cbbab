"""A kill at any moment of mining leaves the old store or the new one."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.kills import by_fork, printed


@by_fork
def test_killed_at_many_lines(tmp_path: Path) -> None:
    seen = ast.literal_eval(printed("tests.server.corpus.mine_kill_points", tmp_path, 12)[-1])
    assert set(seen) == {"old", "new"}, seen
