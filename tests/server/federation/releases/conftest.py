"""Fixtures shared by the tests of releases."""

from __future__ import annotations

import pytest

from pocketquery.sdk.bundle.bundle import Bundle
from tests.sdk.tiny_bundle import default_adapter, write_tiny_bundle


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A tiny bundle with an adapter; tests do not change it."""
    folder = tmp_path_factory.mktemp("bundle") / "tiny"
    return Bundle.open(write_tiny_bundle(folder, adapter=default_adapter()))
