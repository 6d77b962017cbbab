"""A kill at any write of a release leaves the registry as it was or as it was to be, whole."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.kills import printed

PLAIN = ["first", "accept", "reject", "roll back", "file"]
SIGNED = ["begin signing", "accept, signed", "roll back, signed", "roll out", "rotate", "follow"]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="stops processes at system calls with ptrace"
)


def walked(folder: Path, names: list[str]) -> dict[str, Counter[str]]:
    """How often each operation left the old state and the new one."""
    module = "tests.server.federation.release_kill_points"
    found = map(ast.literal_eval, printed(module, folder, *names))
    seen = {one.pop("operation"): one for one in found}
    assert list(seen) == names
    for operation, states in seen.items():
        assert states.keys() == {"old", "new"}, operation  # both were met
    return seen


def test_killed_at_every_change_on_disk(tmp_path: Path) -> None:
    assert walked(tmp_path, PLAIN)["accept"]["old"] > 10  # also inside SQLite's commit


@pytest.mark.very_slow
@pytest.mark.timeout(300)
def test_signed_changes_killed_at_every_change_on_disk(tmp_path: Path) -> None:
    walked(tmp_path, SIGNED)
