"""Fixtures shared by the tests of the gateway."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.federation.conftest import federation

__all__ = ["federation", "tmp_path"]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder whose path is short enough for a gateway's socket; pytest's own may not be."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        yield Path(folder)
