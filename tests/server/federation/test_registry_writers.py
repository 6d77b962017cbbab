"""Several processes write to one registry and are killed: one sound chain, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.federation.registry_writers import storm


def test_two_writers_and_two_kills(tmp_path: Path) -> None:
    found = storm(tmp_path, writers=2, kills=2, seed=1)
    assert found["done"] <= found["statements"] * 3


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_four_writers_and_ten_kills(tmp_path: Path) -> None:
    found = storm(tmp_path, writers=4, kills=10, seed=2)
    assert found["kinds"] == ["publish", "roll_back", "roll_out", "rotate"]
    assert found["statements"] > 40
