"""Settings and fixtures of the packages' tests: those of tests/."""

from __future__ import annotations

from server_index import encoder, index, queries

from tests.conftest import only_this_machine, shell
from tests.export.conftest import (
    headed_student,
    student,
    xlmr_student,
)
from tests.server.conftest import federation

__all__ = [
    "encoder",
    "federation",
    "headed_student",
    "index",
    "only_this_machine",
    "queries",
    "shell",
    "student",
    "xlmr_student",
]
