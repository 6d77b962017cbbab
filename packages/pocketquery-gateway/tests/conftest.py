"""Fixtures shared by the tests of the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_gateway import SmallGateway, opened

from tests.short_folder import tmp_path

__all__ = ["small", "tmp_path"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallGateway]:
    """A gateway in this process, with its settings' defaults."""
    with opened(tmp_path) as made:
        yield made
