"""Fixtures of the device side."""

from __future__ import annotations

import ast
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.sdk.tiny_bundle import write_tiny_bundle, write_tiny_index

# In an environment with the base install alone (tests/packaging/test_installs.py) those tests are
# left out that compare it with other packages.
_BROUGHT_BY = {"server": "flwr", "distill": "torch", "export": "onnx"}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Whether a module of tests asks for a package that is not installed."""
    if collection_path.suffix != ".py":
        return None
    return True if _asks_for_missing(collection_path, set()) else None


def _asks_for_missing(path: Path, seen: set[Path]) -> bool:
    seen.add(path)
    for node in ast.parse(path.read_bytes()).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            if name.startswith("tests."):
                ours = Path(*name.split(".")).with_suffix(".py")
                if ours.is_file() and ours not in seen and _asks_for_missing(ours, seen):
                    return True
            elif name.split(".")[0] not in sys.stdlib_module_names and not _is_installed(name):
                return True
    return False


def _is_installed(name: str) -> bool:
    if name.startswith("pocketquery."):  # a wheel has all of it; an extra brings what it imports
        package = _BROUGHT_BY.get(name.split(".")[1])
        return package is None or find_spec(package) is not None
    return find_spec(name.split(".")[0]) is not None


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real bundle, shared by all tests: read it, do not write to it."""
    return write_tiny_bundle(tmp_path_factory.mktemp("bundle") / "tiny")


@pytest.fixture(scope="session")
def tiny_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real index in the same space, shared by all tests: read it, do not write to it."""
    return write_tiny_index(tmp_path_factory.mktemp("index") / "tiny")
