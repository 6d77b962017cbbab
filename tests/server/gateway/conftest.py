"""Fixtures shared by the tests of the gateway."""

from __future__ import annotations

from tests.server.federation.conftest import federation
from tests.short_folder import tmp_path

__all__ = ["federation", "tmp_path"]
