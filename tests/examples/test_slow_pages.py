"""Pages of the documentation whose blocks train, export or encode: whole, as their readers do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.page_files import run_page
from tests.examples.pages import PAGES, blocks, name_of

pytestmark = [pytest.mark.very_slow, pytest.mark.timeout(7200)]

SLOW = [
    name
    for name in map(name_of, PAGES)
    if name != "tour.md" and any(block.way for block in blocks(name, slow=True))
]  # test_tour.py runs that one: another process may


@pytest.mark.parametrize("name", SLOW)
def test_every_block_runs_and_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    run_page(name, tmp_path, slow=True)
