"""Settings and fixtures of the packages' tests: those of tests/."""

from __future__ import annotations

from tests.conftest import only_this_machine, shell
from tests.export.conftest import encoder, index, queries
from tests.server.conftest import federation

__all__ = ["encoder", "federation", "index", "only_this_machine", "queries", "shell"]
