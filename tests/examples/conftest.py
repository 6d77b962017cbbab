"""Fixtures shared by the tests of the examples."""

from __future__ import annotations

from tests.short_folder import tmp_path

__all__ = ["tmp_path"]  # the fleets' gateways have their sockets there
