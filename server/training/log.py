"""The log of a training run: lines of JSON, each with the means since the line before."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pocketquery.sdk.files import make_folder, write_atomic

__all__ = ["Meter", "append_line", "read_log", "trim_log"]


class Meter:
    """Means since the last line; reading them is what waits for the accelerator."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._sums: dict[str, torch.Tensor | float] = {}
        self._counts: dict[str, int] = {}
        self._totals = {"tokens": 0.0, "examples": 0.0, "skipped": 0.0}

    def add(self, values: Mapping[str, torch.Tensor | float]) -> None:
        """Take in figures of one batch."""
        for name, value in values.items():
            figure = value.detach() if isinstance(value, torch.Tensor) else value
            self._sums[name] = self._sums.get(name, 0.0) + figure
            self._counts[name] = self._counts.get(name, 0) + 1

    def count(self, **totals: float) -> None:
        """Take in how much was done."""
        for name, value in totals.items():
            self._totals[name] += value

    def read(self) -> dict[str, float]:
        """Means of what was added, and rates and sums of what was counted."""
        seconds = max(time.perf_counter() - self._started, 1e-9)
        means = {name: float(self._sums[name]) / self._counts[name] for name in self._sums}
        return {
            **means,
            "tokens_per_second": self._totals["tokens"] / seconds,
            "examples_per_second": self._totals["examples"] / seconds,
            "skipped_batches": self._totals["skipped"],
        }


def append_line(log: Path, row: Mapping[str, Any]) -> None:
    """Append ``row``, floats with six significant digits."""
    make_folder(log.parent)
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps({name: _short(value) for name, value in row.items()}) + "\n")


def read_log(log: Path) -> list[dict[str, Any]]:
    """The lines of a log; one that a kill cut short is left out."""
    rows = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def trim_log(log: Path, step: int) -> None:
    """Drop the lines after ``step``, which a run that resumes there will write again."""
    if log.exists():
        rows = [row for row in read_log(log) if row["step"] <= step]
        write_atomic(log, "".join(json.dumps(row) + "\n" for row in rows))


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(inner) for name, inner in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value
