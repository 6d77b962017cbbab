"""A test's folder in the place of pytest's own, whose path may be too long for a Unix socket."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["short_folder", "tmp_path"]


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for a gateway's socket; pytest's own may not be."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """The same for one test."""
    with short_folder() as folder:
        yield folder
