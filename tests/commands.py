"""A sub-command that is run alone, with its errors: ``main`` would make exit codes of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["run_command"]


def run_command(register: Callable[[Any], object], *words: object) -> int:
    """Run what ``register`` adds to a parser on ``words``, the first of which is its name."""
    parser = argparse.ArgumentParser(prog="pocketquery")
    register(parser.add_subparsers(dest="command"))
    options = parser.parse_args([str(word) for word in words])
    return int(options.run(options))
