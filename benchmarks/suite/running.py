"""Running one benchmark in a process of its own, and reading the figures off its last line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from suite.table import ROOT, Benchmark, Need

__all__ = ["MISSING", "Run", "last_object", "missing", "run"]

GRACE = 3
"""Budgets are of a quiet machine; one that takes so many times its own is ended."""

MISSING: dict[Need, tuple[str, str]] = {
    "demo": ("demo/bundle/manifest.json", "make demo"),
    "data": ("data", "the public sets of benchmarks/README.md in data/ or $POCKETQUERY_DATA"),
    "javascript": ("sdk/js/dist/node.js", "(cd sdk/js && npm ci && npm run build)"),
    "transformers_js": (
        "benchmarks/transformers_js/node_modules",
        "(cd benchmarks/transformers_js && npm ci --ignore-scripts)",
    ),
}


class Run(NamedTuple):
    """The result of a run: the figures, or none and why."""

    figures: dict[str, Any] | None
    status: int
    seconds: float
    problem: str = ""


def missing(benchmark: Benchmark) -> list[str]:
    """What a benchmark needs and is not there, as what to do about it."""
    lacking = []
    for need in benchmark.needs:
        place, cure = MISSING[need]
        data = os.environ.get("POCKETQUERY_DATA") if need == "data" else None
        if not (Path(data) if data else ROOT / place).exists():
            lacking.append(cure)
    return lacking


def run(benchmark: Benchmark) -> Run:
    """Run it from the repository's folder; what it says goes to the terminal as it comes."""
    command = [sys.executable, f"benchmarks/{benchmark.script}", *benchmark.options]
    started = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            output, _ = process.communicate(timeout=GRACE * benchmark.budget)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            seconds = time.monotonic() - started
            return Run(None, 124, seconds, f"ended after {seconds:.0f} s")
    print(output, end="")
    lines = output.splitlines()
    seconds = time.monotonic() - started
    figures = last_object(lines)
    problem = "" if figures is not None else f"no figures; exit status {process.returncode}"
    return Run(figures, process.returncode, seconds, problem)


def last_object(lines: list[str]) -> dict[str, Any] | None:
    """The JSON object of the last line, without the folder it was measured in; None: no object."""
    try:
        value = json.loads(lines[-1].replace(f"{ROOT}/", "")) if lines else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
