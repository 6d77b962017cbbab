"""Fixtures of the device side."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sdk.tiny_bundle import write_tiny_bundle, write_tiny_index


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real bundle, shared by all tests: read it, do not write to it."""
    return write_tiny_bundle(tmp_path_factory.mktemp("bundle") / "tiny")


@pytest.fixture(scope="session")
def tiny_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real index in the same space, shared by all tests: read it, do not write to it."""
    return write_tiny_index(tmp_path_factory.mktemp("index") / "tiny")
