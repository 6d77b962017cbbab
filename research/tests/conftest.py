"""Marks every test of this folder `research`; settings are those of tests/conftest.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import only_this_machine

__all__ = ["only_this_machine"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.research)
