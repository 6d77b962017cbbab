"""Stored results: what was measured, where and from which commit, one JSON file a benchmark."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suite.table import LEFT_OUT, ROOT, Benchmark, Comparison, LeftOut

from pocketquery.sdk.files import write_atomic

__all__ = [
    "FOLDER",
    "SCHEMA",
    "compared",
    "figures_of",
    "path_of",
    "problems",
    "read",
    "shown",
    "store",
    "stored",
    "write",
]

FOLDER = ROOT / "docs" / "results"
SCHEMA = "pocketquery-benchmark-1"
PACKAGES = (
    "numpy",
    "onnxruntime",
    "sentencepiece",
    "torch",
    "transformers",
    "sentence-transformers",
    "tokenizers",
    "fastembed",
    "faiss-cpu",
    "flwr",
)


def stored(
    benchmark: Benchmark, figures: dict[str, Any], *, seconds: float, status: int
) -> dict[str, Any]:
    """The result of one run: ``figures`` as the benchmark printed them, with all that they depend
    on. It counts as reached where the benchmark says so and every threshold of the table holds."""
    return _framed(benchmark, figures, seconds, benchmark.budget, status == 0)


def store(name: str, figures: dict[str, Any], seconds: float | None = None) -> Path:
    """Store what a benchmark found that is left out of the run of all, with all that it depends on.

    Args:
        name: of the benchmark, which says of itself that it stores.
        figures: as it prints them.
        seconds: that it took; None where it goes on from what earlier runs found.
    """
    benchmark = _left_out(name)
    missed = bool(figures.get("missed")) or figures.get("reached") is False
    return write(benchmark, _framed(benchmark, figures, seconds, None, not missed))


def _framed(
    benchmark: Benchmark | LeftOut,
    figures: dict[str, Any],
    seconds: float | None,
    budget: int | None,
    is_sound: bool,
) -> dict[str, Any]:
    held = compared(benchmark, figures)
    return {
        "schema": SCHEMA,
        "name": benchmark.name,
        "command": [f"benchmarks/{benchmark.script}", *benchmark.options],
        "ended": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(node="javascript" in getattr(benchmark, "needs", ())),
        "seed": benchmark.seed,
        "seconds": None if seconds is None else round(seconds, 1),
        "budget_seconds": budget,
        "figures": figures,
        "thresholds": [{**one._asdict(), "reached": one.reached} for one in held],
        "reached": is_sound and all(one.reached for one in held),
    }


def compared(benchmark: Benchmark | LeftOut, figures: Any) -> list[Comparison]:
    """Every threshold of the table with the figure found."""
    return [one for threshold in benchmark.thresholds for one in threshold.compared(figures)]


def problems(benchmark: Benchmark | LeftOut, result: Any, where: str) -> list[str]:
    """What keeps a stored result from counting: sentences, none where it does.

    Args:
        benchmark: its row of the table.
        result: what the file holds; None where there is none.
        where: the file's name.
    """
    if result is None:
        return [f"{benchmark.name}: no stored result {where}; run: benchmarks/run_all.py"]
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        return [f"{benchmark.name}: {where} is no result of the schema {SCHEMA}"]
    figures = result["figures"]
    sentences = [
        f"{benchmark.name}: {one.figure} is {shown(one.found)}, must be {one.bound} {one.value:g}"
        for one in compared(benchmark, figures)
        if not one.reached
    ]
    missed = figures.get("missed") or []
    sentences += [f"{benchmark.name}: missed {one}" for one in missed if not sentences]
    if not sentences and not result["reached"]:
        sentences.append(f"{benchmark.name}: the benchmark itself says that a figure was missed")
    return sentences


def shown(value: float | None) -> str:
    """A figure for people."""
    return "not there" if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def path_of(benchmark: Benchmark | LeftOut) -> Path:
    """Where its result lies."""
    return FOLDER / f"{benchmark.name}.json"


def read(benchmark: Benchmark | LeftOut) -> Any:
    """The stored result, or None where there is none."""
    path = path_of(benchmark)
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def figures_of(name: str) -> dict[str, Any]:
    """What :func:`store` stored of the benchmark ``name``; empty where there is nothing."""
    result = read(_left_out(name))
    figures: dict[str, Any] = {} if result is None else result["figures"]
    return figures


def _left_out(name: str) -> LeftOut:
    (row,) = (one for one in LEFT_OUT if one.stores and one.name == name)
    return row


def write(benchmark: Benchmark | LeftOut, result: dict[str, Any]) -> Path:
    """Store a result in the place of the one before it."""
    path = path_of(benchmark)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return path


def commit() -> str:
    """What was measured: the commit, with a + where files differ from it; empty outside of git."""
    if shutil.which("git") is None:
        return ""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], capture_output=True, text=True, check=False, cwd=ROOT
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":!docs")
    return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")


def machine() -> dict[str, Any]:
    """The processor, cores that may be used, memory in GB, system, and the load at the end."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(pages / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load": [round(one, 2) for one in os.getloadavg()],
    }


def versions(*, node: bool = False) -> dict[str, str]:
    """Python's, ours, those of the packages that the benchmarks compare with, and Node's where it
    is asked for."""
    by_package = {"python": platform.python_version()}
    for package in ("pocketquery", *PACKAGES):
        try:
            by_package[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if node and (program := shutil.which("node")):
        shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        by_package["node"] = shown.stdout.strip()
    return by_package
