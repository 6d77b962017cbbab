"""Fixtures shared by the tests of a gateway's entrance."""

from __future__ import annotations

from tests.short_folder import tmp_path

__all__ = ["tmp_path"]
