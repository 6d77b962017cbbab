"""docs/tour.md from its first command to its last, as a new user types them after ``make demo``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.page_files import run_page

pytestmark = [pytest.mark.very_slow, pytest.mark.timeout(7200)]


def test_every_block_of_the_tour_runs(tmp_path: Path) -> None:
    run_page("tour.md", tmp_path, slow=True)
