"""What CI tells pytest: how long tests may still begin, and that each file has its turn."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.packaging.test_documents import ROOT

FILES = ["tests/sdk/test_fields.py", "tests/sdk/test_progress.py", "tests/sdk/test_validation.py"]
NEVER, PAST = 4e9, 5


@pytest.mark.parametrize(("until", "outcome"), [(PAST, "SKIPPED"), (NEVER, "PASSED")])
def test_what_is_late_does_not_begin_and_files_come_whole_in_another_order(
    until: float, outcome: str
) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v"]
    command += ["--begin-until", str(until), *FILES]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(tests/\S+\.py)::.* (PASSED|SKIPPED|FAILED)\b", said, re.MULTILINE)
    assert {each for _, each in found} == {outcome}
    files = [file for file, _ in found]
    order = list(dict.fromkeys(files))
    assert sorted(order) == FILES  # all are there
    assert files == sorted(files, key=order.index)  # each in one piece
    assert order != FILES  # as both numbers draw it
