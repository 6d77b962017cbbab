"""Where studies keep their figures: research/results/NAME.json, with what they depend on."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suite.results import commit, machine, versions

from pocketquery.sdk.files import write_atomic

__all__ = ["figures_of", "store"]

FOLDER = Path(__file__).resolve().parents[1] / "results"


def store(name: str, figures: dict[str, Any]) -> None:
    """Store the figures of the study ``research/studies/NAME.py``."""
    result = {
        "name": name,
        "command": [f"research/studies/{name}.py"],
        "ended": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
        "figures": figures,
    }
    write_atomic(FOLDER / f"{name}.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def figures_of(name: str) -> dict[str, Any]:
    """What :func:`store` stored."""
    figures: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))["figures"]
    return figures
