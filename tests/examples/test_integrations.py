"""The blocks of docs/integrations.md, each a process of its own, against the real libraries."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.examples.pages import Block, blocks, run

pytestmark = pytest.mark.slow

OPTIONAL = ("pandas", "datasets", "langchain_core", "llama_index", "mteb", "beir", "optimum")
BLOCKS = blocks("integrations.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's first block has made its index."""
    path = tmp_path_factory.mktemp("integrations")
    assert run(BLOCKS[0], path) == BLOCKS[0].printed
    return path


@pytest.mark.parametrize("block", BLOCKS[1:], ids=lambda block: block.heading)
def test_a_block_prints_what_the_page_says(block: Block, folder: Path) -> None:
    for package in OPTIONAL:
        named = re.search(rf"^(?:from|import) {package}\b", block.code, re.MULTILINE)
        if named and find_spec(package) is None:
            pytest.skip(f"needs {package}")
    assert run(block, folder) == block.printed
