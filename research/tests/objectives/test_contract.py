"""Every baseline keeps the contract of objectives."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from tests.server.objectives import contract

NAMES = sorted(point.name for point in entry_points(group="pocketquery.objectives"))
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    ("seed", {"memory": "cross"}),
    ("tsdae", {"tie": "full"}),
]


def test_all_are_registered() -> None:
    assert NAMES == ["cmlm", "prop", "quick_thought", "seed", "tsdae"]


@pytest.mark.parametrize("check", contract.CHECKS)
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_it_holds(
    name: str, options: dict[str, Any], check: Callable[[str, dict[str, Any]], None]
) -> None:
    check(name, options)


@pytest.mark.parametrize("name", NAMES)
def test_settings(name: str) -> None:
    contract.check_settings(name)


@pytest.mark.parametrize("name", NAMES)
def test_resuming(name: str, tmp_path: Path) -> None:
    contract.check_resuming(name, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_shipping(name: str, tmp_path: Path) -> None:
    contract.check_shipping(name, tmp_path)


@pytest.mark.parametrize("gur_first", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_beside_gur(name: str, gur_first: bool) -> None:
    contract.check_beside_gur(name, gur_first=gur_first)
