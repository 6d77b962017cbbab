"""Every built-in objective keeps the contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketquery.server.objectives import OBJECTIVES
from tests.server.objectives import contract

CASES = [
    *(pytest.param(name, {}, id=name) for name in OBJECTIVES),
    *(
        pytest.param(name, options, id=f"{name} {options}", marks=pytest.mark.slow)
        for name, options in (
            ("contrastive", {"loss": "info_nce", "symmetric": True}),
            ("cpdae", {"variant": "cpdae_r"}),
            ("fine_tune", {"loss": "info_nce"}),
            ("gur", {"title_share": 0.5}),
            ("ict", {"similarity": "cosine", "symmetric": True}),
            ("query_bert", {"projector": "mlp"}),
            ("ccp", {"bn_mode": "none", "normalize": False}),
            ("ccp", {"mlm_probability": 0.999}),
        )
    ),
]


@pytest.mark.parametrize("check", contract.CHECKS)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_it_holds(
    name: str, options: dict[str, Any], check: Callable[[str, dict[str, Any]], None]
) -> None:
    check(name, options)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_settings(name: str) -> None:
    contract.check_settings(name)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_resuming(name: str, tmp_path: Path) -> None:
    contract.check_resuming(name, tmp_path)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_shipping(name: str, tmp_path: Path) -> None:
    contract.check_shipping(name, tmp_path)


@pytest.mark.parametrize("gur_first", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != "gur"])
def test_beside_gur(name: str, gur_first: bool) -> None:
    contract.check_beside_gur(name, gur_first=gur_first)
