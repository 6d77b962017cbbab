"""Fixtures shared by the tests of the server."""

from __future__ import annotations

import pytest

from tests.server.federation.small_federation import Files, write_federation


@pytest.fixture(scope="session")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A federation's files; tests do not change them."""
    return write_federation(tmp_path_factory.mktemp("federation"))
